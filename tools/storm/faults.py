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


"""Faults of services and of disks: begun, held, ended, and recovered from."""

import collections.abc
import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time

from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import reading
from tools.storm import recovery
from tools.storm.invariants import Violation
from tools.storm.plan import Fault

# Bytes that a filled disk has left.
_LEFT = 16 * 2**20
_FILLER = 'storm-filler'
# Seconds for which a disk may be busy with what was begun before.
_BUSY = 120

# Seconds for a mount namespace of others to let a filesystem go.
_KEPT = 120.0


class Skipped(Exception):
    """A fault could not be made now."""


class Services:
    """Kills, hangs and stops services."""

    def __init__(self, cloud: Cloud, watch: recovery.Watch) -> None:
        self._cloud = cloud
        self._watch = watch
        self.violations: list[Violation] = []

    def do(self, fault: Fault, over: threading.Event) -> float | None:
        """Do a fault; returns the seconds of the recovery.

        :raises Skipped: the service does not run.
        """
        service = self._cloud.services[fault.target]
        if not service.running():
            raise Skipped(f'{fault.target} does not run')
        if fault.kind == 'hang':
            service.signal_session(signal.SIGSTOP)
            try:
                over.wait(fault.seconds)
            finally:
                service.signal_session(signal.SIGCONT)
        else:
            if fault.kind == 'kill':
                service.signal_session(signal.SIGKILL)
            service.stop()
            over.wait(fault.seconds)
            try:
                service.start()
                service.wait_ready(recovery.LIMIT)
            except process.ProcessError as error:
                what = f'does not start after a {fault.kind}: {error}'
                self.violations.append(
                    Violation('recovery', fault.target, what)
                )
                return None
        return self._recover(fault)

    def _recover(self, fault: Fault) -> float | None:
        names = [fault.target]
        if fault.target in ('mariadb', 'rabbitmq'):
            names = self._watch.all_services()
        seconds = self._watch.seconds(names)
        if seconds is None:
            self.violations.append(
                Violation(
                    'recovery',
                    fault.target,
                    f'does not report within {recovery.LIMIT} s after a '
                    f'{fault.kind} of {fault.seconds} s',
                )
            )
        return seconds


class Disks:
    """Fills, freezes, unmounts, fails disks, and makes them read-only."""

    def __init__(self, cloud: Cloud) -> None:
        self._state = cloud.state
        self.violations: list[Violation] = []

    def do(self, fault: Fault, over: threading.Event) -> None:
        """Do a fault and undo it.

        :raises Skipped: the disk is in use.
        """
        uuid = reading.disk_names(self._state, fault.target)[fault.disks[0]]
        point = self._state.disk_root(fault.target) / uuid
        name = fault.kind.replace('-', '_')
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(getattr(self, f'_{name}')(point))
            except process.ProcessError as error:
                # the disk is as a fault before has left it, which is reported
                raise Skipped(str(error)) from error
            over.wait(fault.seconds)

    @contextlib.contextmanager
    def _fill(self, point: pathlib.Path) -> collections.abc.Iterator[None]:
        status = os.statvfs(point)
        free = status.f_bavail * status.f_frsize - _LEFT
        filler = point / _FILLER
        try:
            try:
                process.run('fallocate', '--length', str(free), str(filler))
            except process.ProcessError as error:
                # it is full, or somebody else was quicker
                raise Skipped(str(error)) from error
            yield
        finally:
            filler.unlink(missing_ok=True)
            # a disk that fails soon would have it again
            process.run('sync', '--file-system', str(point))

    @contextlib.contextmanager
    def _freeze(self, point: pathlib.Path) -> collections.abc.Iterator[None]:
        process.run('fsfreeze', '--freeze', str(point))
        try:
            yield
        finally:
            process.run('fsfreeze', '--unfreeze', str(point))

    @contextlib.contextmanager
    def _vanish(self, point: pathlib.Path) -> collections.abc.Iterator[None]:
        device = reading.device(self._state, point)
        self._when_idle('umount', str(point))
        try:
            yield
        finally:
            below = reading.below_mount_point(point)
            process.run('mount', '-o', 'noatime', device, str(point))
        if below:
            self.violations.append(
                Violation(
                    'below-mount-point',
                    str(point),
                    f'has, while its disk is not mounted: {below}',
                )
            )

    @contextlib.contextmanager
    def _read_only(
        self, point: pathlib.Path
    ) -> collections.abc.Iterator[None]:
        self._when_idle('mount', '-o', 'remount,ro', str(point))
        try:
            yield
        finally:
            process.run('mount', '-o', 'remount,rw', str(point))

    @contextlib.contextmanager
    def _fail(self, point: pathlib.Path) -> collections.abc.Iterator[None]:
        device = reading.device(self._state, point)
        process.run('xfs_io', '-x', '-c', 'shutdown', str(point))
        try:
            yield
        finally:
            try:
                self._when_idle('umount', str(point))
            except Skipped:
                self.violations.append(
                    Violation(
                        'held-open',
                        str(point),
                        f'has failed, and is in use for {_BUSY} s after that: '
                        + _users(point),
                    )
                )
                raise
            self._mount_anew(device, point)

    def _mount_anew(self, device: str, point: pathlib.Path) -> None:
        """Mount a disk whose filesystem was shut down.

        As long as another mount namespace has it mounted, as one has that a
        process of this machine has just made, a mount gives the filesystem
        that was shut down.

        :raises RuntimeError: it is kept for long.
        """
        deadline = time.monotonic() + _KEPT
        while True:
            process.run('mount', '-o', 'noatime', device, str(point))
            try:
                os.listdir(point)
            except OSError as error:
                self._when_idle('umount', str(point))
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f'another mount namespace keeps {point}, which has '
                        f'failed, for {_KEPT} s: {error}'
                    ) from error
                time.sleep(0.5)
            else:
                return

    def _when_idle(self, *command: str) -> None:
        """Do what is refused while a file of the disk is open.

        :raises Skipped: one is open all the time.
        """
        deadline = time.monotonic() + _BUSY
        while True:
            try:
                process.run(*command)
            except process.ProcessError as error:
                if 'busy' not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise Skipped(str(error)) from error
                time.sleep(0.2)
            else:
                return


def _users(point: pathlib.Path) -> str:
    """Return the processes that use a disk."""
    found = subprocess.run(
        ['fuser', '--verbose', '--mount', str(point)],
        capture_output=True,
        text=True,
    )
    return ' '.join(found.stderr.split())
