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

"""Vdisks as raw files, preallocated or reflinked, one filesystem per disk."""

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import base
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB


class FilesystemBackend(base.Backend):
    """A vdisk is ``<disk root>/<disk>/vdisks/<name>``."""

    # Nova's only connection that is a plain file with a path of its own:
    # 'local' makes it a block device to QEMU, which refuses a file then.
    connection_type = 'gpfs'

    def __init__(self, disk_root: str) -> None:
        super().__init__(disk_root)
        privsep.setup()

    def disks(self) -> list[discover.Disk]:
        return [base.as_disk(one) for one in privsep.find(self.disk_root)]

    def disk(self, uuid: str) -> discover.Disk:
        return base.as_disk(privsep.inspect(self.disk_root, uuid))

    def create(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
    ) -> None:
        privsep.create(
            self.disk_root,
            disk,
            name,
            volume_id,
            server_id,
            size_gb * GIB,
        )

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        privsep.extend(self.disk_root, disk, name, size_gb * GIB)

    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        privsep.shrink(self.disk_root, disk, name, size_gb * GIB)

    def delete(self, disk: str, name: str) -> None:
        privsep.delete(self.disk_root, disk, name)

    def sweep(self, disk: str) -> None:
        privsep.sweep(self.disk_root, disk)

    def written(self, disk: str, name: str) -> bool:
        return privsep.written(self.disk_root, disk, name)

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        privsep.snapshot(self.disk_root, disk, name, snapshot, snapshot_id)

    def clone(
        self,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        privsep.clone(
            self.disk_root,
            disk,
            source,
            name,
            volume_id,
            size_gb * GIB,
        )

    def revert(self, disk: str, name: str, snapshot: str) -> None:
        privsep.revert(self.disk_root, disk, name, snapshot)

    def clear(self, disk: str, name: str) -> None:
        privsep.clear(self.disk_root, disk, name)

    def copy(self, disk: str, name: str, target: str) -> None:
        start: int | None = 0
        while start is not None:
            start = privsep.copy(self.disk_root, disk, name, target, start)

    def rename(
        self, disk: str, name: str, new_name: str, volume_id: str
    ) -> None:
        privsep.rename(self.disk_root, disk, name, new_name, volume_id)

    def device_path(self, disk: str, name: str) -> str:
        return vdisks.path(discover.disk_path(self.disk_root, disk), name)
