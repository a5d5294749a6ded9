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

"""Compares what libvirt counts of guests with the last poll and the kernel.

Unlike the kernel's counters, libvirt's include the latency that a guest sees,
and I/O that is not charged to the cgroup of its server.
"""

import collections
import dataclasses

from nova_diskplacer.disks import usage
from nova_diskplacer.monitor import guest_counters
from nova_diskplacer.monitor import types


@dataclasses.dataclass(frozen=True)
class GuestDiskUse:
    """The I/O of a guest on one of its disks between the last two polls.

    ``path`` is the file or block device on the host, ``disk`` the UUID of its
    prepared disk (empty: none). The other fields are bytes and requests per
    second, and mean latencies in seconds, including the host's queues (None
    without requests).
    """

    path: str
    disk: str
    read_bytes: float
    write_bytes: float
    reads: float
    writes: float
    flushes: float
    read_seconds: float | None
    write_seconds: float | None
    flush_seconds: float | None


@dataclasses.dataclass(frozen=True)
class GuestStats:
    """The I/O of all guests since the last poll, and their resources.

    ``uses`` and ``resources`` are by the server's UUID. ``unaccounted`` are
    the bytes per second of a guest on a prepared disk that the kernel's
    counters lacked between the last two samples, if any: the host's page cache
    served them, the kernel wrote them on behalf of no cgroup, or the server's
    cgroup cannot be read.
    """

    uses: dict[str, list[GuestDiskUse]]
    unaccounted: dict[types.ConsumerDisk, float]
    resources: dict[str, guest_counters.GuestResources]


class GuestPoller:
    """Polls libvirt and compares its counters to those of the last poll."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._then = 0.0
        self._counted: dict[tuple[str, str], guest_counters.DiskCounters] = {}
        # the sample that guests were compared with last, when, and what its
        # counters and theirs had
        self._sample: types.Sample | None = None
        self._compared = 0.0
        self._accounted: dict[types.ConsumerDisk, int] = {}
        self._moved: dict[types.ConsumerDisk, int] = {}
        self._unaccounted: dict[types.ConsumerDisk, float] = {}

    def poll(self, now: float, sample: types.Sample) -> GuestStats:
        """Return the I/O of guests since the last poll, and their resources.

        The I/O of a server that did not run at the last poll, or has a new
        QEMU process, is left out.

        :param now: seconds of a monotonic clock.
        :raises HypervisorError: libvirt cannot be queried.
        """
        disks: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
        for server, path, disk in usage.vdisks_in_use(
            sample.servers, sample.prepared_disks
        ):
            disks[server.uuid, path].append(disk)
        guests = guest_counters.read(self._uri)
        counted = {
            (server, path): counters
            for server, guest in guests.items()
            for path, counters in guest.disks.items()
        }
        seconds, self._then = now - self._then, now
        uses: dict[str, list[GuestDiskUse]] = collections.defaultdict(list)
        for key in sorted(counted.keys() & self._counted.keys()):
            both = zip(counted[key], self._counted[key], strict=True)
            done = [now - then for now, then in both]
            if min(done) < 0:
                # the counters were reset
                continue
            uuid, path = key
            on = disks.get(key, [''])
            for disk in on:
                # a stripe has an equal part on each disk
                uses[uuid].append(_use(path, disk, done, seconds, len(on)))
                if disk:
                    self._moved[uuid, disk] = self._moved.get(
                        (uuid, disk), 0
                    ) + (done[0] + done[1]) // len(on)
        self._counted = counted
        # between two samples the kernel's counters stay the same
        if sample is not self._sample:
            self._compare(now, sample)
        resources = {key: guest.resources for key, guest in guests.items()}
        return GuestStats(dict(uses), self._unaccounted, resources)

    def _compare(self, now: float, sample: types.Sample) -> None:
        """Compare guests with a new sample."""
        totals = sample.history['counters'][:, :2].sum(axis=1).tolist()
        accounted = dict(zip(sample.pairs, totals, strict=True))
        self._unaccounted = {}
        for pair, size in self._moved.items():
            more = accounted.get(pair, 0) - self._accounted.get(pair, 0)
            # counters that fell were reset
            rate = (size - max(0, more)) / (now - self._compared)
            if rate >= 1:
                self._unaccounted[pair] = rate
        self._sample, self._compared = sample, now
        self._accounted, self._moved = accounted, {}


def latencies(stats: GuestStats) -> dict[types.ConsumerDisk, float]:
    """Return the mean latency of each guest's requests to a disk, in seconds.

    Guests without requests to a disk are left out.
    """
    counts: dict[types.ConsumerDisk, float] = collections.defaultdict(float)
    times: dict[types.ConsumerDisk, float] = collections.defaultdict(float)
    for server, uses in stats.uses.items():
        for use in uses:
            for rate, seconds in (
                (use.reads, use.read_seconds),
                (use.writes, use.write_seconds),
            ):
                if seconds is not None:
                    counts[server, use.disk] += rate
                    times[server, use.disk] += rate * seconds
    return {pair: times[pair] / count for pair, count in counts.items()}


def _use(
    path: str, disk: str, done: list[int], seconds: float, disks: int
) -> GuestDiskUse:
    """Return the use of one of the disks that a guest's disk is on."""
    counts, times = done[:5], done[5:]
    means = [
        total / 1e9 / count if count else None
        for total, count in zip(times, counts[2:], strict=True)
    ]
    rates = [count / seconds / disks for count in counts]
    return GuestDiskUse(path, disk, *rates, *means)
