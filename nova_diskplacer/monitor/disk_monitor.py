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

"""Measures the throughput, utilization, score and pressure of each disk.

It warns of a long queue, and of a disk that is slower than before.
"""

import collections.abc
import dataclasses
import math
import re
import typing

import numpy
from oslo_config import cfg

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import json_store
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import baseline
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import types

# With a smaller share of busy time, requests do not wait long and the
# throughput score is meaningless.
_MIN_BUSY = 0.5

# The share of a disk's average throughput that it does not reach while seeks
# hold it up. Many sequential consumers have a low score each, but together
# more than this.
_DEGRADED = 0.4

# In the root's io.stat, in microseconds.
_CHARGED = re.compile(r' cost\.usage=(\d+)')

# Seconds between two writes of a disk's baseline.
_SAVE_INTERVAL = 300

# Checks of disks read 4 KiB each: the agent's own and those of every
# cinder-volume. So many bytes read in a second are not taken for use.
_CHECK_BYTES = 16384

# A warning of a queue ends at this share of its threshold, a warning of
# performance at the reciprocal.
_HYSTERESIS = 0.9


class _Interval(typing.NamedTuple):
    """The time between two updates of a disk, and the I/O in it.

    ``iocost_usage`` is the charged share of the time, None if it is unknown.
    """

    seconds: float
    done: diskstats.Counters
    iocost_usage: float | None


@dataclasses.dataclass
class _Disk:
    """A disk at its last update; ``iocost_seconds`` is the charged time.

    ``counters`` are None before the first update.
    """

    device: Device
    depth: int | None
    usual: baseline.Baseline
    totals: diskstats.Counters
    saved: float
    updated: float
    counters: diskstats.Counters | None = None
    iocost_seconds: float | None = None
    pressure: float = 0.0
    queue: float = 0.0
    idle_seconds: float = 0.0
    totals_seconds: float = 0.0
    used_seconds: float = 0.0

    def advance(
        self,
        now: float,
        device: Device,
        counters: diskstats.Counters,
        iocost_seconds: float | None,
    ) -> _Interval | None:
        """Return the interval up to now, None if it is not known.

        :param device: the same one; its known throughput may have changed.
        """
        seconds = now - self.updated
        before, charged_before = self.counters, self.iocost_seconds
        self.device, self.counters, self.updated = device, counters, now
        self.iocost_seconds = iocost_seconds
        if not before or seconds <= 0:
            return None
        done = counters.since(before)
        if done is None:
            return None
        usage = None
        if iocost_seconds is not None and charged_before is not None:
            usage = max(0.0, iocost_seconds - charged_before) / seconds
        return _Interval(seconds, done, usage)


