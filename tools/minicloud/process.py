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


"""Long-running programs: start, watch, stop; also from another process."""

import collections.abc
import dataclasses
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

OPEN_FILES = 65536
# How many times longer everything may take, on a machine that is emulated.
SLOWER = float(os.environ.get('MINICLOUD_SLOWER', 1))


class ProcessError(Exception):
    """A program did not start, or died."""


def environment(**extra: str) -> dict[str, str]:
    """Return an environment that owes nothing to the caller's."""
    return {
        'PATH': f'{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin'
        ':/usr/sbin:/usr/bin:/sbin:/bin',
        'HOME': '/root',
        'LANG': 'C.UTF-8',
        **extra,
    }


def run(
    *argv: str,
    log: pathlib.Path | None = None,
    text: str | None = None,
    env: collections.abc.Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    :raises ProcessError: its exit status is not 0; says what it printed.
    """
    done = subprocess.run(
        argv,
        env=environment(**(env or {})),
        input=text or '',
        capture_output=True,
        text=True,
        check=False,
    )
    if log:
        with log.open('a') as out:
            out.write(f'$ {" ".join(argv)}\n{done.stdout}{done.stderr}')
    if done.returncode:
        tail = (done.stdout + done.stderr)[-2000:]
        raise ProcessError(f'{argv[0]}: exit {done.returncode}: {tail}')
    return done.stdout


def wait(
    what: str,
    ready: collections.abc.Callable[[], object],
    timeout: float = 300,
    interval: float = 0.3,
) -> object:
    """Call ``ready`` until it returns something true, and return that.

    :param timeout: seconds, of a machine that is not emulated.
    :raises ProcessError: not within ``timeout`` seconds.
    """
    timeout *= SLOWER
    interval *= SLOWER
    deadline = time.monotonic() + timeout
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > deadline:
            raise ProcessError(f'{what}: not within {timeout:.0f} s')
        time.sleep(interval)


def port_open(port: int) -> bool:
    """Return whether something listens on a TCP port of 127.0.0.1."""
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(('127.0.0.1', port)) == 0


def start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks; None if it is gone."""
    try:
        text = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    fields = text.rpartition(')')[2].split()
    return None if fields[0] == 'Z' else fields[19]


@dataclasses.dataclass
class Process:
    """A program in a session of its own, known by a file in ``run_dir``.

    The file holds the process id and its start time, so that another run of
    this program stops what this one started, and nothing else. It is written
    before the program runs: who starts it may be killed at any time. ``user``
    is the id of the user and the group that it runs as, if not ours.
    """

    name: str
    argv: list[str]
    run_dir: pathlib.Path
    log_dir: pathlib.Path
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    ready: collections.abc.Callable[[], object] | None = None
    grace: float = 10
    user: int | None = None
    popen: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> pathlib.Path:
        return self.log_dir / f'{self.name}.log'

    @property
    def record(self) -> pathlib.Path:
        return self.run_dir / f'{self.name}.pid'

    def start(self) -> None:
        """Start the program; :meth:`wait_ready` waits for it."""
        if self.running():
            return
        with (
            self.log.open('ab') as log,
            self.record.open('wb', buffering=0) as record,
        ):
            self.popen = subprocess.Popen(
                self.argv,
                env=environment(**self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd='/',
                preexec_fn=lambda: _prepare(record.fileno()),
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )

    def wait_ready(self, timeout: float = 600) -> None:
        """Wait until the program answers.

        :raises ProcessError: it died, or does not answer in ``timeout`` s.
        """

        def ready() -> object:
            if not self.running():
                raise ProcessError(f'{self.name} died:\n{self._printed()}')
            return self.ready is None or self.ready()

        wait(f'{self.name} (see {self.log})', ready, timeout)

    def finish(self) -> None:
        """Wait for the end of a program that was started.

        :raises ProcessError: its exit status is not 0.
        """
        status = self.popen.wait() if self.popen else 0
        self.record.unlink(missing_ok=True)
        if status:
            raise ProcessError(
                f'{self.name}: exit {status}:\n{self._printed()}'
            )

    def pid(self) -> int | None:
        """Return the process id, None if the program does not run."""
        if self.popen is not None:
            self.popen.poll()
        pid, started = self._recorded()
        return pid if started and start_time(pid) == started else None

    def _recorded(self) -> tuple[int, str]:
        try:
            pid, started = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return 0, ''
        return pid, started

    def running(self) -> bool:
        return self.pid() is not None

    def signal_session(self, number: int) -> None:
        """Send a signal to the program and all it started in its session."""
        pid = self.pid()
        if pid is not None:
            _signal_session(pid, number)

    def _printed(self) -> str:
        return self.log.read_text(errors='replace')[-2000:]

    def stop(self, grace: float | None = None) -> None:
        """Stop the program and all it started in its session."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + SLOWER * (
                self.grace if grace is None else grace
            )
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.05)
        session, started = self._recorded()
        # what it started may outlive it; its id may be another's by now
        if session and start_time(session) in (None, started):
            wait(
                f'{self.name}: end',
                lambda: not _kill_session(session),
                interval=0.05,
            )
        self.record.unlink(missing_ok=True)


def _prepare(record: int) -> None:
    """Record this process in an open file, and limit its files."""
    pid = os.getpid()
    os.write(record, json.dumps([pid, start_time(pid)]).encode())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = min(OPEN_FILES, hard) if hard > 0 else OPEN_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _kill_session(session: int) -> bool:
    """Kill what runs in a session; returns whether anything does."""
    return _signal_session(session, signal.SIGKILL)


def _signal_session(session: int, number: int) -> bool:
    """Send a signal to what runs in a session; returns if anything does."""
    found = False
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            # one that has ended may wait for its parent
            if os.getsid(pid) == session and start_time(pid):
                os.kill(pid, number)
                found = True
        except ProcessLookupError:
            pass
    return found


def stop_recorded(
    run_dir: pathlib.Path, log_dir: pathlib.Path, grace: float = 5
) -> None:
    """Stop all that is recorded in ``run_dir``; kill after ``grace`` s."""
    processes = [
        Process(path.stem, [], run_dir, log_dir)
        for path in run_dir.glob('*.pid')
    ]
    for process in processes:
        if (pid := process.pid()) is not None:
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + SLOWER * grace
    while time.monotonic() < deadline and any(
        process.running() for process in processes
    ):
        time.sleep(0.1)
    for process in processes:
        process.stop(0)
