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

"""Changes of vdisks that may be striped.

Each method gets the location of a volume. A vdisk on one disk is changed as
``vdisk_operations`` does it. A striped one is changed piece by piece while
nobody uses it; each piece is a vdisk of its disk, in Placement as well. If one
piece cannot be changed, those before it are changed back.
"""

import collections.abc
import contextlib
import dataclasses

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location

LOG = logging.getLogger(__name__)

# Prefix of a temporary snapshot, which goes with the vdisk that it is of.
_CLONING = 'cloning-'


@dataclasses.dataclass
class StripeOperations(operations.VDiskOperations):
    """Extends, copies and deletes vdisks on one disk or several.

    ``disk`` is a location where it may be that of a striped volume. Errors are
    those of VDiskOperations.
    """

    @property
    def striping(self) -> striping.StripingBackend:
        """The backend, which has striped a vdisk.

        :raises DiskError: it cannot.
        """
        if isinstance(self.backend, striping.StripingBackend):
            return self.backend
        raise exception.DiskError('vdisk_backend has no striping')

    def extend(self, disk: str, name: str, size_gb: int) -> None:
        """Extend a bound vdisk, or the pieces of one, to ``size_gb`` GiB."""
        location = Location.parse(disk)
        if not location.is_striped:
            super().extend(disk, name, size_gb)
            return
        with self.settled(location, name):
            self._extend_pieces(location, name, size_gb)

    def _extend_pieces(
        self, location: Location, name: str, size_gb: int
    ) -> None:
        pieces = location.pieces_gb(size_gb)
        self.striping.deactivate_stripe(location, name)
        before = {
            uuid: self.backend.find_vdisk(uuid, name)[1].size_gb
            for uuid in pieces
        }
        done: list[str] = []
        try:
            for uuid, piece_gb in pieces.items():
                super().extend(uuid, name, piece_gb)
                done.append(uuid)
        except exception.DiskPlacerError:
            for uuid in done:
                self._shrink(uuid, name, before[uuid])
            raise

    def snapshot(
        self, disk: str, name: str, snapshot: str, snapshot_id: str
    ) -> None:
        """Make a snapshot of a vdisk, on the same disks."""
        location = Location.parse(disk)
        if not location.is_striped:
            super().snapshot(disk, name, snapshot, snapshot_id)
            return
        disks = location.disks
        with self.settled(location, name), self._locked(disks):
            present = set(self.backend.disks_holding(snapshot))
            refusals = {
                uuid: self._check_room(uuid, name, uuid in present)
                for uuid in disks
            }
            try:
                self.striping.snapshot_stripe(
                    location, name, snapshot, snapshot_id
                )
                for uuid, refusal in refusals.items():
                    if not self.reserve(uuid):
                        raise refusal
            except exception.DiskPlacerError:
                # one that a killed run has made may be in use by now
                if not present.issuperset(disks):
                    self._delete_pieces(disks, snapshot)
                for uuid in disks:
                    self.try_reserve(uuid)
                raise

    def clone(
        self, disk: str, source: str, name: str, volume_id: str, size_gb: int
    ) -> None:
        """Make a vdisk with the content of another, on the same disks.

        A striped vdisk that is in use is copied from a temporary snapshot.
        """
        location = Location.parse(disk)
        if not location.is_striped:
            super().clone(disk, source, name, volume_id, size_gb)
            return
        with self.settled(location, source):
            self._clone_stripe(location, source, name, volume_id, size_gb)

    def _clone_stripe(
        self,
        location: Location,
        source: str,
        name: str,
        volume_id: str,
        size_gb: int,
    ) -> None:
        pieces = location.pieces_gb(size_gb)
        temporary = _CLONING + volume_id
        frozen = self._is_whole(pieces, temporary)
        if not frozen:
            # what a killed run has copied may be of another moment
            for uuid in self.backend.disks_holding(name):
                self.delete(uuid, name)
        if frozen or self.striping.stripe_is_active(source):
            self.striping.snapshot_stripe(
                location, source, temporary, volume_id
            )
            try:
                self._clone_pieces(pieces, temporary, name, volume_id)
            finally:
                self._delete_pieces(pieces, temporary)
                with self._locked(pieces):
                    for uuid in pieces:
                        self.try_reserve(uuid)
            return
        before = self.striping.stripe_writes(location, source)
        self._clone_pieces(pieces, source, name, volume_id)
        if self.striping.stripe_writes(location, source) != before:
            for uuid in pieces:
                self.delete(uuid, name)
            raise errors.BindingError(
                f'vdisk {source} on disks {location} was attached and written '
                'to while it was copied: repeat it',
                'the volume was written to while it was copied; try again',
            )

    def revert(self, disk: str, name: str, snapshot: str | None) -> None:
        """Give a vdisk that nobody uses the content of its snapshot."""
        location = Location.parse(disk)
        if not location.is_striped:
            super().revert(disk, name, snapshot)
            return
        with self.settled(location, name):
            self.striping.deactivate_stripe(location, name)
            for uuid in location.disks:
                super().revert(uuid, name, snapshot)

    @contextlib.contextmanager
    def settled(
        self, location: Location, name: str
    ) -> collections.abc.Iterator[None]:
        """Keep the legs of a vdisk where they are.

        :raises DiskError: a leg is being moved, or was moved since the
            location was read.
        """
        with self.moving(name):
            pieces = [
                self.backend.find_vdisk(uuid, name)[1]
                for uuid in location.disks
            ]
            tagged = {piece.stripe for piece in pieces}
            if tagged != {location} or self._is_moved(name):
                moved = ', '.join(sorted(map(str, tagged)))
                raise errors.BindingError(
                    f'vdisk {name} on disks {location} is being moved, or was '
                    f'moved to {moved}: repeat it later',
                    'the volume is being moved to other disks; try again '
                    'later',
                )
            yield

    def _is_moved(self, name: str) -> bool:
        return any(
            vdisk.name == name and vdisk.moving
            for disk in self.backend.disks()
            for vdisk in disk.vdisks
        )

    def moving(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Keep others from changing the legs of a vdisk.

        The lock may be taken while that of its volume is held, and those of
        disks while it is.
        """
        return locks.hold(f'legs-{name}')

    def delete_everywhere(self, disk: str | None, name: str) -> None:
        """Delete a vdisk, or the pieces of one, and leftovers elsewhere."""
        location = Location.parse(disk)
        if location.is_striped:
            with self.moving(name):
                self._delete_stripe(location, name)
                super().delete_everywhere(None, name)
        else:
            super().delete_everywhere(disk, name)
        # of a killed clone
        kind, _, id_ = name.partition('-')
        if kind == 'volume':
            super().delete_everywhere(None, _CLONING + id_)

    def _delete_stripe(self, location: Location, name: str) -> None:
        kept = [
            uuid for uuid in location.disks if not self.backend.forgotten(uuid)
        ]
        for uuid in kept:
            # before any is deleted
            self.backend.check_disk(uuid)
        self.striping.deactivate_stripe(location, name)
        for uuid in kept:
            self.delete(uuid, name)

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
                super().clone(uuid, source, name, volume_id, piece_gb)
                done.append(uuid)
        except exception.DiskPlacerError:
            for uuid in done:
                self.delete(uuid, name)
            raise

    def _check_room(
        self, disk: str, name: str, present: bool
    ) -> errors.BindingError:
        """Check that a disk has the room for a snapshot of a piece.

        :param present: it has the snapshot already.
        :returns: the error to raise where it lacks the room after all.
        :raises BindingError: it lacks the room.
        """
        current, piece = self.backend.usable_vdisk(disk, name)
        if not present:
            operations.check_not_draining(
                current, f'keep a snapshot of {name}'
            )
        free = self.free_gb(current)
        refusal = operations.refusal(
            disk, f'keep a snapshot of {name}, {piece.size_gb} GiB', free
        )
        if not present and free < piece.size_gb:
            raise refusal
        return refusal

    def _shrink(self, disk: str, name: str, size_gb: int) -> None:
        with locks.hold(f'disk-{disk}'):
            try:
                self.backend.shrink(disk, name, size_gb)
            except exception.DiskError as error:
                LOG.warning(
                    '%s stays extended on disk %s: %s', name, disk, error
                )
            self.try_reserve(disk)

    def _is_whole(
        self, disks: collections.abc.Iterable[str], name: str
    ) -> bool:
        """Return whether all disks hold a complete piece of a vdisk."""
        return all(
            any(one.name == name and one.usable for one in disk.vdisks)
            for disk in map(self.backend.disk, disks)
        )

    def _delete_pieces(
        self, disks: collections.abc.Container[str], name: str
    ) -> None:
        """Delete the pieces of a vdisk that nobody uses, if they exist."""
        for uuid in self.backend.disks_holding(name):
            if uuid not in disks:
                continue
            try:
                self.backend.delete(uuid, name)
            except exception.DiskError as error:
                LOG.warning('%s stays on disk %s: %s', name, uuid, error)

    @contextlib.contextmanager
    def _locked(
        self, disks: collections.abc.Iterable[str]
    ) -> collections.abc.Iterator[None]:
        """Hold the locks of disks, in the order that all operations use."""
        with contextlib.ExitStack() as stack:
            for uuid in sorted(disks):
                stack.enter_context(locks.hold(f'disk-{uuid}'))
            yield
