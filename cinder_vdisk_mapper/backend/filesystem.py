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
from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.host import copy_rate


class FilesystemBackend(base.Backend):
    """A vdisk is ``<disk root>/<disk>/vdisks/<name>``."""

    # Nova's only connection type for a file at any path: with 'local' QEMU
    # expects a block device.
    connection_type = 'gpfs'

    makes_devices = True

    helper = privsep

    def allocate_clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        self.clone(disk, source, name, volume_id, size_gb)

    def copy(self, disk: str, name: str, target: str, rate: int = 0) -> None:
        start: int | None = 0
        limit = copy_rate.Limit(rate)
        while start is not None:
            limit.wait(start)
            start = self._run('copy', disk, name, target, start)

    def is_linked_to_device(self, name: str) -> bool:
        return self._read(links.is_to_device, 'is_to_device', name)

    def attached_path(self, disk: str, name: str) -> str:
        if self.is_linked_to_device(name):
            return devices.path(disk, name)
        return self.device_path(disk, name)

    def attach_device(self, disk: str, name: str) -> None:
        if self.is_linked_to_device(name):
            self._run('attach_device', disk, name)

    def detach_device(self, disk: str, name: str) -> None:
        self._run('detach_device', disk, name)

    def with_device(self, disk: str) -> list[str]:
        return list(self._run('with_device', disk))

    def device_path(self, disk: str, name: str) -> str:
        return vdisks.path(discover.disk_path(self.disk_root, disk), name)
