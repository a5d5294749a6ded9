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

"""Measures cells in servers: one boot of them, by the clock.

Nothing but the image reaches a server from outside, so its user data say when
each cell begins. The host changes its queue in the gaps between windows,
and reads the consoles in pauses, when nothing is measured.
"""

import collections.abc
import dataclasses
import math
import time

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import bare
from diskplacer_measure.sweep.measure import claims
from diskplacer_measure.sweep.measure import host_cpu
from diskplacer_measure.sweep.measure import measured_disk
from diskplacer_measure.sweep.measure import measuring_server
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import servers
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer import exception

# Seconds between two looks at servers that boot, and between two samples of
# the processors while servers measure.
_LOOK = 3.0
_SAMPLE = 0.5
# Seconds that the last lines take to reach the console.
_LAST_LINES = 30.0


@dataclasses.dataclass(frozen=True)
class ServerBoots:
    """Measures the batches of servers."""

    header: results.Header
    disk: measured_disk.MeasuredDisk
    claims: claims.Claims
    servers: servers.Servers

    def measure(
        self, batch: plan.BootBatch, timing: plan.Timing, record: bare.Record
    ) -> plan.Timing:
        """Measure a batch, and return the timing with the times of its steps.

        The servers, their flavor and their volumes are gone when it returns.

        :param record: called with each result, which may have a problem.
        :raises DiskPlacerError: the servers cannot measure, or an API or the
            disk fails.
        """
        try:
            return _ServerBoot(self, batch, timing, record).run()
        finally:
            self.servers.remove()


