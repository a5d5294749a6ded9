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

"""The interface of a vdisk at its location, on one disk or striped."""

import abc
import dataclasses
from contextlib import AbstractContextManager

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer.disks.location import Location


@dataclasses.dataclass(frozen=True)
class Layout(abc.ABC):
    """A vdisk at its location, all of whose parts are changed together.

    Errors are those of :class:`VDiskOperations`.

    :param location: empty for a vdisk that is not bound.
    :param name: of the vdisk.
    """

    operations: VDiskOperations
    location: Location
    name: str

    @property
    def backend(self) -> base.Backend:
        """The backend that stores the vdisk."""
        return self.operations.backend

    @abc.abstractmethod
    def device_path(self) -> str:
        """Return the path by which the vdisk is attached."""

    @abc.abstractmethod
    def stable_path(
        self,
        volume: Volume,
        wait: bool = True,
        to_device: bool | None = None,
    ) -> str:
        """Return a path that stays when the vdisk is moved.

        :param wait: whether to wait for another process that works on the
            volume.
        :param to_device: whether it leads to a block device that is made for
            the vdisk; None to keep what it was attached as.
        """

    @abc.abstractmethod
    def activate(self, volume: Volume) -> None:
        """Make the device of a volume, if it has one that has to be made.

        A striped one has, one that was attached as a block device, and each
        logical volume.
        """

    @abc.abstractmethod
    def deactivate(self) -> None:
        """Remove that device, if there is one.

        :raises DiskError: it is in use.
        """

    @abc.abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Keep others from moving parts of the vdisk."""

    @abc.abstractmethod
    def hold_in_place(self) -> AbstractContextManager[None]:
        """Keep the parts of the vdisk where they are.

        :raises BindingError: one is being moved, or was moved since the
            location was read.
        """

    @abc.abstractmethod
    def extend(self, size_gb: int, restores: bool = False) -> None:
        """Extend the vdisk to ``size_gb`` GiB.

        :param restores: whether it had that size before.
        """

    @abc.abstractmethod
    def snapshot(self, snapshot: str, snapshot_id: str) -> None:
        """Make a snapshot, on the same disks."""

    @abc.abstractmethod
    def clone(self, name: str, volume_id: str, size_gb: int) -> None:
        """Make a vdisk with this content, on the same disks."""

    @abc.abstractmethod
    def revert(self, snapshot: str | None) -> None:
        """Give the vdisk, which nobody uses, the content of its snapshot.

        :param snapshot: None for zeros.
        """

    @abc.abstractmethod
    def delete(self) -> None:
        """Delete the vdisk, but for what is on forgotten disks."""
