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

"""Moves one vdisk from one place to another, while its server runs or not.

The order makes every step repeatable after a kill:

1. a record of the move is made, and then the target, which takes its space in
   Placement;
2. the data is copied: by QEMU, which then writes to both places, or by the
   backend if no process has the vdisk open;
3. the link is changed, in one step, if nobody else has written to the source
   meanwhile and the target is whole: from here on, the target is the vdisk;
4. QEMU is told to use the target alone, while the link is parked;
5. the source is deleted, if the target is still whole, and then the record.

Before step 3 the source is the vdisk, and a repetition starts over or takes up
the copy that QEMU still makes. From step 3 on both have the same data until
step 4, so a server that starts in between loses nothing. What QEMU has open
tells which one it writes to after a step 4 whose result is not known.

A parked link leads to the target for QEMU alone, and no server starts from it:
libvirt would take the target from QEMU by the link, in place of the source.
After a kill the repetition, or whatever else uses the volume, ends that.
"""

import abc
import contextlib
import dataclasses
import time
from typing import Protocol

from nova_diskplacer import exception

# Seconds between two looks at a copy that QEMU makes.
_INTERVAL = 1.0

# Seconds in which a copy must end while the volume is locked.
# libvirtd restarts in less.
_PATIENCE = 60.0


class Place(abc.ABC):
    """A place of a vdisk."""

    @property
    @abc.abstractmethod
    def path(self) -> str:
        """The path by which QEMU opens the vdisk there."""

    @abc.abstractmethod
    def activate(self) -> None:
        """Make the device at that path, if it has to be made."""

    @abc.abstractmethod
    def condemn(self) -> None:
        """Begin to delete the vdisk there, for good; the volume is locked.

        :raises DiskPlacerError: a process has it open, or the volume is not
            whole in the other place.
        """

    @abc.abstractmethod
    def delete(self) -> None:
        """Delete what is condemned, which may take long, and its claim."""

    @abc.abstractmethod
    def in_use(self) -> bool:
        """Return whether a process has the vdisk open there."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A copy that QEMU makes to ``path``, in bytes.

    ``ready`` is true when QEMU writes everything to both places.
    """

    path: str
    done: int
    total: int
    ready: bool


class GuestDisk(Protocol):
    """The disk of a running server that a vdisk is."""

    def job(self) -> Job | None:
        """Return the copy under way, None if there is none."""

    def start(self, path: str) -> None:
        """Begin to copy to a vdisk of the same size."""

    def pivot(self) -> None:
        """End a copy that is ready: QEMU uses the target alone."""

    def abort(self) -> bool:
        """End a copy: QEMU uses the source alone; False if there is none."""


