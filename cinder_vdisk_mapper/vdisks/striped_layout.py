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

"""Changes of striped vdisks, while nobody uses them.

A striped vdisk is changed piece by piece; each piece is a vdisk of its disk,
in Placement as well. If one piece cannot be changed, those before it are
changed back.
"""

import collections.abc
import contextlib

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import operations
from cinder_vdisk_mapper.vdisks.layout import Layout
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


class Striped(Layout):
    """A vdisk with a piece on each of several disks."""

    @property
    def striping(self) -> striping.StripingBackend:
        """The backend, which has striped the vdisk.

        :raises DiskError: it has no striping any more.
        """
        if isinstance(self.backend, striping.StripingBackend):
            return self.backend
        raise exception.DiskError('vdisk_backend has no striping')

    def device_path(self) -> str:
        return self.striping.striped_path(self.name)

    def stable_path(
        self,
        volume: Volume,
        wait: bool = True,
        to_device: bool | None = None,
    ) -> str:
        # the device keeps its name, so it needs no link
        return self.device_path()

    def activate(self, volume: Volume) -> None:
        with locks.hold(f'volume-{volume.id}'):
            # its legs may have been moved since it was read
            if volume.provider_location:
                volume.refresh()
            self.striping.activate_stripe(
                naming.location(volume) or self.location,
                self.name,
                volume.size,
            )

    def deactivate(self) -> None:
        self.striping.deactivate_stripe(self.location, self.name)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return locks.hold(f'legs-{self.name}')

    @contextlib.contextmanager
    def hold_in_place(self) -> collections.abc.Iterator[None]:
        with self.locked():
            tagged = {
                self.backend.find_vdisk(uuid, self.name)[1].stripe
                for uuid in self.location.disks
            }
            if tagged != {self.location} or any(
                disk.has_moving(self.name) for disk in self.backend.disks()
            ):
                moved = ', '.join(sorted(map(str, tagged)))
                raise errors.BindingError(
                    f'vdisk {self.name} on disks {self.location} is being '
                    f'moved, or was moved to {moved}: repeat it later',
                    'the volume is being moved to other disks; try again '
                    'later',
                )
            yield

    def extend(self, size_gb: int, restores: bool = False) -> None:
        with self.hold_in_place():
            self.deactivate()
            pieces = self.location.pieces_gb(size_gb)
            before = {
                uuid: self.backend.find_vdisk(uuid, self.name)[1].size_gb
                for uuid in pieces
            }
            done: list[str] = []
            try:
                for uuid, piece_gb in pieces.items():
                    self.operations.extend(uuid, self.name, piece_gb, restores)
                    done.append(uuid)
            except exception.DiskPlacerError:
                for uuid in done:
                    self._shrink(uuid, before[uuid])
                raise

    def snapshot(self, snapshot: str, snapshot_id: str) -> None:
        disks = self.location.disks
        with self.hold_in_place(), _locked(disks):
            present = set(self.backend.disks_holding(snapshot))
            refusals = {
                uuid: self._check_room(uuid, uuid in present) for uuid in disks
            }
            try:
                self.striping.snapshot_stripe(
                    self.location, self.name, snapshot, snapshot_id
                )
                for uuid, refusal in refusals.items():
                    if not self.operations.reserve(uuid):
                        raise refusal
            except exception.DiskPlacerError:
                # one that a killed run has made may be in use by now
                if not present.issuperset(disks):
                    self._delete_pieces(snapshot)
                for uuid in disks:
                    self.operations.try_reserve(uuid)
                raise

    def clone(self, name: str, volume_id: str, size_gb: int) -> None:
        """Copy the pieces; of one in use, those of a temporary snapshot."""
        with self.hold_in_place():
            self._clone(name, volume_id, self.location.pieces_gb(size_gb))

    def _clone(
        self,
        name: str,
        volume_id: str,
        pieces: collections.abc.Mapping[str, int],
    ) -> None:
        temporary = naming.cloning(volume_id)
        frozen = self._is_whole(temporary)
        if not frozen:
            # what a killed run has copied may be of another moment
            for uuid in self.backend.disks_holding(name):
                self.operations.delete(uuid, name)
        if frozen or self.striping.stripe_is_active(self.name):
            self.striping.snapshot_stripe(
                self.location, self.name, temporary, volume_id
            )
            try:
                self._clone_pieces(pieces, temporary, name, volume_id)
            finally:
                self._delete_pieces(temporary)
                with _locked(pieces):
                    for uuid in pieces:
                        self.operations.try_reserve(uuid)
            return
        before = self.striping.stripe_writes(self.location, self.name)
        self._clone_pieces(pieces, self.name, name, volume_id)
        if self.striping.stripe_writes(self.location, self.name) != before:
            for uuid in pieces:
                self.operations.delete(uuid, name)
            raise errors.BindingError(
                f'vdisk {self.name} on disks {self.location} was attached and '
                'written to while it was copied: repeat it',
                'the volume was written to while it was copied; try again',
            )

    def _clone_pieces(
        self,
        pieces: collections.abc.Mapping[str, int],
        source: str,
        name: str,
        volume_id: str,
    ) -> None:
        done: list[str] = []
        try:
            for uuid, piece_gb in pieces.items():
                self.operations.clone(uuid, source, name, volume_id, piece_gb)
                done.append(uuid)
        except exception.DiskPlacerError:
            for uuid in done:
                self.operations.delete(uuid, name)
            raise

    def revert(self, snapshot: str | None) -> None:
        with self.hold_in_place():
            self.deactivate()
            for uuid in self.location.disks:
                self.operations.revert(uuid, self.name, snapshot)

    def delete(self) -> None:
        kept = [
            uuid
            for uuid in self.location.disks
            if not self.backend.forgotten(uuid)
        ]
        for uuid in kept:
            # before any is deleted
            self.backend.check_disk(uuid)
        self.deactivate()
        for uuid in kept:
            self.operations.delete(uuid, self.name)

    def _check_room(self, disk: str, present: bool) -> errors.BindingError:
        """Check that a disk has the room for a snapshot of a piece.

        :param present: it has the snapshot already.
        :returns: the error to raise where it lacks the room after all.
        :raises BindingError: it lacks the room.
        """
        current, piece = self.backend.usable_vdisk(disk, self.name)
        if not present:
            operations.check_not_draining(
                current, f'keep a snapshot of {self.name}'
            )
        free = self.operations.free_gb(current)
        refusal = operations.refusal(
            disk, f'keep a snapshot of {self.name}, {piece.size_gb} GiB', free
        )
        if not present and free < piece.size_gb:
            raise refusal
        return refusal

    def _shrink(self, disk: str, size_gb: int) -> None:
        with locks.hold(f'disk-{disk}'):
            try:
                self.backend.shrink(disk, self.name, size_gb)
            except exception.DiskError as error:
                LOG.warning(
                    '%s stays extended on disk %s: %s', self.name, disk, error
                )
            self.operations.try_reserve(disk)

    def _is_whole(self, name: str) -> bool:
        """Return whether all disks hold a complete piece of a vdisk."""
        pieces = (
            self.backend.disk(uuid).find(name) for uuid in self.location.disks
        )
        return all(piece is not None and piece.usable for piece in pieces)

    def _delete_pieces(self, name: str) -> None:
        """Delete the pieces of a vdisk that nobody uses, if they exist."""
        for uuid in self.backend.disks_holding(name):
            if uuid not in self.location:
                continue
            try:
                self.backend.delete(uuid, name)
            except exception.DiskError as error:
                LOG.warning('%s stays on disk %s: %s', name, uuid, error)


def _locked(
    disks: collections.abc.Iterable[str],
) -> contextlib.AbstractContextManager[None]:
    return locks.hold_all(f'disk-{uuid}' for uuid in disks)
