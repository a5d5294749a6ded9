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

from nova_diskplacer import exception
from nova_diskplacer.sweep import bare
from nova_diskplacer.sweep import claims
from nova_diskplacer.sweep import host_cpu
from nova_diskplacer.sweep import measured_disk
from nova_diskplacer.sweep import outcome
from nova_diskplacer.sweep import plan
from nova_diskplacer.sweep import results
from nova_diskplacer.sweep import servers
from nova_diskplacer.sweep import workload

# Seconds between two looks at servers that boot, and between two samples of
# the processors while servers measure.
_LOOK = 3.0
_SAMPLE = 0.5
# Seconds that the clock of a server may differ: it tells whole ones, and it is
# read from its console later.
_SKEW = 3.0
# Seconds that the last lines take to reach the console.
_LAST_LINES = 30.0
_LINES_TO_SHOW = 10


@dataclasses.dataclass
class _Server:
    """A server of a boot, and what it has printed.

    ``looked`` is when its console was read before the last time.
    """

    id: str
    token: str
    looked: float
    active: bool = False
    problem: str = ''
    text: str = ''
    measured: dict[str, workload.Measured] = dataclasses.field(
        default_factory=dict
    )
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    ready: workload.Ready | None = None
    done: bool = False


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
        self._servers: list[_Server] = []
        self._sampler = host_cpu.Sampler()

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
            return self._timing
        late = self._measure(slots)
        self._record_all(slots, late)
        return self._learned(asked)

    def _request(self, slots: collections.abc.Sequence[plan.Slot]) -> None:
        context, header, body = (
            self._context,
            self._context.header,
            self._boot.body,
        )
        mib = body.share_mib(header.data_mib)
        gb = workload.size_gb(mib)
        context.claims.hold(gb * body.servers)
        flavor = context.servers.make_flavor(body, gb)
        lines = [
            workload.line(self._ids[slot.item], slot.item.cell, slot.start)
            for slot in slots
        ]
        for index in range(body.servers):
            token = f'{header.id}-{slots[0].start}-{index}'
            script = workload.script(
                lines,
                token=token,
                mib=mib,
                kib=header.block_kib,
                seconds=header.seconds,
                size_bytes=gb << 30,
            )
            name = f'{slots[0].start}-{index}'
            id_ = context.servers.boot(name, flavor, gb, script)
            self._servers.append(_Server(id_, token, time.time()))

    def _wait_ready(self, start: int, asked: float) -> str:
        """Return when it is time to measure; with why not, '' if all is well.

        :raises DiskPlacerError: a server cannot be built, or cannot measure;
            or none is ready although it had the longest time to boot.
        """
        checked = False
        while time.time() < start:
            for server in self._servers:
                if not server.ready:
                    self._look(server)
            if not checked and all(one.ready for one in self._servers):
                self._context.disk.require_servers(
                    [server.id for server in self._servers]
                )
                checked = True
            left = start - time.time()
            time.sleep(max(0.0, min(_LOOK, left)))
        slow = [server for server in self._servers if not server.ready]
        timing = self._timing
        longest = timing.boot_seconds(self._boot.body) >= timing.boot_timeout
        if slow and longest:
            last = '\n'.join(slow[0].text.splitlines()[-_LINES_TO_SHOW:])
            raise exception.DiskPlacerError(
                f'server {slow[0].id} does not measure {start - asked:.0f} s '
                'after it was requested: --boot-timeout is more; the last '
                f'lines of its console: {last or "none"}'
            )
        if slow:
            return f'{len(slow)} of {len(self._servers)} servers booted late'
        return next((one.problem for one in self._servers if one.problem), '')

    def _look(self, server: _Server) -> None:
        """Read the console of a server.

        :raises DiskPlacerError: it cannot be built, or it cannot measure.
        """
        api = self._context.servers
        server.active = server.active or api.is_active(server.id)
        if not server.active:
            return
        before, server.looked = server.looked, time.time()
        server.text = api.console(server.id)
        found = workload.parse(server.text, server.token)
        if found.error:
            raise exception.DiskPlacerError(
                f'server {server.id} cannot measure: {found.error}'
            )
        server.measured |= found.measured
        server.failed |= found.failed
        server.done = server.done or found.done
        if found.ready and not server.ready:
            server.ready = found.ready
            now = time.time()
            if not before - _SKEW <= found.ready.now <= now + _SKEW:
                server.problem = (
                    f'the clock of server {server.id} differs from that of '
                    f'the host by about {found.ready.now - now:.0f} s'
                )

    def _measure(
        self, slots: collections.abc.Sequence[plan.Slot]
    ) -> set[plan.Item]:
        """Change the queue for each slot; return the items it came late for.

        :raises DiskPlacerError: the queue cannot be changed.
        """
        late = set()
        disk = self._context.disk
        for index, slot in enumerate(slots):
            if index and not index % plan.READ_EVERY:
                for server in self._servers:
                    self._look(server)
            self._sleep_until(slot.start - plan.GAP)
            disk.drop_caches()
            disk.prepare(slot.item.cell)
            if time.time() > slot.start:
                late.add(slot.item)
            self._sleep_until(slot.end)
            disk.check(slot.item.cell)
        deadline = time.time() + _LAST_LINES
        while not all(server.done for server in self._servers):
            for server in self._servers:
                if not server.done:
                    self._look(server)
            if time.time() > deadline:
                break
            time.sleep(1)
        return late

    def _sleep_until(self, end: float) -> None:
        """Return at a time; sample the processors meanwhile."""
        self._sampler.sample()
        while (left := end - time.time()) > 0:
            time.sleep(min(_SAMPLE, left))
            self._sampler.sample()

    def _record_all(
        self,
        slots: collections.abc.Iterable[plan.Slot],
        late: collections.abc.Container[plan.Item],
    ) -> None:
        for slot in slots:
            problem = (
                'the host changed its queue too late'
                if slot.item in late
                else self._problem(slot)
            )
            if problem:
                self._record(outcome.failed(slot.item, slot.start, problem))
                continue
            machines = [
                server.measured[self._ids[slot.item]]
                for server in self._servers
            ]
            began = min(one.began for one in machines)
            ended = max(one.began + one.seconds for one in machines)
            self._record(
                outcome.combine(
                    slot.item, machines, self._sampler.shares(began, ended)
                )
            )

    def _problem(self, slot: plan.Slot) -> str:
        """Return why the servers have no result of a slot, '' if they have."""
        id_ = self._ids[slot.item]
        for server in self._servers:
            if id_ in server.failed:
                return f'server {server.id}: {server.failed[id_]}'
            one = server.measured.get(id_)
            if one is None:
                return f'server {server.id} reported nothing'
            # the clock of the server tells whole seconds
            if one.began + one.seconds > slot.end + 1:
                return f'server {server.id} overran its time'
        return ''

    def _learned(self, asked: float) -> plan.Timing:
        ready = [server.ready for server in self._servers if server.ready]
        body, header = self._boot.body, self._context.header
        boot = max(max(one.booted for one in ready) - asked, 1)
        fill = max(max(one.fill_seconds for one in ready), 0.1)
        moved = body.share_mib(header.data_mib) * body.servers
        beside = [
            one.seconds - min(max(one.ms) / 1000, header.seconds)
            for server in self._servers
            for item in self._boot.items
            if not plan.flushes(item.cell)
            and (one := server.measured.get(self._ids[item]))
        ]
        return self._timing.learned(
            body,
            plan.Pace(
                boot, moved * workload.MIB / 1e6 / fill, max(beside, default=0)
            ),
        )
