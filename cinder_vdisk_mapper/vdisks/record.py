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

"""The record of a volume or snapshot and its vdisk in Cinder's database."""

import dataclasses

from nova_diskplacer.disks.location import Location


@dataclasses.dataclass(frozen=True)
class Record:
    """A volume or snapshot in Cinder's database, deleted or not.

    ``vdisk`` is the name of its vdisk, ``disk`` its disk by the database, None
    for an unbound volume. ``here`` is true if Cinder has it on this host,
    ``settled`` if no operation is under way, ``stuck`` if an operation is
    under way for too long. ``blank_of`` is the server that Nova made the
    volume for, if nobody has used it since: it is about to be attached, or was
    never bound. ``connections`` are the different ``driver_volume_type`` by
    which servers have it attached.
    """

    id: str
    vdisk: str
    disk: str | None
    size_gb: int
    status: str
    here: bool = True
    settled: bool = True
    stuck: bool = False
    deleted: bool = False
    blank_of: str | None = None
    connections: frozenset[str] = frozenset()

    @property
    def location(self) -> Location:
        """The location by the database."""
        return Location.parse(self.disk)

    @property
    def kind(self) -> str:
        """Return the kind of the record, volume or snapshot."""
        return self.vdisk.partition('-')[0]

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids that may own the vdisk; a migrated volume has two."""
        return frozenset((self.id, self.vdisk.partition('-')[2]))
