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

"""The move of a vdisk's data after its server, for :mod:`vdisk_steps`.

The server has moved to this host, the *destination*. The *remote* vdisk of the
host that it has left is the source, its empty vdisk on the disk that the
server claims here is the target. Both have one name, and the link of the
volume tells which of them is the volume.

The record of the move is written before the link changes, so that the other
host does not take the volume back at the same time: see :mod:`record`. One
save then gives the volume to this host. From there on nothing leads back, and
what is left of the source goes.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from collections.abc import Iterator

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.moves import guests as guests_
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import copy_mark
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote as sessions
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.vdisks import copies
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import mover
from nova_diskplacer.disks import remote as remote_vdisks
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.host import copy_rate

LOG = logging.getLogger(__name__)

# Seconds between two looks at the server while its data is copied.
_LOOK_PAUSE = 10.0

# Seconds to wait for another request for the volume. Its session may hang,
# and the next attempt waits again.
_LOCK_PATIENCE = 60.0


class Stopped(exception.DiskPlacerError):
    """The copy is to go on in another process."""


class Busy(at_rest.Waits):
    """Another request has the volume; a copy that QEMU makes goes on."""


@dataclasses.dataclass
class SettleMove(vdisk_steps.VDiskSteps):
    """The move of a volume's data to the disk that its server claims here.

    :param name: of the vdisk.
    :param disk: UUID of the disk here.
    :param report: called with the copied and all bytes.
    :param stopped: asked once a second; a copy that QEMU makes goes on.
    :param whole: what tells if a copy of an earlier attempt is whole still;
        then that of this one. '' for none.
    """

    destination: Destination
    guests: guests_.Guests
    volume_id: str
    name: str
    server: str
    disk: str
    report: mover.Progress
    stopped: Callable[[], bool]
    whole: str = ''
    _looked: float = dataclasses.field(default=0.0, init=False)
    _copied: str = dataclasses.field(default='', init=False)

    @property
    def source(self) -> '_Remote':
        return _Remote(self)

    @property
    def target(self) -> '_Target':
        return _Target(self)

    @property
    def backend(self) -> base.Backend:
        """The backend of this host."""
        return self.destination.backend

    @property
    def device(self) -> str:
        """Path of the remote vdisk.

        :raises DiskError: it is not attached to this host.
        """
        return remote_vdisks.path(self.backend.disk_root, self.name)

    def has_arrived(self) -> bool:
        """Return whether this host has the volume."""
        volume = store.fresh(self.volume_id)
        return store.holder(volume) == self.destination.backend_host

    def phase(self) -> str:
        """Return the phase of the move, '' if it has ended."""
        recorded = store.read(self.volume_id)
        return recorded.phase if recorded else ''

    # the steps

    def create(self) -> None:
        """Check that the target is as the attachment has made it.

        It has the size of the volume, which may have been extended since.
        """
        with self.locked():
            if self.phase() == record.DECIDING:
                # it was killed before it changed the link
                self.decide(False)
            self.check()
            self._extend()
            self.check_target()
        self._looked = time.monotonic()

    def _extend(self) -> None:
        _, vdisk = self.backend.find_vdisk(self.disk, self.name)
        size_gb = store.fresh(self.volume_id).size
        if vdisk.size_gb < size_gb:
            self.destination.operations.extend(self.disk, self.name, size_gb)

    def guest(self) -> vdisk_steps.GuestDisk | None:
        return self.guests.find(self.server, self.volume_id)

    def copy(self) -> None:
        size = remote_vdisks.size_bytes(self.device)
        limit = copy_rate.Limit(self.guests.rate)
        before, left = self.writes(), store.changed(self.volume_id)
        self._copied = self._mark(before)
        # another request for the volume has come between copy and decision
        is_whole = self.whole == f'{left} {self._copied}'
        start: int | None = None if is_whole else 0
        while start is not None:
            self.progress(start, size)
            limit.wait(start)
            start = self.backend.copy_remote(self.disk, self.name, start)
        self._copied = self._mark(before)
        self.whole = f'{left} {self._copied}'
        self.progress(size, size)

    def writes(self) -> str:
        return remote_vdisks.writes(self.device)

    def fill(self) -> None:
        _, vdisk = self.backend.find_vdisk(self.disk, self.name)
        self.backend.extend(self.disk, self.name, vdisk.size_gb)

    def check_target(self) -> None:
        size = store.fresh(self.volume_id).size * GIB
        if not self.has_arrived():
            size = max(size, self._remote_bytes())
        copies.check_whole(self.backend, self.disk, self.name, size)

    def _remote_bytes(self) -> int:
        """Return the size of the remote vdisk.

        It is 0 if its device is gone after the decision, which has compared
        it: this host was booted since.

        :raises Away: its device is gone, and nothing is decided.
        """
        try:
            return remote_vdisks.size_bytes(self.device)
        except remote_vdisks.Away:
            if self.is_decided():
                return 0
            raise

    def is_decided(self) -> bool:
        """Return whether the target is the volume.

        :raises DiskError: the link leads to neither.
        """
        linked = self.backend.linked_disk(self.name)
        if linked not in (self.disk, links.REMOTE):
            raise exception.DiskError(
                f'the link of its volume leads to {linked or "nothing"}'
            )
        return linked == self.disk

    def decide(self, moved: bool) -> None:
        """Record the decision, and change the link; see the base.

        :raises DiskError: this host has the volume, so nothing leads back.
        :raises Changed: the other host has ended the move meanwhile.
        """
        if moved:
            if self.phase() != record.DECIDING:
                self._advance(record.LEFT, record.DECIDING, self._copied)
            self.backend.link(self.disk, self.name)
            return
        if self.has_arrived():
            raise exception.DiskError('its volume is on this host already')
        self.backend.link_remote(self.name)
        if self.phase() == record.DECIDING:
            self._advance(record.DECIDING, record.LEFT)

    def park(self) -> None:
        self.backend.park_link(self.name)

    def unpark(self) -> None:
        self.backend.unpark_link(self.name)

    @errors.cinder_errors()
    def save(self) -> None:
        """Give the volume to this host, in one save.

        The target is looked at again: the other host deletes its vdisk now.
        """
        if not self.has_arrived():
            # it may have been extended between a kill and its repetition
            self._extend()
            self.check_target()
            volume = store.fresh(self.volume_id)
            self.destination.save(volume, self.disk)
        if self.phase() == record.DECIDING:
            self._advance(record.DECIDING, record.RELEASING)

    def check(self) -> None:
        """Check that the server is here and nobody else uses the volume.

        :raises Waits: it is not so now.
        :raises DiskPlacerError: Nova or the database does not answer.
        """
        recorded = store.read(self.volume_id)
        if recorded is None or recorded.server != self.server:
            raise at_rest.Waits('its move has ended')
        if self.has_arrived():
            return
        if recorded.phase not in (record.LEFT, record.DECIDING):
            raise at_rest.Waits(f'its move is {recorded.phase}')
        # a decision holds, whatever Nova begins now: the other host refuses
        if self.is_decided():
            self._check_copied(recorded.source)
        else:
            at_rest.check(self.volume_id, recorded)

    def _check_copied(self, other: str) -> None:
        """Check that nobody wrote to the source alone after a decision.

        A server that starts just then has the source open, and may stop before
        anybody looks, if the process that has decided was killed. If nobody
        has written to the target since, the source is the vdisk again.

        :param other: the backend of the source.
        :raises Away: the source does not answer, and is not removed.
        :raises DiskError: somebody has.
        """
        mark = copy_mark.CopyMark.parse(store.copied(self.volume_id))
        if (
            mark is None
            or self.guest() is not None
            or self.target.in_use()
            or not mark.is_of_this_boot()
        ):
            return
        try:
            now = self.writes()
        except remote_vdisks.Away:
            if other_host.is_removed(other):
                # what was written there is lost
                return
            raise
        if not mark.is_source_written(now):
            return
        if mark.is_target_written(self._target_writes()):
            LOG.error(
                '%s was written to on the host that its server has left when '
                'it was copied, and here since: the former is lost',
                self.name,
            )
            return
        self.decide(False)
        raise exception.DiskError(
            'its server was started and wrote to it when it was copied'
        )

    def _mark(self, source: str) -> str:
        """Return the mark of a copy.

        :param source: what :meth:`writes` told before it.
        """
        target = self._target_writes()
        return str(copy_mark.CopyMark.of_now(source, target))

    def _target_writes(self) -> str:
        return self.backend.writes(self.disk, self.name)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return self._locked()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            try:
                # in the order of attachments
                for kind in ('move', 'volume'):
                    stack.enter_context(
                        locks.hold_within(
                            f'{kind}-{self.volume_id}', _LOCK_PATIENCE
                        )
                    )
            except locks.Held:
                raise Busy(
                    'another request for its volume has not ended since '
                    f'{_LOCK_PATIENCE:.0f} s'
                ) from None
            yield

    def forget(self) -> None:
        """Do nothing: the record goes when the source has released it."""

    def progress(self, done: int, total: int) -> None:
        """Show the progress, and see if the copy is to go on.

        :raises Stopped: another process is to go on with it.
        :raises Waits: the server is not to be disturbed now.
        """
        self.report(done, total)
        if self.stopped():
            raise Stopped('this process is to end')
        if time.monotonic() - self._looked > _LOOK_PAUSE:
            self._looked = time.monotonic()
            self.check()

    def _advance(
        self, before: str, phase: str, copied: str | None = None
    ) -> None:
        recorded = store.read(self.volume_id)
        if recorded is None or recorded.phase != before:
            raise store.Changed(
                f'the move of volume {self.volume_id} is no longer {before}'
            )
        store.advance(self.volume_id, recorded, phase, copied)


@dataclasses.dataclass(frozen=True)
class _Remote(vdisk_steps.Place):
    """The vdisk of the host that the server has left."""

    move: SettleMove

    @property
    def path(self) -> str:
        return self.move.device

    def activate(self) -> None:
        """Do nothing: the attachment has made the session."""

    def condemn(self) -> None:
        """Log out, if the volume is whole here: the other one goes then."""
        move = self.move
        if not (move.has_arrived() and move.is_decided()):
            raise exception.DiskError(
                'it is not deleted: its volume is not on this host'
            )
        move.check_target()
        if self.in_use():
            raise exception.DiskError('a process still has it open')
        sessions.log_out(move.backend, move.name)

    def delete(self) -> None:
        """Ask the source to delete the vdisk.

        While that is away, the record stays.
        """
        move = self.move
        if recorded := store.read(move.volume_id):
            volume = store.fresh(move.volume_id)
            move.destination.go_on(volume, recorded)

    def in_use(self) -> bool:
        move = self.move
        device = links.remote_device(move.backend.disk_root, move.name)
        return device is not None and remote_vdisks.in_use(device)


@dataclasses.dataclass(frozen=True)
class _Target(vdisk_steps.Place):
    """The vdisk on the disk that the server claims here."""

    move: SettleMove

    @property
    def path(self) -> str:
        return self.move.backend.attached_path(self.move.disk, self.move.name)

    def activate(self) -> None:
        self.move.backend.attach_device(self.move.disk, self.move.name)

    def condemn(self) -> None:
        """Refuse: the attachment has made it, and its end deletes it."""
        raise exception.DiskError('the target of a move of a server stays')

    def delete(self) -> None:
        self.condemn()

    def in_use(self) -> bool:
        return self.move.backend.in_use(self.move.disk, self.move.name)
