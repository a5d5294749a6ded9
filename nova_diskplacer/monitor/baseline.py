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

"""Compares the throughput of a disk with the disk's own history.

The throughput depends on the requests. So an interval is only compared with
earlier ones of the same kind: mostly reads or mostly writes, with a similar
request size and a similar number of requests in flight.
"""

import bisect
import dataclasses
import math
from typing import Any

import numpy

from nova_diskplacer.monitor import diskstats

# The limits between kinds: bytes of a request, and requests in flight.
_SIZES = (16 << 10, 64 << 10, 256 << 10)
_DEPTHS = (2, 8, 32)
_KINDS = 2 * (len(_SIZES) + 1) * (len(_DEPTHS) + 1)

# Intervals with a smaller share of busy time are ignored.
_MIN_BUSY = 0.1

# Seconds of busy time: the weight of the throughput known beforehand, and the
# windows of the average and of the history of a kind.
_PRIOR = 60
_AVERAGE_WINDOW = 3600
_HISTORY_WINDOW = 7 * 86400

# Seconds: the time constant of recent performance, and the minimal busy time
# in it and in the history of a kind for a comparison.
_RECENT_WINDOW = 3600
_MIN_RECENT = 60
_MIN_HISTORY = 600


@dataclasses.dataclass
class Baseline:
    """The history of a disk's throughput in its busy time.

    ``average`` is the throughput in bytes/s over ``counted`` bytes. It is
    weighted by bytes: a time of seeks, which moves few, hardly lowers it.
    ``means`` has the throughput of each kind over ``works`` seconds. ``work``
    are the busy seconds of about the last hour, ``gain`` is their sum with
    each second weighted by its throughput relative to the mean of its kind.
    """

    average: float = 0.0
    counted: float = 0.0
    means: list[float] = dataclasses.field(
        default_factory=lambda: [0.0] * _KINDS
    )
    works: list[float] = dataclasses.field(
        default_factory=lambda: [0.0] * _KINDS
    )
    gain: float = 0.0
    work: float = 0.0

    @property
    def recent_ratio(self) -> float | None:
        """The throughput of the last hour relative to the history.

        It is None if the disk was hardly busy.
        """
        return self.gain / self.work if self.work >= _MIN_RECENT else None

    def update(self, done: diskstats.Counters, seconds: float) -> None:
        """Add an interval of the disk."""
        kept = math.exp(-seconds / _RECENT_WINDOW)
        self.gain *= kept
        self.work *= kept
        moved = done.read_bytes + done.write_bytes
        if not moved or done.busy_seconds < _MIN_BUSY * seconds:
            return
        # the kernel's clock is coarse
        busy = min(done.busy_seconds, seconds)
        speed = moved / busy
        self.counted = min(
            self.counted + moved, _AVERAGE_WINDOW * max(self.average, speed)
        )
        self.average += (speed - self.average) * min(1, moved / self.counted)
        kind = _kind(done, moved, busy)
        if self.works[kind] >= _MIN_HISTORY:
            self.gain += busy * speed / self.means[kind]
            self.work += busy
        self.works[kind] = min(self.works[kind] + busy, _HISTORY_WINDOW)
        self.means[kind] += (
            (speed - self.means[kind]) * busy / self.works[kind]
        )


def initial(mbps: int) -> Baseline:
    """Return the baseline of a disk without history.

    :param mbps: its known throughput in MB/s, 0 if unknown.
    """
    average = mbps * 1e6
    return Baseline(average=average, counted=_PRIOR * average)


def from_fields(fields: Any) -> Baseline:
    """Return the baseline from its fields.

    :raises TypeError: the fields are not those of a baseline.
    :raises ValueError: a value is invalid.
    """
    baseline = Baseline(**fields)
    numbers = numpy.hstack(list(vars(baseline).values()))
    if not (numpy.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError('a number is negative or not finite')
    if {len(baseline.means), len(baseline.works)} != {_KINDS}:
        raise ValueError(f'it does not have {_KINDS} kinds')
    return baseline


def _kind(done: diskstats.Counters, moved: int, busy: float) -> int:
    requests = max(1, done.reads + done.writes)
    size = bisect.bisect(_SIZES, moved / requests)
    depth = bisect.bisect(_DEPTHS, done.request_seconds / busy)
    writes = done.write_bytes > done.read_bytes
    return (writes * (len(_SIZES) + 1) + size) * (len(_DEPTHS) + 1) + depth
