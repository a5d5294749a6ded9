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

"""Reserves in Placement the space that vdisks take on disks."""

import collections.abc
import contextlib

from oslo_log import log as logging

from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory

LOG = logging.getLogger(__name__)


class BindingError(exception.DiskPlacerError):
    """A volume may not be bound, attached or changed as requested.

    :param message: complete explanation for operators.
    :param public: one sentence for the owner of the volume. It names no host,
        disk, project or server and no free space.
    """

    def __init__(self, message: str, public: str) -> None:
        super().__init__(message)
        self.public = public


class DiskReservation:
    """Keeps the reserved GiB of this host's disks in Placement up to date."""

    def __init__(
        self,
        backend: base.Backend,
        placement: placement_client.PlacementClient,
    ) -> None:
        self.backend = backend
        self.placement = placement

    def free_gb(self, disk: discover.Disk) -> int:
        """Return the GiB of a disk that no claim and no vdisk takes.

        It is negative for a disk that is oversold.

        :raises PlacementError: Placement does not answer.
        """
        claims = self.placement.provider_allocations(disk.uuid)
        return inventory.compute_figures(disk, claims).free_gb

    def reserve(self, disk: str) -> bool:
        """Reserve the vdisks of a disk in Placement; False if oversold.

        :raises PlacementError: Placement does not accept it.
        """
        figures = inventory.sync_disk(
            self.placement, disk, lambda: self.backend.disk(disk)
        )
        return figures.free_gb >= 0

    def try_reserve(self, disk: str) -> None:
        """Reserve the vdisks of a disk; the agent does it where this fails."""
        try:
            self.reserve(disk)
        except exception.PlacementError as error:
            LOG.warning(
                'Placement is not updated for disk %s: %s', disk, error
            )

    def change_and_reserve(
        self,
        disk: str,
        change: collections.abc.Callable[[], None],
        undo: collections.abc.Callable[[], None],
        refusal: BindingError,
    ) -> None:
        """Change a disk and reserve the result; undo it if that fails.

        The caller holds the disk's lock.

        :param refusal: raised where the disk lacks the space after all.
        :raises DiskError: ``change`` fails.
        :raises PlacementError: Placement does not accept it.
        """
        try:
            change()
            if not self.reserve(disk):
                raise refusal
        except exception.DiskPlacerError:
            try:
                undo()
            except exception.DiskError as error:
                LOG.warning('A change of disk %s stays: %s', disk, error)
            self.try_reserve(disk)
            raise


def lock(name: str) -> contextlib.AbstractContextManager[None]:
    """Lock ``name`` for this thread of this process.

    The order is: lock of the server, of the volume, of the disk.

    :raises DiskPlacerError: the lock file cannot be made or opened.
    """
    return locks.hold(name)