class _ServerBoot:
    """The boot of a batch; see :class:`ServerBoots`."""

    def __init__(
        self,
        context: ServerBoots,
        batch: plan.BootBatch,
        timing: plan.Timing,
        record: bare.Record,
    ) -> None:
        self._context = context
        self._batch = batch
        self._timing = timing
        self._record = record
        header = context.header
        self._limits = plan.Limits(header.data_mib, header.seconds)
        self._ids = {
            repetition: (
                f'{header.plan.index(repetition.cell)}.{repetition.number}'
            )
            for repetition in batch.repetitions
        }
        self._servers: list[measuring_server.MeasuringServer] = []
        self._sampler = host_cpu.Sampler()
        self._late: set[plan.Repetition] = set()
        self._recorded: set[plan.Repetition] = set()

    def run(self) -> plan.Timing:
        """Boot the servers, have them measure, and record the results."""
        requested = time.time()
        start = math.ceil(requested) + plan.lead_seconds(
            self._batch, self._timing, self._limits
        )
        windows = plan.windows(self._batch, start, self._timing, self._limits)
        self._request(windows)
        problem = self._wait_ready(start, requested)
        if problem:
            for repetition in self._batch.repetitions:
                self._record(outcome.failed(repetition, start, problem))
            if any(server.problem for server in self._servers):
                return self._timing
            # they booted late
            return self._updated_timing(requested)
        self._measure(windows)
        self._wait_done()
        for window in windows:
            self._record_once(window)
        return self._updated_timing(requested)

    def _request(self, windows: collections.abc.Sequence[plan.Window]) -> None:
        header, target = self._context.header, self._batch.target
        api = self._context.servers
        mib = target.share_mib(header.data_mib)
        gb = workload.size_gb(mib)
        self._context.claims.hold()
        flavor = api.make_flavor(target, gb)
        lines = [
            workload.line(
                self._ids[window.repetition],
                window.repetition.cell,
                window.start,
            )
            for window in windows
        ]
        for index in range(target.servers):
            name = f'{windows[0].start}-{index}'
            token = f'{header.id}-{name}'
            script = workload.script(
                lines,
                token=token,
                mib=mib,
                kib=header.block_kib,
                seconds=header.seconds,
                size_bytes=gb << 30,
            )
            id_ = api.boot(name, flavor, gb, script)
            self._servers.append(
                measuring_server.MeasuringServer(api, id_, token)
            )

    def _wait_ready(self, start: int, requested: float) -> str:
        """Wait until it is time to measure.

        If servers boot late, it waits until they have booted.

        :returns: the reason that nothing can be measured, '' without one.

        :raises DiskPlacerError: a server cannot be built, or cannot measure,
            or does not boot in time.
        """
        checked = False
        while time.time() < start:
            if self._look() and not checked:
                self._context.disk.require_servers(
                    [server.id for server in self._servers]
                )
                checked = True
            left_s = start - time.time()
            time.sleep(max(0.0, min(_LOOK, left_s)))
        slow = sum(not server.ready for server in self._servers)
        if slow:
            self._wait_booted(start, requested)
        for server in self._servers:
            if server.problem:
                return server.problem
        if slow:
            return f'{slow} of {len(self._servers)} servers booted late'
        return ''

    def _wait_booted(self, start: float, requested: float) -> None:
        """Wait until all servers have booted that are late.

        :raises DiskPlacerError: one takes too long.
        """
        timing = self._timing
        expected = timing.boot_seconds(self._batch.target)
        end = start + timing.boot_timeout - expected
        while not self._look():
            if time.time() > end:
                slow = next(
                    server for server in self._servers if not server.ready
                )
                raise exception.DiskPlacerError(
                    f'server {slow.id} does not measure '
                    f'{time.time() - requested:.0f} s after it was requested: '
                    '--boot-timeout is more; the last lines of its console: '
                    + slow.last_lines()
                )
            time.sleep(_LOOK)

    def _look(self) -> bool:
        """Look at servers that boot; return whether all have booted."""
        for server in self._servers:
            if not server.ready:
                server.look()
        return all(server.ready for server in self._servers)

    def _measure(self, windows: collections.abc.Sequence[plan.Window]) -> None:
        """Change the queue for each window; record results in pauses.

        :raises DiskPlacerError: the queue cannot be changed, or somebody else
            changes it.
        """
        disk = self._context.disk
        for index, window in enumerate(windows):
            if index and not index % plan.READ_EVERY:
                self._record_answered(windows[:index])
            self._sleep_until(window.start - plan.GAP)
            disk.drop_caches()
            disk.prepare(window.repetition.cell)
            if time.time() > window.start:
                self._late.add(window.repetition)
            self._sleep_until(window.end)
            disk.check(window.repetition.cell)

    def _sleep_until(self, end: float) -> None:
        """Sleep until a time; sample the processors meanwhile."""
        self._sampler.sample()
        while (left := end - time.time()) > 0:
            time.sleep(min(_SAMPLE, left))
            self._sampler.sample()

    def _wait_done(self) -> None:
        """Wait until all servers have printed all of their lines."""
        deadline = time.time() + _LAST_LINES
        while True:
            for server in self._servers:
                if not server.done:
                    server.look()
            if all(server.done for server in self._servers):
                return
            if time.time() > deadline:
                return
            time.sleep(1)

    def _record_answered(
        self, ended: collections.abc.Iterable[plan.Window]
    ) -> None:
        for server in self._servers:
            server.look()
        for window in ended:
            id_ = self._ids[window.repetition]
            if all(server.has_answered(id_) for server in self._servers):
                self._record_once(window)

    def _record_once(self, window: plan.Window) -> None:
        if window.repetition not in self._recorded:
            self._recorded.add(window.repetition)
            self._record(self._result(window))

    def _result(self, window: plan.Window) -> cells.Result:
        id_ = self._ids[window.repetition]
        problems = [
            server.problem_of(id_, window.end) for server in self._servers
        ]
        if window.repetition in self._late:
            problems.insert(0, 'the host changed its queue too late')
        for problem in filter(None, problems):
            return outcome.failed(window.repetition, window.start, problem)
        machines = [server.measured[id_] for server in self._servers]
        began = min(machine.began for machine in machines)
        ended = max(machine.began + machine.seconds for machine in machines)
        return outcome.combine(
            window.repetition, machines, self._sampler.shares(began, ended)
        )

    def _updated_timing(self, requested: float) -> plan.Timing:
        """Return the timing with the measured times of this boot."""
        target = self._batch.target
        ready = [server.ready for server in self._servers if server.ready]
        header = self._context.header
        moved_mib = target.share_mib(header.data_mib) * len(ready)
        fill_s = max(max(line.fill_seconds for line in ready), 0.1)
        overheads = [
            measured.seconds - min(max(measured.ms) / 1000, header.seconds)
            for server in self._servers
            for repetition in self._batch.repetitions
            if not plan.flushes(repetition.cell)
            and (measured := server.measured.get(self._ids[repetition]))
        ]
        times = plan.StepTimes(
            max(max(line.booted for line in ready) - requested, 1),
            moved_mib * workload.MIB / 1e6 / fill_s,
            max(overheads, default=self._timing.times(target).overhead),
        )
        return self._timing.updated(target, times)
