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

"""Operations on vdisks, each reserved in Placement."""

import collections.abc
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import copies
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class VDiskOperations:
    """Extends, copies, renames and deletes vdisks.

    Copies stay on the disk of their original and count in full, so that no
    write can run out of space.

    The operations raise DiskError where the disk is not there or an operation
    on it fails. Those that take space, and ``unmanage``, raise BindingError
    where the disk lacks it, and PlacementError where Placement does not answer
    or accept it.
    """

    backend: base.Backend
    placement: placement_client.PlacementClient

    def free_gb(self, disk: discover.Disk) -> int:
        """Return the GiB of a disk that no claim and no vdisk takes.

        Those of a disk that is drained are not for more vdisks. It is
        negative for a disk that is oversold.

        :raises PlacementError: Placement does not answer.
        """
        claims = self.placement.provider_allocations(disk.uuid)
        return inventory.compute_figures(disk, claims).free_gb

    def free_gb_with(
        self, disk: discover.Disk, before: VDisk, after: VDisk
    ) -> int:
        """Return the free GiB of a disk after one vdisk is replaced."""
        vdisks = tuple(
            after if vdisk is before else vdisk for vdisk in disk.vdisks
        )
        return self.free_gb(dataclasses.replace(disk, vdisks=vdisks))

    def check_claimed_disks(
        self, server_id: str, claimed: collections.abc.Container[str]
    ) -> None:
        """Check that the disks of this backend that a server claims work.

        :param claimed: UUIDs of disks, also of other backends.
        :raises BindingError: one of them is missing, has failed or hangs.
        """
        unusable = [
            disk.uuid
            for disk in self.backend.disks()
            if disk.uuid in claimed
            and (disk.late or disk.health != discover.OK)
        ]
        if unusable:
            raise errors.BindingError(
                f'disk {", ".join(unusable)}, which server {server_id} '
                'claims, is missing, has failed or does not answer',
                'a disk that was chosen for the server is not usable',
            )

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

    def extend(
        self, disk: str, name: str, size_gb: int, restores: bool = False
    ) -> None:
        """Extend a bound vdisk to ``size_gb`` GiB.

        An interrupted extension is already reserved and is finished first.

        :param restores: whether the vdisk had that size before something
            truncated it, so that it may have it on a disk that is drained.
        """
        with locks.hold(f'disk-{disk}'):
            self.extend_held(disk, name, size_gb, restores)

    def extend_held(
        self, disk: str, name: str, size_gb: int, restores: bool = False
    ) -> None:
        """Do as :meth:`extend`; the caller holds the disk's lock."""
        current, vdisk = self.backend.find_vdisk(disk, name)
        operation = f'extend {name} from {vdisk.size_gb} to {size_gb} GiB'
        if vdisk.size_bytes:
            self.backend.extend(disk, name, vdisk.size_gb)
        if size_gb <= vdisk.size_gb:
            # Placement may not know of an extension that was killed
            if not self.reserve(disk):
                raise refusal(disk, operation, 0)
            return
        if not restores:
            check_not_draining(current, operation)
        self._replace(
            current,
            vdisk,
            dataclasses.replace(vdisk, size_bytes=size_gb << 30),
            operation,
            lambda: self.backend.extend(disk, name, size_gb),
            lambda: self.backend.shrink(disk, name, vdisk.size_gb),
        )

    def delete(self, disk: str, name: str) -> None:
        """Delete a vdisk and release its space in Placement."""
        self.backend.delete(disk, name)
        with locks.hold(f'disk-{disk}'):
            self.try_reserve(disk)

    def allocate(
        self,
        disk: str,
        name: str,
        volume_id: str,
        size_gb: int,
        server_id: str | None = None,
    ) -> None:
        """Make a vdisk of zeros for which no server has a claim yet."""
        with locks.hold(f'disk-{disk}'):
            self._add(
                self.backend.disk(disk),
                VDisk(name, volume_id, server_id, size_gb << 30),
                lambda: self.backend.create(
                    disk, name, volume_id, server_id, size_gb
                ),
            )

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Make a snapshot of a vdisk, of the same size on the same disk."""
        with locks.hold(f'disk-{disk}'):
            current, vdisk = self.backend.usable_vdisk(disk, name)
            self._add(
                current,
                VDisk(snapshot, snapshot_id, None, vdisk.size_bytes),
                lambda: self.backend.snapshot(
                    disk, name, snapshot, snapshot_id
                ),
            )

    def clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Make a vdisk of ``size_gb`` GiB with the content of another.

        ``source``, a vdisk or a snapshot, may be smaller; the rest is zeros.
        """
        copy = disk, source, name, volume_id, size_gb
        with locks.hold(f'disk-{disk}'):
            current, _ = self.backend.usable_vdisk(disk, source)
            self._add(
                current,
                VDisk(name, volume_id, None, size_gb << 30),
                lambda: self.backend.allocate_clone(*copy),
            )
        try:
            self.backend.clone(*copy)
        except exception.DiskError:
            self.delete(disk, name)
            raise

    def revert(self, disk: str, name: str, snapshot: str | None) -> None:
        """Give a vdisk that nobody uses the content of its snapshot.

        :param snapshot: None for zeros, the content of an unbound volume.
        """
        self.backend.usable_vdisk(disk, name)
        if snapshot is None:
            self.backend.clear(disk, name)
        else:
            self.backend.usable_vdisk(disk, snapshot)
            self.backend.revert(disk, name, snapshot)

    def delete_leftovers(self, name: str) -> None:
        """Delete a vdisk from all healthy disks, and its link."""
        for leftover in self.backend.disks_holding(name):
            self.delete(leftover, name)
        self.backend.unlink(name)

    def delete_other_copies(self, name: str, disk: str) -> None:
        """Delete the copies of a vdisk that an interrupted move has left.

        A copy that a drain has begun stays. The caller holds the lock of the
        volume, and has seen since that the volume is on ``disk``.

        :raises DiskError: the volume is not known to be whole there, as
            :mod:`copies` tells; none is deleted then.
        """
        record = self.backend.recorded_move(name)
        begun = record.target if record and record.source == disk else None
        others = [
            other
            for other in self.backend.disks_holding(name)
            if other not in (disk, begun)
        ]
        for other in others:
            copies.check(self.backend, other, name, disk)
        for other in others:
            try:
                copies.condemn(self.backend, other, name, disk)
                self.delete(other, name)
            except exception.DiskError as error:
                # the next start of the driver tries again
                LOG.warning('%s stays on disk %s: %s', name, other, error)

    def change_owner(self, disk: str, name: str, volume_id: str) -> None:
        """Give a vdisk that is not attached to another volume."""
        with locks.hold(f'disk-{disk}'):
            self.backend.rename(disk, name, name, volume_id)
            self.try_reserve(disk)

    def disown(self, disk: str, name: str, server_id: str | None) -> None:
        """Remove the server from a vdisk that was bound for another one.

        It fills no claim of that server any more. The caller holds the disk's
        lock, and reserves the vdisk.

        :param server_id: the server that keeps it, if any.
        """
        _, vdisk = self.backend.find_vdisk(disk, name)
        if vdisk.server_id not in (None, server_id):
            self.backend.rename(disk, name, name, vdisk.volume_id)

    def manage(
        self, disk: str, name: str, new_name: str, volume_id: str, size_gb: int
    ) -> None:
        """Rename a vdisk, give it to a volume and extend it to ``size_gb``.

        It may be repeated.
        """
        with locks.hold(f'disk-{disk}'):
            names = {vdisk.name for vdisk in self.backend.disk(disk).vdisks}
            current_name = new_name if new_name in names else name
            current, before = self.backend.find_vdisk(disk, current_name)
            if current_name != name and before.volume_id != volume_id:
                raise exception.DiskError(
                    f'vdisk {current_name} on disk {disk} belongs to '
                    f'{before.volume_id!r}'
                )

            def change() -> None:
                self.backend.rename(disk, name, new_name, volume_id)
                self.backend.extend(disk, new_name, size_gb)

            operation = (
                f'take {before.name} of {before.size_gb} GiB as {new_name} of '
                f'{size_gb} GiB'
            )
            if size_gb > before.size_gb:
                check_not_draining(current, operation)
            self._replace(
                current,
                before,
                VDisk(new_name, volume_id, None, size_gb << 30),
                operation,
                change,
                lambda: self.backend.rename(
                    disk, new_name, name, before.volume_id
                ),
            )

    def unmanage(self, disk: str, name: str, new_name: str) -> None:
        """Rename a vdisk so that it belongs to no volume; it stays reserved.

        :raises BindingError: its space is claimed by its server, and the
            disk lacks the space to keep it beside that claim.
        """
        with locks.hold(f'disk-{disk}'):
            current = self.backend.disk(disk)
            for vdisk in current.vdisks:
                if vdisk.name == name and vdisk.server_id:
                    after = VDisk(new_name, '', None, vdisk.size_bytes)
                    free = self.free_gb_with(current, vdisk, after)
                    if free < 0:
                        raise refusal(
                            disk,
                            f'keep {name} of {vdisk.size_gb} GiB beside the '
                            f'claims of server {vdisk.server_id}',
                            free + vdisk.size_gb,
                        )
            self.backend.rename(disk, name, new_name, '')
            self.backend.unlink(name)
            self.try_reserve(disk)

    def _add(
        self,
        current: discover.Disk,
        new: VDisk,
        make: collections.abc.Callable[[], None],
    ) -> None:
        """Make a vdisk on a disk that has the space, and reserve it."""
        disk = current.uuid
        present = any(vdisk.name == new.name for vdisk in current.vdisks)
        if not present:
            check_not_draining(current, f'keep {new.name}')
        free = self.free_gb(current)
        operation = f'keep {new.name} of {new.size_gb} GiB'
        if not present and free < new.size_gb:
            raise refusal(disk, operation, free)

        def undo() -> None:
            # a vdisk that a killed run has made may be in use by now
            if not present:
                self.backend.delete(disk, new.name)

        self._change_and_reserve(disk, make, undo, operation, free)

    def _replace(
        self,
        current: discover.Disk,
        before: VDisk,
        after: VDisk,
        operation: str,
        change: collections.abc.Callable[[], None],
        undo: collections.abc.Callable[[], None],
    ) -> None:
        """Change a vdisk if its disk has the space, and reserve it."""
        left = self.free_gb_with(current, before, after)
        free = left + after.size_gb - before.size_gb
        if left < 0:
            raise refusal(current.uuid, operation, free)
        self._change_and_reserve(current.uuid, change, undo, operation, free)

    def _change_and_reserve(
        self,
        disk: str,
        change: collections.abc.Callable[[], None],
        undo: collections.abc.Callable[[], None],
        operation: str,
        free_gb: int,
    ) -> None:
        """Change a disk and reserve the result; undo it if that fails.

        The caller holds the disk's lock.

        :param operation: what is refused where the disk lacks the space after
            all.
        :param free_gb: GiB that it had before.
        :raises BindingError: it lacks the space.
        """
        try:
            change()
            if not self.reserve(disk):
                raise refusal(disk, operation, free_gb)
        except exception.DiskPlacerError:
            try:
                undo()
            except exception.DiskError as error:
                LOG.warning('A change of disk %s stays: %s', disk, error)
            self.try_reserve(disk)
            raise


def check_not_draining(disk: discover.Disk, operation: str) -> None:
    """Check that vdisks may take more of a disk.

    :raises BindingError: the disk is being drained.
    """
    if disk.draining:
        raise errors.BindingError(
            f'disk {disk.uuid} is being drained, and cannot {operation}: end '
            'the drain with diskplacer-manage disk drain --cancel, or repeat '
            'this when the vdisk has moved',
            'the disk of the volume takes no more data now; try again later',
        )


def refusal(disk: str, operation: str, free_gb: int) -> errors.BindingError:
    """Return the error that a disk lacks the room for an operation."""
    return errors.BindingError(
        f'disk {disk} has no room to {operation}: {max(free_gb, 0)} GiB of it '
        'are neither claimed nor taken',
        'the disk of the volume has no room for that',
    )
