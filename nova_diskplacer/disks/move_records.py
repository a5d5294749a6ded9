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

"""Records of the moves of vdisks from disk to disk of a host.

A record is made durably before the target, and removed after the source or the
target is deleted. It tells which of two copies was the source, and what makes
known if the claim of the vdisk's server has followed. Which copy is the volume
is told by the volume's link and by Cinder.

The record of a move of legs is for the claim alone, and is removed when the
claim will not be moved any more: the tags of the legs tell the rest.
"""

import contextlib
import os
from typing import NamedTuple

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.host import files as host_files

#: Directory of the records in the disk root.
DIRECTORY = 'moves'


class Record(NamedTuple):
    """The UUIDs of the disks that a vdisk is moved from and to.

    ``unfilled_gb`` are the GiB of its server's claim on the source that no
    vdisk filled before, as ``claim_moves.Held`` has them: None without a
    server, or if an earlier release has begun the move.
    """

    source: str
    target: str
    unfilled_gb: int | None = None

    @property
    def disks(self) -> tuple[str, str]:
        """The source and the target."""
        return self.source, self.target


def read(disk_root: str, name: str) -> Record | None:
    """Return the record of a vdisk's move, None if there is none.

    :raises DiskError: it cannot be read, or no vdisk can have this name.
    """
    place = _path(disk_root, name)
    with host_files.disk_errors(place):
        try:
            with open(place, encoding='utf-8', errors='replace') as stream:
                words = stream.read().split()
        except FileNotFoundError:
            return None
    if len(words) in (2, 3) and all(map(identity.is_uuid, words[:2])):
        with contextlib.suppress(ValueError):
            return Record(words[0], words[1], *map(int, words[2:]))
    # nothing of ours: without a record no copy is taken for the volume
    return None


def from_disk(disk_root: str, disk: str) -> dict[str, Record]:
    """Return the records of moves from a disk, by the names of the vdisks.

    :raises DiskError: the records cannot be read.
    """
    directory = os.path.join(disk_root, DIRECTORY)
    with host_files.disk_errors(directory):
        names = os.listdir(directory) if os.path.isdir(directory) else []
    records = {}
    for name in sorted(names):
        # not that of a file that is being replaced
        with contextlib.suppress(exception.DiskError):
            record = read(disk_root, name)
            if record and record.source == disk:
                records[name] = record
    return records


def write(disk_root: str, name: str, record: Record) -> None:
    """Make or replace the record of a vdisk's move, durably.

    :raises DiskError: it cannot be written.
    """
    place = _path(disk_root, name)
    for disk in record.disks:
        identity.check_uuid(disk)
    with host_files.disk_errors(place):
        directory = os.path.dirname(place)
        if not os.path.isdir(directory):
            os.makedirs(directory, mode=0o755, exist_ok=True)
            host_files.sync(disk_root)
        words = (str(word) for word in record if word is not None)
        text = ' '.join(words) + '\n'
        host_files.replace(place, text, durable=True, mode=0o644)


def remove(disk_root: str, name: str) -> None:
    """Remove the record of a vdisk's move, if there is one.

    :raises DiskError: it cannot be removed.
    """
    host_files.remove(_path(disk_root, name))


def _path(disk_root: str, name: str) -> str:
    return os.path.join(disk_root, DIRECTORY, files.check_name(name))
