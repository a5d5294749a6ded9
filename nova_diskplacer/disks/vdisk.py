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

"""A vdisk of either kind of disk."""

import dataclasses

from nova_diskplacer.disks.location import Location

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class VDisk:
    """A vdisk; ``server_id`` is the server that it was bound for.

    A vdisk is not ``usable`` while it may hold data of a deleted one, is an
    incomplete clone, or is being deleted.

    ``stripe`` is the location of a striped vdisk, empty for any other. What
    is on one disk is a piece of it. An elastic vdisk has at least ``minimum``
    disks, 0 for any other, and its piece consists of legs. It is ``moving``
    while a leg comes to the disk, or has left it; such a leg counts in the
    size.
    """

    name: str
    volume_id: str
    server_id: str | None
    size_bytes: int
    usable: bool = True
    stripe: Location = Location()
    minimum: int = 0
    moving: bool = False

    @property
    def size_gb(self) -> int:
        """Size in GiB, rounded up."""
        return -(-self.size_bytes // GIB)

    @property
    def is_snapshot(self) -> bool:
        """True for a Cinder snapshot, whose id ``volume_id`` then is."""
        return is_snapshot(self.name)


def is_snapshot(name: str) -> bool:
    """Tell whether a vdisk of this name is a Cinder snapshot."""
    return name.startswith('snapshot-')
