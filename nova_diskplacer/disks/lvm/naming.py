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

"""Names and tags of volume groups and logical volumes."""

import collections.abc
import os
import re

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.location import Location

# Tags of a group: common to all disks, then the disk's identity.
TAG = 'diskplacer'
UUID = 'diskplacer.uuid'
MEDIUM = 'diskplacer.medium'
MBPS = 'diskplacer.mbps'
# The free space of the group reads as zeros; valid for one seqno of metadata.
ZEROED = 'diskplacer.zeroed'

# Tags of a volume: its owners.
VOLUME = 'diskplacer.volume'
SERVER = 'diskplacer.server'
# The volume may hold data of a deleted one from this byte on.
DIRTY_FROM = 'diskplacer.dirty_from'
# Disks of a striped vdisk, as in ``diskplacer.stripe.0=<UUID>``, and the bytes
# on one of them before the next one follows.
STRIPE = 'diskplacer.stripe'
CHUNK = 'diskplacer.chunk'
# The least number of disks of an elastic vdisk.
MINIMUM = 'diskplacer.minimum'
# A leg of an elastic vdisk that comes to a disk: its number. "left" for one
# that has left the disk.
MOVING = 'diskplacer.moving'
# A clone that is being made, and a volume that is being deleted.
INCOMPLETE = 'diskplacer.incomplete'
DELETED = 'diskplacer.deleted'

# The bytes of a chunk of new striped vdisks.
CHUNK_BYTES = 256 << 10

# The pool of a thin group.
POOL = 'pool'

PREFIX = 'diskplacer-'

_VDISK = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}')
_LEG = re.compile(r'\.[0-9]$')
# LVM reserves names with this prefix.
_RESERVED = 'snapshot'


def group_name(uuid: str) -> str:
    """Return the name of the volume group of a disk.

    :raises DiskError: ``uuid`` is no UUID in its canonical form.
    """
    return PREFIX + identity.check_uuid(uuid)


def group_of_argument(argument: str) -> str | None:
    """Return the disk's volume group in an argument of LVM, if any."""
    name = argument.partition('/')[0]
    is_group = name.startswith(PREFIX) and identity.is_uuid(
        name.removeprefix(PREFIX)
    )
    return name if is_group else None


def volume_name(vdisk: str) -> str:
    """Return the name of the logical volume of a vdisk.

    :raises DiskError: no vdisk can have this name.
    """
    if not _VDISK.fullmatch(vdisk) or vdisk == POOL:
        raise exception.DiskError(
            f'{vdisk!r} cannot be the name of a vdisk: letters, digits and '
            '_.+- are allowed, 63 in all'
        )
    return '_' + vdisk if vdisk.startswith(_RESERVED) else vdisk


def vdisk_name(volume: str) -> str:
    """Return the name of the vdisk of a logical volume."""
    return volume[1:] if volume.startswith('_' + _RESERVED) else volume


def device_path(uuid: str, vdisk: str) -> str:
    """Return the path of a vdisk's device."""
    return f'/dev/{group_name(uuid)}/{volume_name(vdisk)}'


def striped_device(vdisk: str) -> str:
    """Return the path of the device over the pieces of a striped vdisk."""
    return f'/dev/mapper/{constants.STRIPED_DEVICE}{volume_name(vdisk)}'


def moving_device(vdisk: str, leg: int) -> str:
    """Return the path of the device over both places of a moving leg."""
    return f'/dev/mapper/{constants.MOVING_DEVICE}{volume_name(vdisk)}.{leg}'


def pieces(location: Location) -> list[tuple[str, str]]:
    """Return the disk of each leg, and what its name has after the vdisk's.

    The lowest leg of a disk has the vdisk's name. So does each piece of a
    vdisk that has one leg on each disk.
    """
    return [
        (disk, '' if disk not in location[:leg] else f'.{leg}')
        for leg, disk in enumerate(location)
    ]


def whole_name(name: str) -> str:
    """Return the name of the vdisk that a leg with that name belongs to."""
    return _LEG.sub('', name)


def is_entry(path: str) -> bool:
    """Tell whether an entry of the disk root belongs to a volume group."""
    target = f'/dev/{PREFIX}{os.path.basename(path)}'
    return os.path.islink(path) and os.readlink(path) == target


def identity_tags(disk: identity.Identity) -> list[str]:
    """Return the tags that give a volume group the identity of a disk."""
    return [
        f'{UUID}={disk.uuid}',
        f'{MEDIUM}={disk.medium}',
        f'{MBPS}={disk.mbps}',
    ]


def zeroed_tag(seqno: int) -> str:
    """Return the tag ZEROED that is valid for one seqno of the metadata."""
    return f'{ZEROED}={seqno}'


def value(tags: collections.abc.Set[str], key: str) -> str:
    """Return the value of the tag ``key=value``, '' without exactly one."""
    values = [tag[len(key) + 1 :] for tag in tags if tag.startswith(key + '=')]
    return values[0] if len(values) == 1 else ''


def number(text: str) -> int | None:
    """Return the number that the value of a tag is, None if it is none."""
    return int(text) if text.isdecimal() else None


def stripe_tags(location: Location, minimum: int = 0) -> list[str]:
    """Return the tags of each piece of a striped vdisk.

    :param minimum: least number of disks of an elastic vdisk, 0 for others.
    """
    return [
        *location_tags(location),
        f'{CHUNK}={CHUNK_BYTES}',
        *([f'{MINIMUM}={minimum}'] if minimum else ()),
    ]


def location_tags(location: Location) -> list[str]:
    """Return those of these tags that tell the disks."""
    return [f'{STRIPE}.{leg}={disk}' for leg, disk in enumerate(location)]


def stripe_of(tags: collections.abc.Set[str]) -> Location:
    """Return the location of a striped vdisk, empty for any other vdisk."""
    number = sum(tag.startswith(STRIPE + '.') for tag in tags)
    disks = [value(tags, f'{STRIPE}.{index}') for index in range(number)]
    return Location(disks if all(disks) else ())


def tag_options(
    add: collections.abc.Iterable[str] = (),
    remove: collections.abc.Iterable[str] = (),
) -> list[str]:
    """Return LVM's options that remove and add tags."""
    return [
        *(f'--deltag={tag}' for tag in sorted(remove)),
        *(f'--addtag={tag}' for tag in sorted(add)),
    ]
