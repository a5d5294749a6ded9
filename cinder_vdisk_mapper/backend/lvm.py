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

from cinder.volume import driver  # noqa: F401 registers volume_clear
from cinder.volume import volume_utils
from oslo_concurrency import processutils
from oslo_config import cfg

from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.backend import striping
from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.host import sysfs

CONF = cfg.CONF

MIB = 1 << 20


class LVMBackend(striping.StripingBackend):
    """A vdisk is ``/dev/diskplacer-<disk>/<name>``.

    A striped one is ``/dev/mapper/diskplacer-striped-<name>``, over its pieces
    of that name on each of its disks. Each leg of an elastic one is a logical
    volume of its own.
    """

    connection_type = base.BLOCK_DEVICE

    helper = privsep_lvm

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        self._resize('extend', disk, name, size_gb)

    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        self._resize('shrink', disk, name, size_gb)

    def _resize(
        self, operation: str, disk: str, name: str, size_gb: int
    ) -> None:
        legs = self._run('legs', disk, name) or [name]
        for leg in legs:
            self._run(operation, disk, leg, size_gb * GIB // len(legs))

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        for suffix in self._suffixes(disk, name):
            leg, new_leg = name + suffix, snapshot + suffix
            self._run('snapshot', disk, leg, new_leg, snapshot_id)

    def clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        self._clone('clone', disk, source, name, volume_id, size_gb)

    def allocate_clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        self._clone('allocate_clone', disk, source, name, volume_id, size_gb)

    def _clone(
        self,
        operation: str,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        suffixes = self._suffixes(disk, source)
        size = size_gb * GIB // len(suffixes)
        for suffix in suffixes:
            leg, new_leg = source + suffix, name + suffix
            self._run(operation, disk, leg, new_leg, volume_id, size)

    def revert(self, disk: str, name: str, snapshot: str) -> None:
        for suffix in self._suffixes(disk, name):
            self._run('revert', disk, name + suffix, snapshot + suffix)

    def clear(self, disk: str, name: str) -> None:
        for suffix in self._suffixes(disk, name):
            self._run('clear', disk, name + suffix)

    def rename(
        self, disk: str, name: str, new_name: str, volume_id: str
    ) -> None:
        # the first leg, whose owners are the vdisk's, proves that all is done
        for suffix in reversed(self._suffixes(disk, name)):
            leg, new_leg = name + suffix, new_name + suffix
            self._run('rename', disk, leg, new_leg, volume_id)

    def _suffixes(self, disk: str, name: str) -> list[str]:
        """Return what the names of a vdisk's legs have after its own."""
        legs = self._run('legs', disk, name) or [name]
        return [leg.removeprefix(name) for leg in legs]

    def delete(self, disk: str, name: str) -> None:
        for leg in self._run('legs', disk, name):
            wiped = self._mark_and_wipe(disk, leg)
            self._run('remove', disk, leg, wiped)

    def condemn(self, disk: str, name: str) -> None:
        for leg in self._run('legs', disk, name):
            self._run('mark_deleted', disk, leg)

    def delete_moving(self, disk: str, name: str) -> None:
        legs = self._run('moving_legs', disk, name)
        wiped = [self._mark_and_wipe(disk, leg) for leg in legs]
        self._run('remove_legs', disk, name, all(wiped))

    def _mark_and_wipe(self, disk: str, name: str) -> bool:
        """Mark a volume as deleted, and return whether it has no data now."""
        device = self._run('mark_deleted', disk, name)
        return device is None or self._wipe(disk, name, *device)

    def attach_device(self, disk: str, name: str) -> None:
        self._run('activate', disk, name)

    def sweep(self, disk: str) -> None:
        """Do nothing: tags mark the incomplete volumes."""

    def written(self, disk: str, name: str) -> bool:
        return True

    def device_path(self, disk: str, name: str) -> str:
        return naming.device_path(disk, name)

    def _wipe(self, disk: str, name: str, path: str, size_bytes: int) -> bool:
        """Wipe a deleted volume as configured; return whether entirely."""
        options = self.configuration or CONF
        if options.volume_clear == 'none':
            return False
        megabytes = options.volume_clear_size
        all_of_it = not 0 < megabytes < size_bytes // MIB
        if all_of_it and _supports_write_zeroes(path):
            self._run('zero', disk, name)
            return True
        try:
            volume_utils.clear_volume(
                size_bytes // MIB,
                path,
                volume_clear=options.volume_clear,
                volume_clear_size=megabytes if not all_of_it else 0,
                volume_clear_ionice=options.volume_clear_ionice,
            )
        except processutils.ProcessExecutionError as error:
            raise exception.DiskError(f'{path}: {error.stderr}') from error
        return all_of_it


def _supports_write_zeroes(path: str) -> bool:
    """Return whether a device supports the write zeroes command."""
    device = os.path.basename(os.path.realpath(path))
    limit = f'/sys/class/block/{device}/queue/write_zeroes_max_bytes'
    return int(sysfs.read_optional(limit) or 0) > 0
