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
4. QEMU is told to use the target alone;
5. the source is deleted, if the target is still whole, and then the record.

Before step 3 the source is the vdisk, and a repetition starts over or takes up
the copy that QEMU still makes. From step 3 on both have the same data until
step 4, so a server that starts in between loses nothing. What QEMU has open
tells which one it writes to after a step 4 whose result is not known.
"""

import collections.abc
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


@dataclasses.dataclass(frozen=True)
class Place:
    """A place of a vdisk, with the path by which QEMU opens it there.

    ``condemn`` begins to delete it, for good; the volume is locked. It is
    refused while a process has the vdisk open, which ``in_use`` tells, and
    unless the volume is whole in the other place. ``delete`` does the rest,
    which may take long, and releases the space.
    """

    path: str
    condemn: collections.abc.Callable[[], None]
    delete: collections.abc.Callable[[], None]
    in_use: collections.abc.Callable[[], bool]


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


@dataclasses.dataclass(frozen=True)
class Move:
    """A move of a vdisk from ``source`` to ``target``.

    ``create`` records the move, makes the empty target, unless it is there,
    and takes its space in Placement; ``forget`` removes the record. ``fill``
    allocates the blocks that QEMU has left out, and ``check_target`` raises an
    error unless the target is on a healthy disk, complete and of full size.
    ``guest`` returns the disk of the server, None if it does not run with it.
    ``copy`` copies between vdisks that no process has open, and ``writes``
    returns a text that changes if the source is written to. ``decided`` tells
    if the target is the vdisk, ``decide`` makes it so, or with False the
    source. ``save`` tells Cinder. ``check`` raises an error if the volume has
    changed since the move was planned. ``locked`` locks the volume.
    ``progress`` is told of copied and all bytes.
    """

    source: Place
    target: Place
    create: collections.abc.Callable[[], None]
    guest: collections.abc.Callable[[], GuestDisk | None]
    copy: collections.abc.Callable[[], None]
    writes: collections.abc.Callable[[], str]
    fill: collections.abc.Callable[[], None]
    check_target: collections.abc.Callable[[], None]
    decided: collections.abc.Callable[[], bool]
    decide: collections.abc.Callable[[bool], None]
    save: collections.abc.Callable[[], None]
    check: collections.abc.Callable[[], None]
    forget: collections.abc.Callable[[], None]
    locked: collections.abc.Callable[
        [], contextlib.AbstractContextManager[None]
    ]
    progress: collections.abc.Callable[[int, int], None]


def run(move: Move) -> None:
    """Move a vdisk, or finish a move that was interrupted.

    :raises DiskPlacerError: it is not moved; the source is the vdisk, or the
        repetition finishes the move.
    """
    _settle(move)
    _finish(move, None if move.decided() else _copy(move))


def take_back(move: Move) -> None:
    """Undo a move that was interrupted, or finish it if it is decided.

    :raises DiskPlacerError: a process uses what should be deleted.
    """
    _settle(move)
    with move.locked():
        decided = move.decided()
        if not decided:
            guest = move.guest()
            if guest and _job(move, guest):
                guest.abort()
            # Cinder may not have been told when the link led back
            move.decide(False)
            move.target.condemn()
    if decided:
        _finish(move, None)
        return
    move.target.delete()
    move.forget()


def _settle(move: Move) -> None:
    """Make the place that QEMU alone has open the vdisk.

    A copy fails if its target does, even when it was decided; and QEMU may
    have left the source after a call that reported an error. While the server
    does not run, only another process, such as a backup, has one open.
    """
    with move.locked():
        guest = move.guest()
        if guest is None or _job(move, guest):
            return
        decided = move.decided()
        source, target = move.source.in_use(), move.target.in_use()
        if decided and source and not target:
            move.decide(False)
        elif not decided and target and not source:
            move.decide(True)


def _copy(move: Move) -> str | None:
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


def _finish(move: Move, copied: str | None) -> None:
    """Make the target the vdisk, and delete the source.

    :param copied: as ``_copy`` returns.
    :raises DiskError: the target is no whole copy any more.
    """
    with move.locked():
        move.check()
        guest = move.guest()
        job = _job(move, guest) if guest else None
        if not move.decided():
            if not (job and job.ready if copied is None else guest is None):
                raise exception.DiskError(
                    'its server was started, stopped or rebooted while it '
                    'was copied'
                )
            if copied is not None:
                _check_unwritten(move, copied)
            move.check_target()
            move.decide(True)
        if guest and job:
            _pivot(move, guest)
        # a process may have opened the source before the decision
        if move.source.in_use():
            if not move.target.in_use() and (
                copied is not None or _runs(move)
            ):
                move.decide(False)
            raise exception.DiskError('a process still has it open')
        if copied is not None:
            try:
                _check_unwritten(move, copied)
            except exception.DiskError:
                if not move.target.in_use():
                    move.decide(False)
                raise
        move.save()
        move.source.condemn()
    move.source.delete()
    move.forget()


def _pivot(move: Move, guest: GuestDisk) -> None:
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
                    f'end its copy ({error}): repeat the drain when it does'
                ) from error
            with contextlib.suppress(exception.DiskPlacerError):
                aborted = guest.abort()
            time.sleep(_INTERVAL)
        if not target and (aborted or (source and _runs(move))):
            move.decide(False)
            raise


def _runs(move: Move) -> bool:
    """Return whether the server runs, or may run."""
    with contextlib.suppress(exception.DiskPlacerError):
        return move.guest() is not None
    return True


def _check_unwritten(move: Move, copied: str) -> None:
    if move.writes() != copied:
        raise exception.DiskError(
            'its server was started and wrote to it while it was copied'
        )


def _job(move: Move, guest: GuestDisk) -> Job | None:
    """Return the copy to the target, None if there is none.

    :raises DiskError: there is another copy.
    """
    job = guest.job()
    if job and job.path != move.target.path:
        raise exception.DiskError(
            f'libvirt already runs a job on it, with {job.path}'
        )
    return job
