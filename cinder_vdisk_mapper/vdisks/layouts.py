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

"""Changes of vdisks wherever they are.

:meth:`Operations.at` is the one place that asks if a vdisk is striped.
"""

import contextlib
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import striped_layout
from cinder_vdisk_mapper.vdisks.layout import Layout
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer.disks import links
from nova_diskplacer.disks.location import Location

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Operations(VDiskOperations):
    """Changes vdisks on one disk, or those at a location."""

    def at(self, location: Location, name: str) -> Layout:
        """Return a vdisk at its location."""
        if location.is_striped:
            return striped_layout.Striped(self, location, name)
        return OneDisk(self, location, name)

    def of(self, volume: Volume) -> Layout:
        """Return the vdisk of a volume, where Cinder has it."""
        return self.at(naming.location(volume), naming.volume(volume))

    def delete_everywhere(self, location: Location, name: str) -> None:
        """Delete a vdisk and its leftovers on other disks.

        A vdisk on a missing disk is kept, because its bytes would stay on the
        disk; a vdisk on a forgotten disk counts as deleted.

        :param location: of the volume or snapshot, maybe empty.
        """
        vdisk = self.at(location, name)
        with vdisk.locked():
            vdisk.delete()
            self.delete_leftovers(name)
        # of a killed clone
        kind, _, id_ = name.partition('-')
        if kind == 'volume':
            self.delete_leftovers(naming.cloning(id_))


class OneDisk(Layout):
    """A vdisk on one disk, or on none."""

    @property
    def disk(self) -> str:
        """UUID of the disk, '' for none."""
        return str(self.location)

    def device_path(self) -> str:
        return self.backend.device_path(self.disk, self.name)

    def stable_path(
        self,
        volume: Volume,
        wait: bool = True,
        to_device: bool | None = None,
    ) -> str:
        return linking.stable_path(self.backend, volume, wait, to_device)

    def activate(self, volume: Volume) -> None:
        with locks.hold(f'volume-{volume.id}'):
            # a drain may have moved it since
            disk = self.backend.linked_disk(self.name)
            if disk == links.REMOTE:
                return
            if not disk or self.backend.disk(disk).find(self.name) is None:
                disk = self.disk
            if disk:
                self.backend.attach_device(disk, self.name)

    def deactivate(self) -> None:
        if self.disk and self.backend.is_linked_to_device(self.name):
            self.backend.detach_device(self.disk, self.name)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def hold_in_place(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def extend(self, size_gb: int, restores: bool = False) -> None:
        self.operations.extend(self.disk, self.name, size_gb, restores)

    def snapshot(self, snapshot: str, snapshot_id: str) -> None:
        self.operations.snapshot(self.disk, self.name, snapshot, snapshot_id)

    def clone(self, name: str, volume_id: str, size_gb: int) -> None:
        self.operations.clone(self.disk, self.name, name, volume_id, size_gb)

    def revert(self, snapshot: str | None) -> None:
        self.operations.revert(self.disk, self.name, snapshot)

    def delete(self) -> None:
        if self.disk and self.backend.forgotten(self.disk):
            LOG.warning(
                '%s was on disk %s, which is forgotten', self.name, self.disk
            )
        elif self.disk:
            self.backend.check_disk(self.disk)
            self.operations.delete(self.disk, self.name)