class DiskMonitor:
    """Monitors the disks of this host; a state needs two updates of a disk.

    Baselines are stored in ``[diskplacer_agent] state_dir``.

    :param health: temperatures and warnings of the disks, if any.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hierarchy: cgroups.Hierarchy,
        health: disk_health.HealthMonitor | None = None,
    ) -> None:
        self._options = conf.diskplacer_monitor
        self._hierarchy = hierarchy
        self._health = health
        self._store = json_store.JsonStore(
            f'{conf.diskplacer_agent.state_dir}/performance'
        )
        self._warnings = disk_health.Warnings()
        self._disks: dict[str, _Disk] = {}

    def update(
        self,
        now: float,
        devices: collections.abc.Mapping[str, Device],
        pairs: types.Pairs,
        idle: types.Booleans,
    ) -> dict[str, types.DiskState]:
        """Return the state of each disk, by UUID.

        :param now: seconds of a monotonic clock.
        :param idle: true for pairs without I/O in this interval, (R,).
        :raises OSError: the kernel's statistics cannot be read.
        """
        counted = diskstats.read_disks(devices.values())
        charged = read_charged_seconds(self._hierarchy)
        active = numpy.bincount(
            pairs.disk_rows[~idle], minlength=len(pairs.disks)
        )
        consumers = dict(zip(pairs.disks, active.tolist(), strict=True))
        states = {}
        for uuid, device in devices.items():
            counters = counted.get(device.number)
            if counters is None:
                continue
            disk = self._disk(device, now)
            interval = disk.advance(
                now, device, counters, charged.get(device.number)
            )
            if interval:
                states[uuid] = self._update(
                    disk, interval, consumers.get(uuid, 0)
                )
        for uuid in self._disks.keys() - devices.keys():
            self._save(self._disks.pop(uuid))
        self._warnings.clear_except(devices)
        return states

    def _disk(self, device: Device, now: float) -> _Disk:
        """Return a disk; one that is another device now begins anew."""
        disk = self._disks.get(device.uuid)
        if disk is None or disk.device.number != device.number:
            disk = self._disks[device.uuid] = _Disk(
                device=device,
                depth=_depth(device),
                usual=disk.usual if disk else self._load(device),
                totals=disk.totals if disk else diskstats.Counters(),
                saved=now,
                updated=now,
            )
        return disk

    def _update(
        self, disk: _Disk, interval: _Interval, consumers: int
    ) -> types.DiskState:
        seconds, done, iocost_usage = interval
        device, uuid = disk.device, disk.device.uuid
        window = self._options.pressure_window
        used = utilization(device, disk.depth, done, seconds, iocost_usage)
        queue = done.request_seconds / seconds
        disk.pressure = ewma(disk.pressure, used, seconds, window)
        disk.queue = ewma(disk.queue, queue, seconds, window)
        disk.idle_seconds = (
            0.0
            if is_used(done, seconds, consumers)
            else disk.idle_seconds + seconds
        )
        disk.usual.update(done, seconds)
        disk.totals = disk.totals.plus(done)
        disk.totals_seconds += seconds
        disk.used_seconds += used * seconds
        if disk.updated - disk.saved >= _SAVE_INTERVAL:
            disk.saved = disk.updated
            self._save(disk)
        self._warn(disk)
        busy = min(1.0, done.busy_seconds / seconds)
        score = fennel_score(done, busy, seconds, consumers)
        requests = done.reads + done.writes
        threshold = self._options.inspection_threshold * disk.usual.average
        health = self._health
        return types.DiskState(
            device=device,
            seconds=seconds,
            read_bytes=done.read_bytes / seconds,
            write_bytes=done.write_bytes / seconds,
            reads=done.reads / seconds,
            writes=done.writes / seconds,
            busy=busy,
            queue=queue,
            latency=done.request_seconds / requests if requests else None,
            score=score,
            # io.cost itself charges for seeks
            flagged=device.rotational
            and iocost_usage is None
            and busy >= _MIN_BUSY
            and score is not None
            and score < threshold
            and score * consumers < _DEGRADED * disk.usual.average,
            pressure=disk.pressure,
            idle_seconds=disk.idle_seconds,
            idle=disk.idle_seconds >= self._options.idle_after,
            totals=disk.totals,
            totals_seconds=disk.totals_seconds,
            used_seconds=disk.used_seconds,
            iocost_usage=iocost_usage,
            temperature=health.temperature(uuid) if health else None,
            warnings=self._warnings.for_disk(uuid)
            | (health.warnings.for_disk(uuid) if health else {}),
        )

    def _warn(self, disk: _Disk) -> None:
        uuid, most = disk.device.uuid, self._options.warn_queue
        self._warnings.update(
            uuid,
            types.QUEUE,
            f'{disk.queue:.0f} requests are in flight on average; the '
            f'threshold is [diskplacer_monitor] warn_queue={most}',
            begins=0 < most <= disk.queue,
            stays=0 < most * _HYSTERESIS <= disk.queue,
        )
        least, share = self._options.warn_performance, disk.usual.recent_ratio
        if share is None:
            # what it did hours ago does not tell that it is slow now
            share = math.inf
        self._warnings.update(
            uuid,
            types.PERFORMANCE,
            f'its throughput in the last hour was {share:.0%} of its usual '
            'throughput for such I/O; the threshold is [diskplacer_monitor] '
            f'warn_performance={least}',
            begins=share < least,
            stays=share * _HYSTERESIS < least,
        )

    def _load(self, device: Device) -> baseline.Baseline:
        fields = self._store.load(device.uuid)
        try:
            return baseline.from_fields(fields)
        except (TypeError, ValueError):
            return baseline.initial(device.mbps)

    def _save(self, disk: _Disk) -> None:
        self._store.save(disk.device.uuid, dataclasses.asdict(disk.usual))


def _depth(device: Device) -> int | None:
    try:
        return block_queue.read(device.name).depth
    except OSError:
        return None


def fennel_score(
    done: diskstats.Counters, busy: float, seconds: float, consumers: int
) -> float | None:
    """Return the throughput score in bytes/s (P4 §IV-B).

    :param busy: share of the time with requests in flight.
    :param consumers: number of consumers that used the disk.
    :returns: None while no consumer uses the disk.
    """
    if not consumers or not busy:
        return None
    moved = done.read_bytes + done.write_bytes
    return moved / seconds / (busy * consumers)


def utilization(
    device: Device,
    depth: int | None,
    done: diskstats.Counters,
    seconds: float,
    iocost_usage: float | None,
) -> float:
    """Return the share of a disk's capacity that was used, 0 to 1.

    A rotational disk serves one request at a time: its utilization is the
    share of the time with requests in flight. Any other disk is busy with a
    single request and far from full. Its utilization is at most the larger of
    two ratios: its throughput to its known throughput, and its queue to its
    queue depth.

    Requests that io.cost holds back are not in the disk's queue. So the
    utilization is at least io.cost's usage.

    :param depth: queue depth of the device, None if unknown.
    :param iocost_usage: share of io.cost's model that was charged, None
        without io.cost.
    """
    used = done.busy_seconds / seconds
    if not device.rotational and device.mbps:
        moved = (done.read_bytes + done.write_bytes) / seconds
        share = moved / (device.mbps * 1e6)
        queued = done.request_seconds / seconds / depth if depth else 0.0
        used = min(used, max(share, queued))
    return min(1.0, max(used, iocost_usage or 0.0))


def is_used(done: diskstats.Counters, seconds: float, consumers: int) -> bool:
    """Tell whether a disk had I/O besides checks in an interval.

    :param consumers: number of consumers that used the disk.
    """
    return bool(
        consumers
        or done.writes
        or done.read_bytes > _CHECK_BYTES * max(1.0, seconds)
    )


def ewma(mean: float, value: float, seconds: float, window: float) -> float:
    """Return an exponentially weighted moving average after one more value.

    :param window: time constant in seconds.
    """
    return mean + (value - mean) * -math.expm1(-seconds / window)


def read_charged_seconds(hierarchy: cgroups.Hierarchy) -> dict[str, float]:
    """Return the device time that io.cost has charged cgroups for.

    It is in seconds, by ``major:minor``; devices without io.cost are left out.
    io.cost holds requests back before they reach the device, so that the
    device's statistics lack them.
    """
    # the root has no io.stat before Linux 5.9
    text = sysfs.read_optional(hierarchy.path('', 'io.stat'))
    seconds = {}
    for line in text.splitlines():
        usage = _CHARGED.search(line)
        if usage:
            seconds[line.split()[0]] = int(usage[1]) / 1e6
    return seconds
