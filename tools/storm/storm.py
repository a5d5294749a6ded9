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


"""A storm, round by round: clients and faults at once, then the checks."""

import collections
import collections.abc
import contextlib
import os
import pathlib
import threading
import time
import traceback
import typing

from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.storm import checking
from tools.storm import cleanup
from tools.storm import clients
from tools.storm import faults
from tools.storm import load
from tools.storm import memory
from tools.storm import operator
from tools.storm import plan
from tools.storm import recovery
from tools.storm import report
from tools.storm import tracebacks
from tools.storm.invariants import Violation

HOSTS = (
    Host('compute1', 'libvirt', media=('ssd',)),
    Host('compute2', media=('ssd',)),
    Host('compute3', media=('ssd',)),
)
CLIENTS = 4
# Seconds between two samples of memory.
_SAMPLES = 10
# Seconds that what was begun has to end when a storm is interrupted.
_END = 90


class Storm:
    """A storm on a cloud that is up."""

    def __init__(self, cloud: Cloud, seed: int) -> None:
        self._cloud = cloud
        self._seed = seed
        self._reports = recovery.Reports(cloud)
        watch = recovery.Watch(cloud, self._reports)
        self._services = faults.Services(cloud, watch)
        self._disks = faults.Disks(cloud)
        self._operator = operator.Operator(cloud)
        self._checker = checking.Checker(cloud, watch, self._operator)
        self._lanes = plan.lanes(seed, cloud.hosts)
        self._done: list[plan.Done] = []
        self._skipped: list[str] = []
        self._samples: dict[str, list[memory.Sample]] = (
            collections.defaultdict(list)
        )
        self._clients: list[clients.Client] = []
        self._errors: list[str] = []
        self._begun = time.monotonic()
        self._logs = {
            path: path.stat().st_size
            for path in cloud.state.logs.glob('*.log')
        }

    def run(self, rounds: int, seconds: float) -> None:
        """Have rounds of so many seconds, each with its check, and clean up.

        :raises RuntimeError: the storm itself has failed.
        """
        flavors = {
            one.name: self._cloud.api.create_flavor(
                one.name,
                one.ram,
                vdisks=one.vdisks,
                vdisk_gb=1,
                mapping=one.mapping,
                media='ssd',
            )
            for one in load.FLAVORS
        }
        self._clients = [
            clients.Client(self._cloud, self._seed, number, flavors)
            for number in range(CLIENTS)
        ]
        self._reports.start()
        try:
            for number in range(rounds):
                with self._cloud.step(f'storm {number + 1} of {rounds}'):
                    self._blow(seconds)
                with self._cloud.step('check'):
                    self._checker.settle()
                    self._checker.check(self._clients)
                    self._sweep(self._kept())
            with self._cloud.step('delete everything'):
                self._sweep(frozenset())
                self._checker.check_empty()
        finally:
            self._reports.stop()
            self._operator.end()

    def _kept(self) -> frozenset[str]:
        """Return the ids of what the clients go on with."""
        volumes = [one for each in self._clients for one in each.owned.volumes]
        servers = [one for each in self._clients for one in each.owned.servers]
        snapshots = [
            snapshot for volume in volumes for snapshot in volume.snapshots
        ]
        for each in self._clients:
            each.given_up.clear()
        return frozenset(one.uuid for one in (*servers, *volumes, *snapshots))

    def _sweep(self, kept: frozenset[str]) -> None:
        cleanup.sweep(self._cloud.api, kept)

    def _blow(self, seconds: float) -> None:
        """Have clients and lanes go on for so many seconds."""
        over = threading.Event()
        jobs: list[collections.abc.Callable[[], None]] = [
            lambda: self._run_lane('services', self._services.do, over),
            lambda: self._run_lane('disks', self._disks.do, over),
            lambda: self._run_lane('operator', self._operator.do, over),
            lambda: self._measure(over),
        ]
        jobs += [
            lambda client=client: client.run(over)  # type: ignore[misc]
            for client in self._clients
        ]
        threads = [
            threading.Thread(
                target=self._guarded, args=(job, over), daemon=True
            )
            for job in jobs
        ]
        for thread in threads:
            thread.start()
        try:
            over.wait(seconds)
        except BaseException:
            over.set()
            self._operator.end()
            deadline = time.monotonic() + _END
            for thread in threads:
                thread.join(max(0, deadline - time.monotonic()))
            raise
        over.set()
        for thread in threads:
            thread.join()
        if self._errors:
            raise RuntimeError('\n'.join(self._errors))

    def _guarded(
        self,
        job: collections.abc.Callable[[], None],
        over: threading.Event,
    ) -> None:
        try:
            job()
        except Exception:
            self._errors.append(traceback.format_exc())
            over.set()

    def _run_lane(
        self,
        name: str,
        do: collections.abc.Callable[
            [plan.Fault, threading.Event], float | None
        ],
        over: threading.Event,
    ) -> None:
        while not over.is_set():
            fault = next(self._lanes[name])
            if over.wait(fault.pause):
                return
            begun = round(time.monotonic() - self._begun, 1)
            text = f'{begun:6.0f} s  {fault.kind} {fault.target}'
            if name != 'operator':
                text += f' for {fault.seconds} s'
            if fault.disks:
                text += f' {fault.disks}'
            try:
                recovered = do(fault, over)
            except faults.Skipped as skipped:
                self._skipped.append(f'{text}: {skipped}')
                continue
            took = f', recovered in {recovered} s' if recovered else ''
            self._cloud.say(f'   {text}{took}')
            self._done.append(plan.Done(fault, begun, recovered))

    def _measure(self, over: threading.Event) -> None:
        """Sample the memory of all services."""
        while not over.wait(_SAMPLES):
            now = time.monotonic() - self._begun
            for name, service in self._cloud.services.items():
                pid = service.pid()
                if pid is not None:
                    with contextlib.suppress(OSError, ValueError):
                        self._samples[name].append(
                            memory.Sample(now, pid, _rss(pid))
                        )

    def outcome(
        self, seconds: int, command: typing.Sequence[str]
    ) -> report.Outcome:
        """Return what has happened."""
        counts: load.Counts = collections.defaultdict(collections.Counter)
        for client in self._clients:
            for name, ended in client.counts.items():
                counts[name] += ended
        growth, grown = self._growth()
        found = [
            *self._services.violations,
            *self._disks.violations,
            *self._operator.violations,
            *self._checker.violations,
            *(one for each in self._clients for one in each.violations),
            *self._logged(),
            *grown,
        ]
        return report.Outcome(
            self._seed,
            seconds,
            command,
            counts,
            [one for client in self._clients for one in client.failures],
            self._done,
            self._skipped,
            self._operator.statuses,
            sorted(set(found)),
            self._checker.vdisks,
            self._checker.repairs,
            growth,
        )

    def _growth(
        self,
    ) -> tuple[dict[str, tuple[float, float]], list[Violation]]:
        """Return the MiB of the longest run of each, and what grows."""
        growth, found = {}, []
        for name, samples in self._samples.items():
            runs = memory.runs(samples)
            if not runs:
                continue
            run = max(runs, key=len)
            first, last = growth[name] = memory.growth(run)
            if memory.grows(run):
                owner = 'project'
                if not name.startswith('diskplacer'):
                    owner = 'nova' if name.startswith('nova') else 'cinder'
                found.append(
                    Violation(
                        'memory',
                        name,
                        f'grows from {first:.0f} to {last:.0f} MiB',
                        owner,
                    )
                )
        return growth, found

    def _logged(self) -> list[Violation]:
        """Return what the logs tell of exceptions that nothing handles."""
        found = []
        for path in sorted(self._cloud.state.logs.glob('*.log')):
            with path.open('rb') as stream:
                stream.seek(self._logs.get(path, 0))
                text = stream.read().decode(errors='replace')
            counts = collections.Counter(
                one
                for one in tracebacks.parse(text)
                if tracebacks.is_unhandled(path.stem, one)
            )
            found += [
                Violation(
                    'traceback',
                    path.stem,
                    f'{count} times: {one.text} at {", ".join(one.frames)}',
                )
                for one, count in counts.items()
            ]
        return found


def _rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    fields = pathlib.Path(f'/proc/{pid}/statm').read_text().split()
    return int(fields[1]) * os.sysconf('SC_PAGESIZE')
