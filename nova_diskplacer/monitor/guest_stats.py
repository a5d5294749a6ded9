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

"""What QEMU did on servers' disks, as libvirt's bulk statistics tell.

That is what a guest saw: how long its requests waited, and what it did that
the accounts of its cgroup do not have. libvirt asks each QEMU, so this takes
much longer than reading accounts.
"""

import collections.abc
import dataclasses
from typing import Any

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import io_stat
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
class Use:
    """How a guest used one of its disks since the last look.

    ``path`` is the file or block device on the host, ``disk`` the UUID of
    the prepared disk that it is on, '' if it is elsewhere. The first figures
    are bytes and requests per second; the others the mean times in seconds
    that requests took, queues of the host included (None: there were none).
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
class Look:
    """What was seen: the uses by the server's UUID.

    ``unseen`` are the bytes/s that a server's guest moved on a prepared disk
    and the accounts of its cgroup do not have, where there are any: the
    host's page cache answered, or the kernel wrote in nobody's name, or the
    server has no accounts.
    """

    uses: dict[str, list[Use]]
    unseen: dict[types.ConsumerDisk, float]


class BlockStats:
    """Compares what libvirt tells with what it told the last time.

    :param uri: the libvirt to ask.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._then = 0.0
        self._counted: dict[tuple[str, str], Counters] = {}
        self._accounted: dict[types.ConsumerDisk, int] = {}

    def look(
        self,
        now: float,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
        accounts: io_stat.Counters,
    ) -> Look:
        """Return what servers did since the last look.

        A server that was not running then, or has a new QEMU, is not there.

        :param now: seconds of any steady clock.
        :param accounts: as read last.
        :raises HypervisorError: libvirt cannot be asked.
        """
        homes = {
            (server.uuid, path): disk
            for server, path, disk in usage.vdisks_in_use(servers, disks)
        }
        counted = read(self._uri)
        totals = accounts.values[:, :2].sum(axis=1).tolist()
        accounted = dict(zip(accounts.pairs, totals, strict=True))
        seconds, self._then = now - self._then, now
        uses: dict[str, list[Use]] = {}
        for one in sorted(counted.keys() & self._counted.keys()):
            done = _difference(counted[one], self._counted[one])
            if done is not None:
                server, path = one
                uses.setdefault(server, []).append(
                    _use(path, homes.get(one, ''), done, seconds)
                )
        missing = unseen(
            uses,
            {
                pair: (total - self._accounted.get(pair, 0)) / seconds
                for pair, total in accounted.items()
            },
        )
        self._counted, self._accounted = counted, accounted
        return Look(uses, missing)


def read(uri: str) -> dict[tuple[str, str], Counters]:
    """Return the counters of all running domains' disks, in one call.

    By the domain's UUID and the disk's path; in the order of ``_COUNTERS``.
    A domain that is busy with something else is left out, not waited for.

    :raises HypervisorError: libvirt cannot be asked.
    """
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        return {}
    flags = (
        libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
        | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    )
    found = {}
    purpose = 'tell the I/O of its domains'
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

    :param stats: what libvirt tells of a domain, such as ``block.0.path``.
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


def unseen(
    uses: collections.abc.Mapping[str, collections.abc.Iterable[Use]],
    accounted: collections.abc.Mapping[types.ConsumerDisk, float],
) -> dict[types.ConsumerDisk, float]:
    """Return the bytes/s that guests moved and accounts do not have.

    :param accounted: bytes/s of each pair in the same time, read and written.
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
        # accounts that fell have begun anew
        pair: rate - max(0.0, accounted.get(pair, 0.0))
        for pair, rate in moved.items()
    }
    # less than a byte per second is what rounding leaves
    return {pair: rate for pair, rate in left.items() if rate >= 1}


def _difference(new: Counters, old: Counters) -> Counters | None:
    """Return what was done; None if counting has begun anew."""
    done = tuple(now - then for now, then in zip(new, old, strict=True))
    return None if min(done) < 0 else done


def _use(path: str, disk: str, done: Counters, seconds: float) -> Use:
    counts, times = done[:5], done[5:]
    means = [
        total * _NANOSECOND / count if count else None
        for total, count in zip(times, counts[2:], strict=True)
    ]
    return Use(path, disk, *(count / seconds for count in counts), *means)
