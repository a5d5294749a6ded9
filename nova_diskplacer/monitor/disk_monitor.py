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

"""How each disk is doing: throughput, use, score and pressure.

Warns when a disk's queue is long, or the disk slower than it was.
"""

import collections.abc
import dataclasses

import numpy
from oslo_config import cfg

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import json_store
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import baseline
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import disk_warnings
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import io_cost_usage
from nova_diskplacer.monitor import load
from nova_diskplacer.monitor import types

# A disk that is busy for less of the time has nobody's I/O wait for long: its
# throughput score says nothing then.
_IN_USE = 0.5

# Seconds between two savings of what is known of a disk.
_SAVING = 300

# A warning about a queue ends at this share of what it began at, one about
# performance at the reciprocal.
_ENDS = 0.9


@dataclasses.dataclass
class _Disk:
    """What is kept of a disk from one look to the next."""

    device: Device
    depth: int | None
    known: baseline.Performance
    counters: diskstats.Counters
    used: float | None
    at: float
    saved: float
    pressure: float = 0.0
    queue: float = 0.0


class Hardware:
    """The disks of this host; each is known from its second look on.

    What a disk has given is kept in ``[diskplacer_agent] state_dir``.

    :param hierarchy: where io.cost tells how much of a disk it has given away,
        None if it does not.
    :param health: what else is known of the disks, None if nothing is.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hierarchy: cgroups.Hierarchy | None = None,
        health: disk_health.Health | None = None,
    ) -> None:
        self._options = conf.diskplacer_monitor
        self._hierarchy = hierarchy
        self._health = health
        self._store = json_store.JsonStore(
            f'{conf.diskplacer_agent.state_dir}/performance'
        )
        self._notices = disk_warnings.Notices()
        self._disks: dict[str, _Disk] = {}
        self._users = _Users()

    def update(
        self,
        now: float,
        devices: collections.abc.Mapping[str, Device],
        round_: types.Round,
    ) -> dict[str, types.DiskState]:
        """Return the state of each disk, by its UUID.

        :param now: seconds of a clock that never jumps.
        :param devices: the devices that are there, by the UUID of the disk.
        :raises OSError: the kernel does not say what devices did.
        """
        counted = diskstats.read(
            {device.number for device in devices.values()}
        )
        used = io_cost_usage.read(self._hierarchy)
        users = self._users.count(round_)
        states = {}
        for uuid, device in devices.items():
            if device.number not in counted:
                continue
            counters = counted[device.number]
            cost = used.get(device.number)
            disk = self._disks.get(uuid)
            done = None
            if disk is not None and disk.at < now and _same(disk, device):
                done = counters.since(disk.counters)
            if disk is None or done is None:
                self._disks[uuid] = self._meet(device, counters, cost, now)
                continue
            seconds = now - disk.at
            given = None
            if cost is not None and disk.used is not None:
                given = max(0.0, cost - disk.used) / seconds
            # it may have been measured meanwhile
            disk.device = device
            disk.counters, disk.used, disk.at = counters, cost, now
            states[uuid] = self._look(
                disk, done, seconds, given, users.get(uuid, 0)
            )
        for uuid in self._disks.keys() - devices.keys():
            self._leave(uuid)
        return _with_health(states, self._health) if self._health else states

    def _meet(
        self,
        device: Device,
        counters: diskstats.Counters,
        cost: float | None,
        now: float,
    ) -> _Disk:
        """Begin with a device, or again after its counters have jumped."""
        before = self._disks.get(device.uuid)
        if before is not None and _same(before, device):
            return dataclasses.replace(
                before, counters=counters, used=cost, at=now
            )
        return _Disk(
            device=device,
            depth=_depth(device),
            known=before.known if before else self._recall(device),
            counters=counters,
            used=cost,
            at=now,
            saved=now,
        )

    def _look(
        self,
        disk: _Disk,
        done: diskstats.Counters,
        seconds: float,
        given: float | None,
        users: int,
    ) -> types.DiskState:
        device = disk.device
        window = self._options.pressure_window
        full = load.saturation(device, disk.depth, done, seconds, given)
        mean = done.waited / seconds
        disk.pressure = load.smoothed(disk.pressure, full, seconds, window)
        disk.queue = load.smoothed(disk.queue, mean, seconds, window)
        disk.known.learn(done, seconds)
        if disk.at - disk.saved >= _SAVING:
            disk.saved = disk.at
            self._save(disk)
        self._warn(disk)
        busy = min(1.0, done.busy / seconds)
        points = load.score(done, busy, seconds, users)
        requests = done.reads + done.writes
        least = self._options.inspection_threshold * disk.known.average
        return types.DiskState(
            device=device,
            seconds=seconds,
            read_bytes=done.read_bytes / seconds,
            write_bytes=done.write_bytes / seconds,
            reads=done.reads / seconds,
            writes=done.writes / seconds,
            busy=busy,
            queue=mean,
            latency=done.waited / requests if requests else None,
            score=points,
            flagged=device.rotational
            and busy >= _IN_USE
            and points is not None
            and points < least,
            pressure=disk.pressure,
            iocost_usage=given,
            warnings=self._notices.of(device.uuid),
        )

    def _warn(self, disk: _Disk) -> None:
        uuid, most = disk.device.uuid, self._options.warn_queue
        self._notices.judge(
            uuid,
            'queue',
            f'{disk.queue:.0f} requests were in flight on average, of which '
            f'[diskplacer_monitor] warn_queue={most} warns',
            begins=0 < most <= disk.queue,
            stays=0 < most * _ENDS <= disk.queue,
        )
        least, now = self._options.warn_performance, disk.known.recent
        if now is not None:
            self._notices.judge(
                uuid,
                'performance',
                f'in the last hour it gave {now:.0%} of what it used to give '
                'for such I/O, of which [diskplacer_monitor] '
                f'warn_performance={least} warns',
                begins=now < least,
                stays=now * _ENDS < least,
            )

    def _recall(self, device: Device) -> baseline.Performance:
        fields = self._store.load(device.uuid)
        try:
            return baseline.from_fields(fields)
        except (TypeError, ValueError):
            return baseline.expected(device.mbps)

    def _save(self, disk: _Disk) -> None:
        self._store.save(disk.device.uuid, baseline.to_fields(disk.known))

    def _leave(self, uuid: str) -> None:
        self._save(self._disks.pop(uuid))
        self._notices.forget(uuid)


def _same(disk: _Disk, device: Device) -> bool:
    return disk.device.number == device.number


def _with_health(
    states: dict[str, types.DiskState], health: disk_health.Health
) -> dict[str, types.DiskState]:
    degrees, warnings = health.temperatures(), health.warnings()
    return {
        uuid: dataclasses.replace(
            state,
            temperature=degrees.get(uuid),
            warnings=(*state.warnings, *warnings.get(uuid, ())),
        )
        for uuid, state in states.items()
    }


class _Users:
    """Counts who uses each disk; what pairs there are seldom changes."""

    def __init__(self) -> None:
        self._pairs: tuple[types.ConsumerDisk, ...] | None = None
        self._uuids: list[str] = []
        self._places = numpy.zeros(0, numpy.int64)

    def count(self, round_: types.Round) -> dict[str, int]:
        """Return how many consumers used each disk, by its UUID."""
        if round_.pairs is not self._pairs:
            uuids = [uuid for _, uuid in round_.pairs]
            self._pairs, self._uuids = round_.pairs, sorted(set(uuids))
            self._places = numpy.searchsorted(self._uuids, uuids)
        counts = numpy.bincount(
            self._places[~round_.idle], minlength=len(self._uuids)
        )
        return dict(zip(self._uuids, counts.tolist(), strict=True))


def _depth(device: Device) -> int | None:
    try:
        return block_queue.read(device.name).depth
    except OSError:
        return None
