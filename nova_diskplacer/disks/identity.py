#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The identity file of a prepared disk.

Its UUID is also that of the disk's resource provider in Placement.
"""

import dataclasses
import os
import uuid as uuidlib

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.host import state_file
from nova_diskplacer.host import sysfs

FILE = '.diskplacer.json'
VERSION = 1

# Default throughput in MB/s.
DEFAULT_MBPS = {flavor.HDD: 150, flavor.SSD: 400}


@dataclasses.dataclass(frozen=True)
class Identity:
    """The identity of a disk: ``medium`` is hdd or ssd, ``mbps`` in MB/s."""

    uuid: str
    medium: str
    mbps: int


def read(disk: str) -> Identity | None:
    """Return the identity of the disk at path ``disk``, None if it has none.

    :raises DiskError: the identity file cannot be read or is malformed.
    """
    return state_file.read(
        os.path.join(disk, FILE), parse, 'the identity of a disk'
    )


def parse(fields: object) -> Identity:
    """Return the identity in the fields of an identity file.

    :raises ValueError: the fields are malformed.
    """
    if not isinstance(fields, dict) or fields.get('version') != VERSION:
        raise ValueError(f'not a disk identity of version {VERSION}')
    medium, mbps = fields.get('medium'), fields.get('mbps')
    if medium not in DEFAULT_MBPS:
        raise ValueError(f'medium {medium!r} is not one of: hdd, ssd')
    if type(mbps) is not int or not 1 <= mbps <= constants.MAX_FIGURE:
        raise ValueError(
            f'mbps {mbps!r} is not an integer from 1 to {constants.MAX_FIGURE}'
        )
    # only the canonical form matches the UUID of the resource provider
    uuid = str(uuidlib.UUID(str(fields.get('uuid'))))
    return Identity(uuid, medium, mbps)


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in its canonical form."""
    try:
        return str(uuidlib.UUID(text)) == text
    except ValueError:
        return False


def check_uuid(text: str) -> str:
    """Return a UUID in its canonical form.

    :raises DiskError: the text is none.
    """
    if not is_uuid(text):
        raise exception.DiskError(f'{text!r} is not the UUID of a disk')
    return text


def write(disk: str, identity: Identity) -> None:
    """Write the identity file, atomically and durably.

    :raises DiskError: the disk cannot be written.
    """
    fields = {'version': VERSION, **dataclasses.asdict(identity)}
    state_file.write(os.path.join(disk, FILE), fields, durable=True)


def choose(
    path: str,
    uuid: str,
    medium: str | None,
    mbps: int | None,
    block: sysfs.Block,
    before: Identity | None = None,
) -> Identity:
    """Return the identity with which to prepare a disk.

    :param medium: hdd or ssd; None keeps the known one, by default that of
        the block device.
    :param mbps: throughput in MB/s; None keeps the known one of the same
        medium, by default that of the medium.
    :raises DiskError: the medium is unknown.
    """
    if medium is None:
        medium = before.medium if before else medium_of(block)
    if medium is None:
        raise exception.DiskError(
            f'the medium of {path} is unknown: set --medium'
        )
    if mbps is None:
        same = before if before and before.medium == medium else None
        mbps = same.mbps if same else DEFAULT_MBPS[medium]
    return Identity(uuid, medium, mbps)


def medium_of(block: sysfs.Block) -> str | None:
    """Return the medium of a device, hdd or ssd; None if it is unknown."""
    if not block.device:
        return None
    return flavor.HDD if block.rotational else flavor.SSD
