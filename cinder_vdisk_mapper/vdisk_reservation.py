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

"""The room on a disk: what Placement may offer of it, and who takes it."""

import collections.abc
import contextlib

from oslo_log import log as logging

from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory

LOG = logging.getLogger(__name__)


class BindingError(exception.DiskPlacerError):
    """A volume may not be bound, attached or changed as asked.

    :param message: for operators, with all that explains it.
    :param public: one sentence for the owner of the volume. It names no host,
        disk, project or server and no free space.
    """

    def __init__(self, message: str, public: str) -> None:
        super().__init__(message)
        self.public = public


class Room:
    """Takes room on the disks of this host, and gives it back."""

    def __init__(
        self,
        backend: base.Backend,
        placement: placement_client.PlacementClient,
    ) -> None:
        self.backend = backend
        self.placement = placement

    def look(self, disk: str, name: str) -> tuple[discover.Disk, VDisk]:
        """Return a disk and the vdisk of that name on it, which is whole.

        :raises DiskError: the disk does not hold it, or is not there, or the
            vdisk may not be used.
        """
        current, vdisk = self.find(disk, name)
        if not vdisk.whole:
            raise exception.DiskError(
                f'vdisk {name} on disk {disk} is not whole: repeat the '
                'extension that was interrupted, or delete it'
            )
        return current, vdisk

    def find(self, disk: str, name: str) -> tuple[discover.Disk, VDisk]:
        """Return a disk and the vdisk of that name on it, whole or not.

        :raises DiskError: the disk does not hold it, or is not there.
        """
        current = self.backend.disk(disk)
        for vdisk in current.vdisks:
            if vdisk.name == name:
                return current, vdisk
        raise exception.DiskError(
            f'vdisk {name} is not on disk {disk} ({current.health}) of this '
            'host'
        )

    def room_gb(self, disk: discover.Disk) -> int:
        """Return the GiB of a disk that no claim and no vdisk takes.

        :raises PlacementError: Placement cannot be asked.
        """
        claims = self.placement.provider_allocations(disk.uuid)
        return inventory.figures(disk, claims).room_gb

    def reserve(self, disk: str) -> bool:
        """Have Placement reserve what is on a disk; False if oversold.

        :raises PlacementError: Placement cannot be told.
        """
        figures = inventory.sync_disk(
            self.placement, disk, lambda: self.backend.disk(disk)
        )
        return figures.room_gb >= 0

    def sync(self, disk: str) -> None:
        """Tell Placement of space given back; if not, the agent will."""
        try:
            self.reserve(disk)
        except exception.PlacementError as error:
            LOG.warning('Disk %s is not up to date: %s', disk, error)

    def change(
        self,
        disk: str,
        make: collections.abc.Callable[[], None],
        undo: collections.abc.Callable[[], None],
        refusal: BindingError,
    ) -> None:
        """Change a disk and reserve it; undo what was made if that fails.

        The caller holds the disk's lock.

        :param refusal: raised where the disk turns out to lack the room.
        :raises DiskError: ``make`` fails.
        :raises PlacementError: Placement cannot be told.
        """
        try:
            make()
            if not self.reserve(disk):
                raise refusal
        except exception.DiskPlacerError:
            try:
                undo()
            except exception.DiskError as error:
                LOG.warning('Disk %s is not as it was: %s', disk, error)
            self.sync(disk)
            raise


def lock(name: str) -> contextlib.AbstractContextManager[None]:
    """Hold ``name`` against all threads and processes of this host.

    Whoever takes several takes that of the server first, then that of the
    volume, then that of the disk.

    :raises DiskPlacerError: the lock file cannot be made or opened.
    """
    return locks.hold(name)
