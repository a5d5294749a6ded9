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

"""Carries out, step by step, the moves that the agent wants.

The executor is a process of its own, because only the Cinder driver can move a
volume and the agent must never wait for a disk. It holds no plan: after each
step it asks the agent for the next one. So both may be restarted at any time.
"""

import collections.abc
import contextlib
import threading
import time

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import mover as mover_
from nova_diskplacer.disks.location import Location
from nova_diskplacer.elastic.processes import operator_overrides
from nova_diskplacer.elastic.processes import progress as progress_
from nova_diskplacer.host import files
from nova_diskplacer.host import log_once
from nova_diskplacer.host import retry_logger
from nova_diskplacer.monitor import elastic_status

LOG = logging.getLogger(__name__)

# Seconds between two questions to the agent, two writes of the progress of a
# step, two writes without a step, and two attempts to clean up after a kill.
_PAUSE = 2.0
_PROGRESS_PAUSE = 2.0
_IDLE_PAUSE = 60.0
_RECOVER_PAUSE = 30.0


class Executor:
    """Moves legs of vdisks, one step at a time, as the agent decides.

    :param wanted_step: returns the step that the agent wants, if any.
    :param copy_share: ``[diskplacer_elastic] copy_share``.
    :param show: called once a second with the volume that is moved, its
        copied bytes and all its bytes.
    """

    def __init__(
        self,
        disk_root: str,
        mover: mover_.Mover,
        wanted_step: collections.abc.Callable[
            [], elastic_status.WantedStep | None
        ],
        stopped: threading.Event,
        copy_share: float,
        show: collections.abc.Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._percent = max(1, round(100 * copy_share))
        self._disk_root = disk_root
        self._mover = mover
        self._wanted_step = wanted_step
        self._stopped = stopped
        self._show = show
        self._last = progress_.FILE.read(disk_root)
        self._written = -_IDLE_PAUSE
        # whether no step is left that was neither finished nor taken back
        self._is_clean = False
        self._log = retry_logger.RetryLogger(
            'No legs are moved', 'Legs are moved again'
        )
        self._recovering = retry_logger.RetryLogger(
            'Interrupted steps are not cleaned up',
            'Interrupted steps are cleaned up',
        )

    def run(self) -> None:
        """Work until ``stopped`` is set.

        :raises ElasticError: another process does.
        """
        refusal = exception.ElasticError(
            'another "diskplacer-manage elastic run" is running on this host'
        )
        with files.sole('elastic-run', refusal):
            due = 0.0
            while True:
                if not self._is_clean and time.monotonic() >= due:
                    self._is_clean = self._recovering.run(self._mover.recover)
                    due = time.monotonic() + _RECOVER_PAUSE
                if self._stopped.is_set():
                    return
                self._log.run(self.run_once)
                self._stopped.wait(_PAUSE)

    def run_once(self) -> None:
        """Take the step that is wanted, if any.

        A step that ended is not taken again before the agent asks anew.

        :raises DiskPlacerError: there is no agent, or the step was not begun.
        """
        step = self._wanted_step()
        last = self._last
        if step is None or (last and last.has_ended and last.is_of(step)):
            self._say_idle()
        else:
            self.step(
                step.vdisk,
                Location(step.location),
                step.size_bytes,
                step.asked,
            )

    def step(
        self,
        vdisk: str,
        location: Location,
        size_bytes: int = 0,
        asked: float = 0.0,
    ) -> str:
        """Take a step; returns why it failed, '' if it did not.

        :raises DiskPlacerError: the step was not begun: another process takes
            one, or the disk root cannot be written to.
        """
        refusal = exception.ElasticError(
            'another process moves an elastic vdisk of this host'
        )
        with files.sole('elastic-step', refusal):
            self._look_for_others()
            progress = progress_.Progress(
                state=progress_.MOVING,
                time=time.time(),
                vdisk=vdisk,
                location=location,
                asked=asked,
                total=size_bytes,
            )
            self._write(progress)
            LOG.debug('Moving %s to %s.', vdisk, location)
            reason = self._move(progress)
            if not reason:
                outcome = progress.now(state=progress_.DONE, done=size_bytes)
            elif self._stopped.is_set():
                # it is taken when the executor runs again
                outcome = progress.now(state=progress_.IDLE)
            else:
                outcome = progress.now(state=progress_.FAILED, reason=reason)
                # nor may it have been taken back
                self._is_clean = False
            self._write(outcome)
        return reason

    def _move(self, progress: progress_.Progress) -> str:
        """Move legs; returns why that failed, '' if it did not."""
        unwritten = log_once.ChangeLogger(LOG)

        def report(done: int, total: int) -> None:
            if self._show:
                self._show(progress.vdisk, done, total)
            if time.monotonic() - self._written < _PROGRESS_PAUSE:
                return
            try:
                self._write(progress.now(done=done, total=total))
            except exception.DiskError as error:
                unwritten.log('', 'The progress is not written: %s', error)

        try:
            self._mover.move(
                progress.vdisk,
                Location(progress.location),
                report,
                lambda: self._must_stop(progress.vdisk),
                self._percent,
            )
        except exception.DiskPlacerError as error:
            LOG.warning('%s was not moved: %s', progress.vdisk, error)
            return str(error) or type(error).__name__
        except Exception as error:
            # of Cinder or its database: the next step may succeed
            LOG.exception('%s was not moved.', progress.vdisk)
            return f'{type(error).__name__}: {error}'
        return ''

    def _must_stop(self, vdisk: str) -> bool:
        try:
            forbidden = operator_overrides.read(self._disk_root).forbid(vdisk)
        except exception.ElasticError as error:
            LOG.warning('%s', error)
            forbidden = True
        return forbidden or self._stopped.is_set()

    def _say_idle(self) -> None:
        if time.monotonic() - self._written < _IDLE_PAUSE:
            return
        # an operator who takes a step writes the state
        with (
            contextlib.suppress(BlockingIOError),
            files.lock('elastic-step', wait=False),
        ):
            last = self._look_for_others()
            if last is None or not last.has_ended:
                last = progress_.Progress(progress_.IDLE, 0.0)
            self._write(last.now())

    def _look_for_others(self) -> progress_.Progress | None:
        """Return what was written last, by this process or another one.

        The other one may have been killed in its step, or not have taken back
        one that failed.
        """
        last = progress_.FILE.read(self._disk_root)
        if last != self._last:
            self._is_clean = False
        return last

    def _write(self, progress: progress_.Progress) -> None:
        self._last = progress
        self._written = time.monotonic()
        progress_.FILE.write(self._disk_root, progress)