class VDiskSteps(abc.ABC):
    """The steps of a move of a vdisk from ``source`` to ``target``."""

    @property
    @abc.abstractmethod
    def source(self) -> Place:
        """The place that the vdisk leaves."""

    @property
    @abc.abstractmethod
    def target(self) -> Place:
        """The place that it goes to."""

    @abc.abstractmethod
    def create(self) -> None:
        """Record the move, make the empty target, and take its space."""

    @abc.abstractmethod
    def guest(self) -> GuestDisk | None:
        """Return the disk of the server, None if it does not run with it."""

    @abc.abstractmethod
    def copy(self) -> None:
        """Copy between vdisks that no process has open."""

    @abc.abstractmethod
    def writes(self) -> str:
        """Return a text that changes if the source is written to."""

    @abc.abstractmethod
    def fill(self) -> None:
        """Allocate the blocks of the target that QEMU has left out."""

    @abc.abstractmethod
    def check_target(self) -> None:
        """Check that the target is whole.

        :raises DiskPlacerError: its disk is not healthy, or it is not complete
            or too small.
        """

    @abc.abstractmethod
    def is_decided(self) -> bool:
        """Return whether the target is the vdisk."""

    @abc.abstractmethod
    def decide(self, moved: bool) -> None:
        """Make the target the vdisk, or the source if not ``moved``."""

    @abc.abstractmethod
    def park(self) -> None:
        """Make the link resolve in the QEMU process of the server only."""

    @abc.abstractmethod
    def unpark(self) -> None:
        """Make the link resolve in every process; repeatable."""

    @abc.abstractmethod
    def save(self) -> None:
        """Tell Cinder that the target is the vdisk."""

    @abc.abstractmethod
    def check(self) -> None:
        """Check that the volume is as it was when the move was planned.

        :raises DiskPlacerError: it is not.
        """

    @abc.abstractmethod
    def forget(self) -> None:
        """Remove the record of the move."""

    @abc.abstractmethod
    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Lock the volume."""

    @abc.abstractmethod
    def progress(self, done: int, total: int) -> None:
        """Show how many bytes are copied."""


def run(move: VDiskSteps) -> None:
    """Move a vdisk, or finish a move that was interrupted.

    :raises DiskPlacerError: it is not moved; the source is the vdisk, or the
        repetition finishes the move.
    """
    _settle(move)
    _finish(move, None if move.is_decided() else _copy(move))


def take_back(move: VDiskSteps) -> None:
    """Undo a move that was interrupted, or finish it if it is decided.

    :raises DiskPlacerError: a process uses what should be deleted.
    """
    _settle(move)
    with move.locked():
        is_decided = move.is_decided()
        if not is_decided:
            _end_copy(move)
            move.target.condemn()
    if is_decided:
        _finish(move, None)
        return
    move.target.delete()
    move.forget()


def abandon(move: VDiskSteps) -> None:
    """End the copy of a move that was interrupted, unless it is decided.

    The target stays, and a repetition of the move begins with its copy.

    :raises DiskPlacerError: libvirt does not end it.
    """
    _settle(move)
    with move.locked():
        if not move.is_decided():
            _end_copy(move)


def _end_copy(move: VDiskSteps) -> None:
    """Abort the copy, and make the source the vdisk."""
    guest = move.guest()
    if guest and _job(move, guest):
        guest.abort()
    # Cinder may not have been told when the link led back
    move.decide(False)


def _settle(move: VDiskSteps) -> None:
    """Make the place that QEMU alone has open the vdisk.

    A copy fails if its target does, even when it was decided; and QEMU may
    have left the source after a call that reported an error. While the server
    does not run, only another process, such as a backup, has one open.
    """
    with move.locked():
        # a kill while QEMU left the source; the server may wait for it
        move.unpark()
        guest = move.guest()
        if guest is None or _job(move, guest):
            return
        is_decided = move.is_decided()
        source, target = move.source.in_use(), move.target.in_use()
        if is_decided and source and not target:
            move.decide(False)
        elif not is_decided and target and not source:
            move.decide(True)


def _copy(move: VDiskSteps) -> str | None:
    """Make the target a whole copy.

    :returns: what ``writes`` told before the backend copied, None if QEMU has
        copied and now writes to both.
    :raises DiskError: a process other than the server uses the source, or the
        copy failed.
    """
    guest = move.guest()
    if guest is None:
        if move.source.in_use():
            raise exception.DiskError(
                'it is in use, but not by its server on this host'
            )
        move.create()
        before = move.writes()
        move.copy()
        return before
    if not _job(move, guest):
        move.create()
        move.target.activate()
        guest.start(move.target.path)
    while True:
        job = _job(move, guest)
        if job is None:
            raise exception.DiskError(
                'its copy has ended: the server was stopped or rebooted, or '
                'a disk failed; libvirt and QEMU log the reason'
            )
        move.progress(job.done, job.total)
        if job.ready:
            break
        time.sleep(_INTERVAL)
    move.fill()
    return None


def _finish(move: VDiskSteps, writes_before: str | None) -> None:
    """Make the target the vdisk, and delete the source.

    :param writes_before: as ``_copy`` returns.
    :raises DiskError: the target is no whole copy any more.
    """
    with move.locked():
        move.check()
        guest = move.guest()
        job = _job(move, guest) if guest else None
        if not move.is_decided():
            _decide(move, guest, job, writes_before)
        if guest and job:
            move.park()
            try:
                _pivot(move, guest)
            finally:
                move.unpark()
        _check_left(move, writes_before)
        move.save()
        move.source.condemn()
    move.source.delete()
    move.forget()


def _decide(
    move: VDiskSteps,
    guest: GuestDisk | None,
    job: Job | None,
    writes_before: str | None,
) -> None:
    """Make the target the vdisk, if it is a whole copy.

    :raises DiskPlacerError: it is not.
    """
    is_as_copied = (
        job and job.ready if writes_before is None else guest is None
    )
    if not is_as_copied:
        raise exception.DiskError(
            'its server was started, stopped or rebooted while it was copied'
        )
    if writes_before is not None:
        _check_unwritten(move, writes_before)
    move.check_target()
    move.decide(True)


def _check_left(move: VDiskSteps, writes_before: str | None) -> None:
    """Check that nobody has used the source since the target is the vdisk.

    Otherwise the source is the vdisk again, unless a process may have written
    to the target.

    :raises DiskError: somebody has.
    """
    # a process may have opened the source before the decision
    if move.source.in_use():
        if not move.target.in_use() and (
            writes_before is not None or _runs(move)
        ):
            move.decide(False)
        raise exception.DiskError('a process still has it open')
    if writes_before is not None:
        try:
            _check_unwritten(move, writes_before)
        except exception.DiskError:
            if not move.target.in_use():
                move.decide(False)
            raise


def _pivot(move: VDiskSteps, guest: GuestDisk) -> None:
    """Tell QEMU to use the target alone.

    :raises DiskPlacerError: it uses the source, which is the vdisk again; or
        it has both open still, as after a kill, and a repetition goes on.
    """
    try:
        guest.pivot()
    except exception.DiskPlacerError as error:
        # it may still leave one of them: the call, or its result, was lost
        aborted = False
        deadline = time.monotonic() + _PATIENCE
        while True:
            source, target = move.source.in_use(), move.target.in_use()
            if not (source and target):
                break
            if time.monotonic() > deadline:
                # both have all data; the volume is not kept locked for hours
                raise exception.HypervisorError(
                    'QEMU still writes to both disks, and libvirt does not '
                    f'end its copy ({error}): repeat the move when it does'
                ) from error
            with contextlib.suppress(exception.DiskPlacerError):
                aborted = guest.abort()
            time.sleep(_INTERVAL)
        if not target and (aborted or (source and _runs(move))):
            move.decide(False)
            raise


def _runs(move: VDiskSteps) -> bool:
    """Return whether the server runs, or may run."""
    with contextlib.suppress(exception.DiskPlacerError):
        return move.guest() is not None
    return True


def _check_unwritten(move: VDiskSteps, writes_before: str) -> None:
    if move.writes() != writes_before:
        raise exception.DiskError(
            'its server was started and wrote to it while it was copied'
        )


def _job(move: VDiskSteps, guest: GuestDisk) -> Job | None:
    """Return the copy to the target, None if there is none.

    :raises DiskError: there is another copy.
    """
    job = guest.job()
    if job and job.path != move.target.path:
        raise exception.DiskError(
            f'libvirt already runs a job on it, with {job.path}'
        )
    return job
