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

"""What a driver backend does: keep vdisks on the disks of this host."""

import abc
import collections.abc
import dataclasses
import os
from typing import Any

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk


class Backend(abc.ABC):
    """Keeps vdisks; decides nothing.

    Every method may be repeated after a crash. Disks are named by UUID. A
    disk's UUID or a vdisk's name that is none is refused with DiskError.
    """

    #: ``driver_volume_type`` of the connections to a vdisk
    connection_type: str

    #: options of the driver's section of cinder.conf, None without a driver
    configuration: Any = None

    def __init__(self, disk_root: str) -> None:
        self.disk_root = disk_root

    @abc.abstractmethod
    def disks(self) -> list[discover.Disk]:
        """Return the disks of this host, sorted by UUID.

        One that hangs keeps nobody waiting: see ``discover.discover``.
        """

    @abc.abstractmethod
    def disk(self, uuid: str) -> discover.Disk:
        """Return one disk; its health is missing if it is not there."""

    def forgotten(self, uuid: str) -> bool:
        """Tell whether a disk has been taken out of this host for good.

        One that is missing is not: it may come back.
        """
        return discover.is_forgotten(self.disk_root, uuid)

    def has_entry(self, uuid: str) -> bool:
        """Tell whether the disk root has an entry of a disk."""
        return os.path.lexists(discover.disk_path(self.disk_root, uuid))

    @abc.abstractmethod
    def create(
        self,
        disk: str,
        name: str,
        volume_id: str,
        server_id: str | None,
        size_gb: int,
    ) -> None:
        """Allocate a vdisk of ``size_gb`` GiB that reads as zeros.

        Nothing is done if the volume has one of that name already.

        :raises DiskError: the disk lacks the space or refuses, or the vdisk
            of that name is another volume's.
        """

    @abc.abstractmethod
    def extend(self, disk: str, name: str, size_gb: int) -> None:
        """Make a vdisk ``size_gb`` GiB long, all of it allocated.

        :raises DiskError: the disk lacks the space or refuses.
        """

    @abc.abstractmethod
    def shrink(self, disk: str, name: str, size_gb: int) -> None:
        """Undo an extension that was never used.

        :raises DiskError: the disk refuses.
        """

    @abc.abstractmethod
    def delete(self, disk: str, name: str) -> None:
        """Delete a vdisk; its bytes can be read by nobody afterwards.

        :raises DiskError: the disk refuses.
        """

    def sweep(self, disk: str) -> None:  # noqa: B027 most have nothing to do
        """Remove what changes that were killed have left on a disk.

        There is nothing to do where what is left can be told from a vdisk
        that is whole.

        :raises DiskError: the disk refuses.
        """

    def written(self, disk: str, name: str) -> bool:
        """Tell whether a vdisk may have been written to since it was made.

        A backend that cannot know it says so of all.

        :raises DiskError: there is no such vdisk, or the disk refuses.
        """
        return True

    @abc.abstractmethod
    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Freeze the content of a vdisk as another one on the same disk.

        It is that of one moment, also while the vdisk is in use. Nothing is
        done if the Cinder snapshot has a vdisk of that name already.

        :raises DiskError: there is no such vdisk, the disk lacks the space or
            refuses, or the vdisk ``snapshot`` is somebody else's.
        """

    @abc.abstractmethod
    def clone(
        self,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        """Make a vdisk with the content of a vdisk or snapshot of its disk.

        It is of ``size_gb`` GiB, all of it allocated; what the source lacks
        reads as zeros. It never appears half made. Nothing is done if the
        volume has one of that name already.

        :raises DiskError: there is no such source or it is larger, the disk
            lacks the space or refuses, or the vdisk ``name`` is another
            volume's.
        """

    def allocate_clone(
        self,
        disk: str,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        """Take the space of a clone; ``clone`` follows and completes it.

        It is called with the disk locked. A backend that clones by copying
        data overrides it to allocate a vdisk that counts, but is known to be
        incomplete until ``clone`` is done with it.

        :raises DiskError: as ``clone``.
        """
        self.clone(disk, source, name, volume_id, size_gb)

    @abc.abstractmethod
    def revert(self, disk: str, name: str, snapshot: str) -> None:
        """Give a vdisk that is not attached the content of its snapshot.

        Size, volume and server stay; what the snapshot lacks reads as zeros.

        :raises DiskError: there is no such vdisk or snapshot, or the disk
            refuses.
        """

    @abc.abstractmethod
    def clear(self, disk: str, name: str) -> None:
        """Have a vdisk that is not attached read as zeros again.

        Size, volume and server stay, and all of it stays allocated.

        :raises DiskError: there is no such vdisk, or the disk refuses.
        """

    @abc.abstractmethod
    def copy(self, disk: str, name: str, target: str) -> None:
        """Copy a vdisk's content to its vdisk on disk ``target``.

        That one has the same name and volume, is at least as large and not
        attached. The copy survives a power failure when this returns; what
        the source lacks reads as zeros.

        :raises DiskError: either is not there, they do not match, or a disk
            refuses.
        """

    @abc.abstractmethod
    def rename(
        self, disk: str, name: str, new_name: str, volume_id: str
    ) -> None:
        """Rename a vdisk that is not attached and give it to a volume.

        Nothing is done if that has been done. It is no server's afterwards.

        :param volume_id: '' for nobody.
        :raises DiskError: there is no such vdisk, there is one of the new
            name, or the disk refuses.
        """

    @abc.abstractmethod
    def device_path(self, disk: str, name: str) -> str:
        """Return the path by which a vdisk is attached."""


def as_disk(fields: tuple[Any, ...]) -> discover.Disk:
    """Return the disk of these fields, as a helper process returned them."""
    disk = discover.Disk(*fields)
    rows: collections.abc.Iterable[Any] = disk.vdisks
    held = tuple(VDisk(*row) for row in rows)
    return dataclasses.replace(disk, vdisks=held)
