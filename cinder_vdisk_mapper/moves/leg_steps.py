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

"""Moves legs of an elastic volume, in an order that survives kills.

1. The legs are allocated on the target, and the claim follows.
2. The kernel copies. The server's writes go to both places.
3. ``provider_location`` of the volume is changed, in one step: from here on,
   the legs are on the target.
4. The volume uses them alone, and those on the source are wiped.

Before step 3 a repetition goes on with the copy or takes it back; afterwards
it finishes. Both places have the same data from the end of the copy to step 4,
so it does not matter when the volume is attached or the host is booted.
"""

import abc
import time

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import mover

LOG = logging.getLogger(__name__)

#: the lock of who moves legs on a host
LOCK = 'elastic-move'

# Seconds between two looks at a copy.
_INTERVAL = 1.0


class LegSteps(abc.ABC):
    """The steps of a move of legs."""

    @abc.abstractmethod
    def is_decided(self) -> bool:
        """Return whether the legs are on the target."""

    @abc.abstractmethod
    def begin(self) -> None:
        """Allocate the legs there, and have the kernel copy, or go on to."""

    @abc.abstractmethod
    def copied(self) -> tuple[int, int]:
        """Return the bytes that are in both places, and all bytes.

        :raises DiskPlacerError: a disk has failed.
        """

    @abc.abstractmethod
    def pace(self, done: int) -> None:
        """Adapt the rate of the copy.

        :param done: bytes that are in both places.
        """

    @abc.abstractmethod
    def decide(self) -> None:
        """Make the target the place of the legs."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Remove the legs from the source."""

    @abc.abstractmethod
    def undo(self) -> None:
        """Remove the legs from the target."""


def run(
    move: LegSteps,
    progress: mover.Progress,
    stopped: mover.IsStopped,
) -> None:
    """Move legs, or go on with a move that was interrupted.

    :raises DiskPlacerError: it was taken back, or must be repeated if that
        failed too.
    """
    if not move.is_decided():
        try:
            move.begin()
            _wait(move, progress, stopped)
            move.decide()
        except exception.DiskPlacerError:
            try:
                take_back(move)
            except exception.DiskPlacerError as error:
                LOG.error('The move is not taken back, recover it: %s', error)
            raise
    move.finish()


def take_back(move: LegSteps) -> None:
    """Undo a move that was interrupted, or finish it if it is decided."""
    if move.is_decided():
        move.finish()
    else:
        move.undo()


def _wait(
    move: LegSteps,
    progress: mover.Progress,
    stopped: mover.IsStopped,
) -> None:
    while True:
        done, total = move.copied()
        progress(done, total)
        if done == total:
            return
        if stopped():
            raise exception.DiskPlacerError('the move was stopped')
        move.pace(done)
        time.sleep(_INTERVAL)
