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

"""Vdisks as logical volumes, one volume group per disk."""

import os
from typing import Any

from cinder.volume import driver  # noqa: F401 registers volume_clear
from cinder.volume import volume_utils
from oslo_concurrency import processutils
from oslo_config import cfg

from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.vdisk import GIB

CONF = cfg.CONF

MIB = 1 << 20


class LVMBackend(base.Backend):
    """A vdisk is ``/dev/diskplacer-<disk>/<name>``."""

    connection_type = 'local'

    def __init__(self, disk_root: str) -> None:
        super().__init__(disk_root)
        privsep_lvm.setup()

    def disks(self) -> list[discover.Disk]:
        return [base.as_disk(one) for one in privsep_lvm.find(self.disk_root)]

    def disk(self, uuid: str) -> discover.Disk:
        return base.as_disk(privsep_lvm.inspect(self.disk_root, uuid))

    def create(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
    ) -> None:
        privsep_lvm.create(disk, name, volume_id, server_id, size_gb * GIB)

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        privsep_lvm.extend(disk, name, size_gb * GIB)

    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        privsep_lvm.shrink(disk, name, size_gb * GIB)

    def delete(self, disk: str, name: str) -> None:
        condemned = privsep_lvm.condemn(disk, name)
        wiped = condemned is None or self._wipe(disk, name, *condemned)
        privsep_lvm.remove(disk, name, wiped)

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        privsep_lvm.snapshot(disk, name, snapshot, snapshot_id)

    def allocate_clone(
        self,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        privsep_lvm.allocate_clone(
            disk, source, name, volume_id, size_gb * GIB
        )

    def clone(
        self,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        privsep_lvm.clone(disk, source, name, volume_id, size_gb * GIB)

    def revert(self, disk: str, name: str, snapshot: str) -> None:
        privsep_lvm.revert(disk, name, snapshot)

    def clear(self, disk: str, name: str) -> None:
        privsep_lvm.clear(disk, name)

    def copy(self, disk: str, name: str, target: str) -> None:
        privsep_lvm.copy(disk, name, target)

    def rename(
        self, disk: str, name: str, new_name: str, volume_id: str
    ) -> None:
        privsep_lvm.rename(disk, name, new_name, volume_id)

    def device_path(self, disk: str, name: str) -> str:
        return groups.device_path(disk, name)

    def _wipe(self, disk: str, name: str, path: str, size_bytes: int) -> bool:
        """Wipe a deleted volume as configured; tell whether all of it."""
        if self._option('volume_clear') == 'none':
            return False
        megabytes = self._option('volume_clear_size')
        all_of_it = not 0 < megabytes < size_bytes // MIB
        if all_of_it and _writes_zeros_by_itself(path):
            privsep_lvm.zero(disk, name)
            return True
        try:
            volume_utils.clear_volume(
                size_bytes // MIB,
                path,
                volume_clear=self._option('volume_clear'),
                volume_clear_size=megabytes if not all_of_it else 0,
                volume_clear_ionice=self._option('volume_clear_ionice'),
            )
        except processutils.ProcessExecutionError as error:
            raise exception.DiskError(f'{path}: {error.stderr}') from error
        return all_of_it

    def _option(self, name: str) -> Any:
        return getattr(self.configuration or CONF, name)


def _writes_zeros_by_itself(path: str) -> bool:
    """Tell whether a device needs no zeros to be sent to it."""
    device = os.path.basename(os.path.realpath(path))
    limit = f'/sys/class/block/{device}/queue/write_zeroes_max_bytes'
    try:
        with open(limit, encoding='ascii') as stream:
            return int(stream.read()) > 0
    except OSError:
        return False
