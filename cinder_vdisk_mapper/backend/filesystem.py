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

"""Vdisks as preallocated raw files, one filesystem per disk."""

import dataclasses
import os
from typing import Any

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import base
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import vdisks


class FilesystemBackend(base.Backend):
    """A vdisk is ``<disk root>/<disk>/vdisks/<name>``."""

    # Nova's only connection that is a plain file with a path of its own:
    # 'local' makes it a block device to QEMU, which refuses a file then.
    connection_type = 'gpfs'

    def __init__(self, disk_root: str) -> None:
        super().__init__(disk_root)
        privsep.setup()

    def disks(self) -> list[discover.Disk]:
        return [_disk(fields) for fields in privsep.find(self.disk_root)]

    def disk(self, uuid: str) -> discover.Disk:
        return _disk(privsep.inspect(self.disk_root, uuid))

    def forgotten(self, uuid: str) -> bool:
        # where the root itself is away nothing can be told
        return os.path.isdir(self.disk_root) and not os.path.lexists(
            self._path(uuid)
        )

    def create(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
    ) -> None:
        privsep.create(
            self._path(disk), name, volume_id, server_id, size_gb * vdisks.GIB
        )

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        privsep.extend(self._path(disk), name, size_gb * vdisks.GIB)

    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        privsep.shrink(self._path(disk), name, size_gb * vdisks.GIB)

    def delete(self, disk: str, name: str) -> None:
        privsep.delete(self._path(disk), name)

    def device_path(self, disk: str, name: str) -> str:
        return vdisks.path(self._path(disk), name)

    def _path(self, disk: str) -> str:
        return os.path.join(self.disk_root, disk)


def _disk(fields: Any) -> discover.Disk:
    disk = discover.Disk(*fields)
    held = tuple(vdisks.VDisk(*one) for one in fields[-1])
    return dataclasses.replace(disk, vdisks=held)
