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

"""The measured disk: its queue, its vdisks, and the cache of them."""

import collections.abc
import dataclasses
import os
import stat

from diskplacer_measure.sweep import cells
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import files

READ_AHEAD = 'read_ahead_kb'


@dataclasses.dataclass(frozen=True)
class MeasuredDisk:
    """The measured disk, whose queue is borrowed.

    ``device`` is the name of the device whose queue serves the disk alone,
    ``read_ahead_kb`` the read-ahead that it had before.
    """

    disk_root: str
    uuid: str
    device: str
    read_ahead_kb: str
    change: plain_queue.Change

    @classmethod
    def borrow(
        cls,
        disk_root: str,
        uuid: str,
        device: str,
        change: plain_queue.Change,
    ) -> 'MeasuredDisk':
        """Return a disk whose queue has its own settings now.

        :raises DiskError: the queue cannot be read.
        """
        with files.disk_errors(f'the queue of {device}'):
            now = block_queue.read(device).values
        return cls(disk_root, uuid, device, now[READ_AHEAD], change)

    def prepare(self, cell: cells.Cell, path: str = '') -> None:
        """Make the queue that of a cell, and check it.

        :param path: the file or device that bare metal measures.
        :raises DiskError: the kernel refuses.
        """
        settings = {
            block_queue.SCHEDULER: cell.host_scheduler,
            READ_AHEAD: self.read_ahead_kb,
        }
        if path:
            settings[READ_AHEAD] = str(cell.read_ahead_kb)
            with files.disk_errors(path):
                if stat.S_ISBLK(os.stat(path).st_mode):
                    # the volume has a queue of its own, and vanishes with it
                    block_queue.write(
                        os.path.basename(os.path.realpath(path)),
                        READ_AHEAD,
                        settings[READ_AHEAD],
                    )
        self.change(settings)
        self.check(cell)

    def check(self, cell: cells.Cell) -> None:
        """Check that the scheduler is that of a cell.

        :raises DiskError: it is another.
        """
        with files.disk_errors(f'the queue of {self.device}'):
            now = block_queue.read(self.device).values
        if now.get(block_queue.SCHEDULER) != cell.host_scheduler:
            raise exception.DiskError(
                f'{self.device} has the I/O scheduler '
                f'{now.get(block_queue.SCHEDULER)}, not '
                f'{cell.host_scheduler}: something else changed it'
            )

    def drop_caches(self) -> None:
        """Drop this host's cache of the disk's vdisks."""
        disk = discover.inspect(self.disk_root, self.uuid)
        for vdisk in disk.vdisks:
            path = vdisk_path(disk, vdisk.name)
            with (
                files.disk_errors(path),
                files.opened(path, os.O_RDONLY) as file,
            ):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    def require_servers(
        self, servers: collections.abc.Collection[str]
    ) -> None:
        """Check that each server has its vdisk here, and nobody else has one.

        :raises DiskPlacerError: a vdisk is elsewhere, or another is here.
        """
        disk_of: dict[str | None, str] = {}
        for disk in discover.discover(self.disk_root):
            for vdisk in disk.vdisks:
                if vdisk.server_id in servers:
                    disk_of[vdisk.server_id] = disk.uuid
                elif disk.uuid == self.uuid:
                    raise exception.DiskPlacerError(
                        f'disk {disk.uuid} is in use: vdisk {vdisk.name} '
                        f'of server {vdisk.server_id} has come there'
                    )
        for server in servers:
            if disk_of.get(server) != self.uuid:
                raise exception.DiskPlacerError(
                    f'the vdisk of server {server} is on disk '
                    f'{disk_of.get(server)}, not on {self.uuid}'
                )


def vdisk_path(disk: discover.Disk, name: str) -> str:
    """Return the path of a vdisk's file or device."""
    if naming.is_entry(disk.path):
        return naming.device_path(disk.uuid, name)
    return vdisks.path(disk.path, name)


def require_empty(disk: discover.Disk) -> None:
    """Check that a disk has no vdisks, of running servers or others.

    :raises DiskError: it has.
    """
    names = [
        vdisk.name for vdisk in disk.vdisks if vdisk.name != volumes.TEMPORARY
    ]
    if names:
        raise exception.DiskError(
            f'disk {disk.uuid} has vdisks, {", ".join(names)}: only a disk '
            'without any can be measured'
        )


def free_temporary_space(disk_root: str, uuid: str) -> None:
    """Free the space that a killed run has left on a disk.

    :raises DiskError: the disk refuses.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        volumes.remove_temporary(uuid)
