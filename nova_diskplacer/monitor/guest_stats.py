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

"""Reads the I/O of guests on their disks from libvirt's bulk statistics.

Unlike the kernel's counters, they include the latency that a guest sees, and
I/O that is not charged to the cgroup of its server. libvirt queries each QEMU,
which takes much longer than reading the kernel's counters.
"""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer.disks import usage
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.monitor import types

_COUNTERS = (
    'rd.bytes',
    'wr.bytes',
    'rd.reqs',
    'wr.reqs',
    'fl.reqs',
    'rd.times',
    'wr.times',
    'fl.times',
)
_NANOSECOND = 1e-9

Counters = tuple[int, ...]


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
    """The I/O of all guests since the last poll.

    ``uses`` is by the server's UUID. ``unaccounted`` are the bytes per second
    of a guest on a prepared disk that the kernel's counters lack, if any: the
    host's page cache served them, the kernel wrote them on behalf of no
    cgroup, or the server's cgroup cannot be read.
    """

    uses: dict[str, list[GuestDiskUse]]
    unaccounted: dict[types.ConsumerDisk, float]


class GuestPoller:
    """Polls libvirt and compares its counters to those of the last poll.

    :param uri: connection URI of libvirt.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._then = 0.0
        self._counted: dict[tuple[str, str], Counters] = {}
        self._accounted: dict[types.ConsumerDisk, int] = {}

    def poll(self, now: float, sample: types.Sample) -> GuestStats:
        """Return the I/O of guests since the last poll.

        A server that did not run at the last poll, or has a new QEMU process,
        is left out.

        :param now: seconds of a monotonic clock.
        :raises HypervisorError: libvirt cannot be queried.
        """
        disks = {
            (server.uuid, path): disk
            for server, path, disk in usage.vdisks_in_use(
                sample.servers, sample.prepared_disks
            )
        }
        counted = read(self._uri)
        moved = sample.history['counters'][:, :2].sum(axis=1).tolist()
        accounted = dict(zip(sample.pairs, moved, strict=True))
        seconds, self._then = now - self._then, now
        uses: dict[str, list[GuestDiskUse]] = {}
        for key in sorted(counted.keys() & self._counted.keys()):
            done = _increase(counted[key], self._counted[key])
            if done is not None:
                server, path = key
                uses.setdefault(server, []).append(
                    _use(path, disks.get(key, ''), done, seconds)
                )
        rates = {
            pair: (total - self._accounted.get(pair, 0)) / seconds
            for pair, total in accounted.items()
        }
        self._counted, self._accounted = counted, accounted
        return GuestStats(uses, unaccounted(uses, rates))


def read(uri: str) -> dict[tuple[str, str], Counters]:
    """Return the counters of all running domains' disks, in one call.

    They are by the domain's UUID and the disk's path, in the order of
    ``_COUNTERS``. A domain that is busy with another job is left out.

    :raises HypervisorError: libvirt cannot be queried.
    """
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        return {}
    flags = (
        libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
        | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    )
    found = {}
    purpose = 'report the I/O of its domains'
    with libvirt_connection.connect(uri, purpose) as connection:
        for domain, stats in connection.getAllDomainStats(
            libvirt.VIR_DOMAIN_STATS_BLOCK, flags
        ):
            uuid = domain.UUIDString()
            for path, counters in parse(stats):
                found[uuid, path] = counters
    return found


def parse(
    stats: collections.abc.Mapping[str, Any],
) -> collections.abc.Iterator[tuple[str, Counters]]:
    """Yield path and counters of each disk of a domain that has a path.

    :param stats: libvirt's statistics of a domain, such as ``block.0.path``.
    """
    for index in range(stats.get('block.count', 0)):
        path = stats.get(f'block.{index}.path')
        if path:
            yield (
                path,
                tuple(
                    stats.get(f'block.{index}.{name}', 0) for name in _COUNTERS
                ),
            )


def unaccounted(
    uses: collections.abc.Mapping[str, collections.abc.Iterable[GuestDiskUse]],
    accounted: collections.abc.Mapping[types.ConsumerDisk, float],
) -> dict[types.ConsumerDisk, float]:
    """Return the bytes/s of guests that the kernel's counters lack.

    :param accounted: bytes/s of the kernel's counters in the same interval.
    """
    moved: dict[types.ConsumerDisk, float] = {}
    for server, listed in uses.items():
        for use in listed:
            if use.disk:
                pair = server, use.disk
                moved[pair] = moved.get(pair, 0.0) + (
                    use.read_bytes + use.write_bytes
                )
    left = {
        # counters that fell were reset
        pair: rate - max(0.0, accounted.get(pair, 0.0))
        for pair, rate in moved.items()
    }
    # less than a byte per second is a rounding error
    return {pair: rate for pair, rate in left.items() if rate >= 1}


def _increase(new: Counters, old: Counters) -> Counters | None:
    """Return the increase; None if the counters were reset."""
    done = tuple(now - then for now, then in zip(new, old, strict=True))
    return None if min(done) < 0 else done


def _use(path: str, disk: str, done: Counters, seconds: float) -> GuestDiskUse:
    counts, times = done[:5], done[5:]
    means = [
        total * _NANOSECOND / count if count else None
        for total, count in zip(times, counts[2:], strict=True)
    ]
    rates = [count / seconds for count in counts]
    return GuestDiskUse(path, disk, *rates, *means)
