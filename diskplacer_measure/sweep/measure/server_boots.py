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
each cell begins. The host changes its queue in the gaps between these slots,
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
    """Measures the boots with servers."""

    header: results.Header
    disk: measured_disk.MeasuredDisk
    claims: claims.Claims
    servers: servers.Servers

    def measure(
        self, boot: plan.Boot, timing: plan.Timing, record: bare.Record
    ) -> plan.Timing:
        """Measure the cells of a boot, and return what its steps took.

        The servers, their flavor and their volumes are gone when it returns.

        :param record: called with each result, which may have a problem.
        :raises DiskPlacerError: the servers cannot measure, or an API or the
            disk fails.
        """
        try:
            return _Boot(self, boot, timing, record).run()
        finally:
            self.servers.remove()


class _Boot:
    """One boot; see :class:`ServerBoots`."""

    def __init__(
        self,
        context: ServerBoots,
        boot: plan.Boot,
        timing: plan.Timing,
        record: bare.Record,
    ) -> None:
        self._context = context
        self._boot = boot
        self._timing = timing
        self._record = record
        header = context.header
        self._limits = plan.Limits(header.data_mib, header.seconds)
        self._ids = {
            item: f'{header.plan.index(item.cell)}.{item.repetition}'
            for item in boot.items
        }
        self._servers: list[measuring_server.MeasuringServer] = []
        self._sampler = host_cpu.Sampler()
        self._late: set[plan.Item] = set()
        self._recorded: set[plan.Item] = set()

    def run(self) -> plan.Timing:
        """Boot the servers, have them measure, and record the results."""
        asked = time.time()
        start = math.ceil(asked) + plan.lead_seconds(
            self._boot, self._timing, self._limits
        )
        slots = plan.slots(self._boot, start, self._timing, self._limits)
        self._request(slots)
        problem = self._wait_ready(start, asked)
        if problem:
            for item in self._boot.items:
                self._record(outcome.failed(item, start, problem))
            if any(server.problem for server in self._servers):
                return self._timing
            # they booted late
            return self._learned(asked)
        self._measure(slots)
        self._wait_done()
        for slot in slots:
            self._record_once(slot)
        return self._learned(asked)

    def _request(self, slots: collections.abc.Sequence[plan.Slot]) -> None:
        header, body = self._context.header, self._boot.body
        api = self._context.servers
        mib = body.share_mib(header.data_mib)
        gb = workload.size_gb(mib)
        self._context.claims.hold()
        flavor = api.make_flavor(body, gb)
        lines = [
            workload.line(self._ids[slot.item], slot.item.cell, slot.start)
            for slot in slots
        ]
        for index in range(body.servers):
            name = f'{slots[0].start}-{index}'
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

    def _wait_ready(self, start: int, asked: float) -> str:
        """Return when it is time to measure; with why not, '' if all is well.

        If servers boot late, it returns when they have booted.

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
            left = start - time.time()
            time.sleep(max(0.0, min(_LOOK, left)))
        slow = sum(not server.ready for server in self._servers)
        if slow:
            self._wait_booted(start, asked)
        for server in self._servers:
            if server.problem:
                return server.problem
        if slow:
            return f'{slow} of {len(self._servers)} servers booted late'
        return ''

    def _wait_booted(self, start: float, asked: float) -> None:
        """Return when all servers have booted, late as they are.

        :raises DiskPlacerError: one takes too long.
        """
        timing = self._timing
        expected = timing.boot_seconds(self._boot.body)
        end = start + timing.boot_timeout - expected
        while not self._look():
            if time.time() > end:
                slow = next(one for one in self._servers if not one.ready)
                raise exception.DiskPlacerError(
                    f'server {slow.id} does not measure '
                    f'{time.time() - asked:.0f} s after it was requested: '
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

    def _measure(self, slots: collections.abc.Sequence[plan.Slot]) -> None:
        """Change the queue for each slot; record results in pauses.

        :raises DiskPlacerError: the queue cannot be changed, or somebody else
            changes it.
        """
        disk = self._context.disk
        for index, slot in enumerate(slots):
            if index and not index % plan.READ_EVERY:
                self._record_answered(slots[:index])
            self._sleep_until(slot.start - plan.GAP)
            disk.drop_caches()
            disk.prepare(slot.item.cell)
            if time.time() > slot.start:
                self._late.add(slot.item)
            self._sleep_until(slot.end)
            disk.check(slot.item.cell)

    def _sleep_until(self, end: float) -> None:
        """Return at a time; sample the processors meanwhile."""
        self._sampler.sample()
        while (left := end - time.time()) > 0:
            time.sleep(min(_SAMPLE, left))
            self._sampler.sample()

    def _wait_done(self) -> None:
        """Return when all servers have printed all of their lines."""
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
        self, ended: collections.abc.Iterable[plan.Slot]
    ) -> None:
        for server in self._servers:
            server.look()
        for slot in ended:
            id_ = self._ids[slot.item]
            if all(server.has_answered(id_) for server in self._servers):
                self._record_once(slot)

    def _record_once(self, slot: plan.Slot) -> None:
        if slot.item not in self._recorded:
            self._recorded.add(slot.item)
            self._record(self._result(slot))

    def _result(self, slot: plan.Slot) -> cells.Result:
        id_ = self._ids[slot.item]
        problems = [
            server.problem_of(id_, slot.end) for server in self._servers
        ]
        if slot.item in self._late:
            problems.insert(0, 'the host changed its queue too late')
        for problem in filter(None, problems):
            return outcome.failed(slot.item, slot.start, problem)
        machines = [server.measured[id_] for server in self._servers]
        began = min(one.began for one in machines)
        ended = max(one.began + one.seconds for one in machines)
        return outcome.combine(
            slot.item, machines, self._sampler.shares(began, ended)
        )

    def _learned(self, asked: float) -> plan.Timing:
        """Return the timing with what the steps of this boot took."""
        body = self._boot.body
        ready = [server.ready for server in self._servers if server.ready]
        header = self._context.header
        moved = body.share_mib(header.data_mib) * len(ready)
        filling = max(max(one.fill_seconds for one in ready), 0.1)
        beside = [
            one.seconds - min(max(one.ms) / 1000, header.seconds)
            for server in self._servers
            for item in self._boot.items
            if not plan.flushes(item.cell)
            and (one := server.measured.get(self._ids[item]))
        ]
        pace = plan.Pace(
            max(max(one.booted for one in ready) - asked, 1),
            moved * workload.MIB / 1e6 / filling,
            max(beside, default=self._timing.pace(body).overhead),
        )
        return self._timing.learned(body, pace)
