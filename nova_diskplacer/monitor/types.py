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

"""The measurements of the monitor.

A consumer is a server or another configured cgroup; it has shares of disks.
Figures of consumers are arrays with a row for each consumer on each disk that
it uses.
"""

import collections.abc
import dataclasses
import functools
from typing import Any

import numpy
import numpy.typing

from nova_diskplacer.disks import discover
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import diskstats

#: The key of a consumer and the UUID of a disk.
ConsumerDisk = tuple[str, str]

Integers = numpy.typing.NDArray[numpy.int64]
Floats = numpy.typing.NDArray[numpy.float64]
Booleans = numpy.typing.NDArray[numpy.bool_]
Column = numpy.typing.NDArray[Any]


class Pairs(tuple[ConsumerDisk, ...]):
    """Consumers on disks, in the order of the rows of arrays.

    As long as none comes or goes, it is the same object.
    """

    @functools.cached_property
    def disks(self) -> tuple[str, ...]:
        """The UUIDs of all disks, sorted."""
        return tuple(sorted({uuid for _, uuid in self}))

    @functools.cached_property
    def disk_rows(self) -> Integers:
        """The index in ``disks`` of each row's disk."""
        index = {uuid: row for row, uuid in enumerate(self.disks)}
        return numpy.array([index[uuid] for _, uuid in self], numpy.int64)


class PairTable:
    """Columns with a row for each of ``pairs``.

    Tables and their columns never change: any thread may keep them.
    """

    def __init__(self, pairs: Pairs, **columns: Column) -> None:
        self.pairs = pairs
        self.columns = columns

    def __getitem__(self, name: str) -> Column:
        """Return a column."""
        return self.columns[name]

    def aligned(self, pairs: Pairs) -> 'PairTable':
        """Return the table with rows for ``pairs``; new rows are zeros."""
        if pairs is self.pairs:
            return self
        before = {pair: row for row, pair in enumerate(self.pairs)}
        kept = [row for row, pair in enumerate(pairs) if pair in before]
        old = [before[pairs[row]] for row in kept]
        columns = {}
        for name, values in self.columns.items():
            shape = (len(pairs), *values.shape[1:])
            columns[name] = numpy.zeros(shape, values.dtype)
            columns[name][kept] = values[old]
        return PairTable(pairs, **columns)


@dataclasses.dataclass(frozen=True)
class Consumer:
    """A server, or another cgroup.

    ``key`` is the server's UUID, or the cgroup's path below the root of the
    hierarchy, which is also ``cgroup`` (empty while it has none). ``domain``
    is libvirt's name of a server and ``project`` the ID of its project; both
    are empty for other cgroups.
    """

    key: str
    cgroup: str
    domain: str = ''
    project: str = ''
    extra_specs: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )


COUNTERS = 5


@dataclasses.dataclass(frozen=True)
class Counters:
    """The kernel's counters of cgroups since their creation.

    ``values`` (R, 5): bytes read, bytes written, reads, writes, and the device
    time in microseconds that io.cost has charged, 0 without io.cost. ``first``
    (R,) is true in the first reading of a cgroup or disk: its counters may
    have grown at any time before.
    """

    pairs: Pairs
    values: Integers
    first: Booleans


#: Kinds of warnings of a disk.
TEMPERATURE = 'temperature'
FAILING = 'failing'
ERRORS = 'errors'
QUEUE = 'queue'
PERFORMANCE = 'performance'
WARNINGS = (TEMPERATURE, FAILING, ERRORS, QUEUE, PERFORMANCE)


@dataclasses.dataclass(frozen=True)
class DiskState:
    """A disk in the last interval.

    ``seconds`` is the length of the disk's own interval, which is longer than
    the sample's if the disk was missing from the one before. Rates are bytes
    and requests per second. ``busy`` is the share of the time with requests
    in flight, 0 to 1, ``queue`` the mean number of requests in flight,
    ``latency`` the mean time of a request in seconds (None without requests).
    ``score`` is Fennel's throughput score in bytes/s (P4 §IV-B), None while
    no consumer uses the disk. A ``flagged`` disk is to be checked for seeks.
    ``pressure`` is the sustained utilization, 0 to 1. ``iocost_usage`` is the
    share of io.cost's model that was charged, None without io.cost.
    ``temperature`` is in degrees Celsius. ``warnings`` are the texts of those
    in force, by kind (``WARNINGS``).
    ``idle_seconds`` is the time without I/O, at most since the first interval;
    ``idle`` is true from ``[diskplacer_monitor] idle_after`` on.
    ``totals`` are the sums since the first interval, whose length is
    ``totals_seconds``. ``used_seconds`` is the sum of their utilization, each
    times its length.
    """

    device: Device
    seconds: float
    read_bytes: float
    write_bytes: float
    reads: float
    writes: float
    busy: float
    queue: float
    latency: float | None
    score: float | None
    flagged: bool
    pressure: float
    iocost_usage: float | None = None
    temperature: int | None = None
    warnings: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )
    idle_seconds: float = 0.0
    idle: bool = False
    totals: diskstats.Counters = diskstats.Counters()
    totals_seconds: float = 0.0
    used_seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Sample:
    """The I/O of one interval.

    ``seconds`` is the length of the interval. The arrays, one value for each
    of ``pairs``, are the bytes and requests of the interval, and the device
    time in seconds that io.cost charged; ``idle`` is true without requests.
    ``disks`` and ``devices`` are by the disk's UUID;
    ``unwatched`` is the reason why a disk has no device, ``hung`` are the
    disks that do not answer. ``consumers`` are by key. ``history`` is the
    table of ``history.History``. ``servers`` and ``prepared_disks`` are those
    that the agent found last.
    """

    seconds: float
    pairs: Pairs
    read_bytes: Integers
    write_bytes: Integers
    reads: Integers
    writes: Integers
    charged_seconds: Floats
    idle: Booleans
    disks: collections.abc.Mapping[str, DiskState]
    devices: collections.abc.Mapping[str, Device]
    unwatched: collections.abc.Mapping[str, str]
    hung: collections.abc.Collection[str]
    consumers: collections.abc.Mapping[str, Consumer]
    history: PairTable
    hierarchy: cgroups.Hierarchy
    servers: collections.abc.Sequence[libvirt_servers.Server]
    prepared_disks: collections.abc.Sequence[discover.Disk]
