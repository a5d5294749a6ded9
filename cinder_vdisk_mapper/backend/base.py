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

from nova_diskplacer.disks import discover


class Backend(abc.ABC):
    """Keeps vdisks; decides nothing.

    Every method may be repeated after a crash. Disks are named by UUID.
    """

    #: ``driver_volume_type`` of the connections to a vdisk
    connection_type: str

    def __init__(self, disk_root: str) -> None:
        self.disk_root = disk_root

    @abc.abstractmethod
    def disks(self) -> list[discover.Disk]:
        """Return the disks of this host, sorted by UUID."""

    @abc.abstractmethod
    def disk(self, uuid: str) -> discover.Disk:
        """Return one disk; its health is missing if it is not there."""

    @abc.abstractmethod
    def forgotten(self, uuid: str) -> bool:
        """Tell whether a disk has been taken out of this host for good.

        One that is missing is not: it may come back.
        """

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

        :raises DiskError: the disk lacks the space or refuses.
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

    @abc.abstractmethod
    def device_path(self, disk: str, name: str) -> str:
        """Return the path by which a vdisk is attached."""
