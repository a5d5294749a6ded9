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

"""How well a disk performs, against its own history.

What a disk gives depends on what is asked of it. So a look is only compared
with earlier ones of the same kind: mostly reads or mostly writes, of about
the same size, with about as many requests in flight.
"""

import bisect
import dataclasses
import math
from typing import Any

from nova_diskplacer.monitor import diskstats

# What parts kinds: bytes of a request, and requests in flight.
_SIZES = (16 << 10, 64 << 10, 256 << 10)
_DEPTHS = (2, 8, 32)
_KINDS = 2 * (len(_SIZES) + 1) * (len(_DEPTHS) + 1)

# A disk that was busy for less of a look tells little of itself.
_LEAST_BUSY = 0.1

# In seconds of work: how much what is known beforehand counts, what the
# average looks back on, and what the history of a kind looks back on.
_PRIOR = 60
_AVERAGE = 3600
_HISTORY = 7 * 86400

# In seconds: what is recent, and how much work of it, and of the kind's
# history, it takes to say anything.
_RECENT = 3600
_RECENT_LEAST = 60
_HISTORY_LEAST = 600


@dataclasses.dataclass
class Baseline:
    """What is known of a disk.

    ``average`` is its throughput while it is busy, in bytes/s, over
    ``counted`` bytes. It is weighted by bytes: a time of seeks, in which few
    are moved, hardly lowers it. ``means`` has the throughput while busy of
    each kind, over ``works`` seconds; ``gain`` is the sum of what each second
    of the last hour's ``work`` was worth compared to that.
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
    def recent(self) -> float | None:
        """The last hour's performance as a share of the disk's own before.

        None if the disk did too little for that.
        """
        return self.gain / self.work if self.work >= _RECENT_LEAST else None

    def update(self, done: diskstats.Counters, seconds: float) -> None:
        """Take in what the disk did in so many seconds."""
        kept = math.exp(-seconds / _RECENT)
        self.gain *= kept
        self.work *= kept
        moved = done.read_bytes + done.write_bytes
        if not moved or done.busy < _LEAST_BUSY * seconds:
            return
        # of a coarse clock
        busy = min(done.busy, seconds)
        speed = moved / busy
        self.counted = min(
            self.counted + moved, _AVERAGE * max(self.average, speed)
        )
        self.average += (speed - self.average) * min(1, moved / self.counted)
        kind = _kind(done, moved, busy)
        if self.works[kind] >= _HISTORY_LEAST:
            self.gain += busy * speed / self.means[kind]
            self.work += busy
        self.works[kind] = min(self.works[kind] + busy, _HISTORY)
        self.means[kind] += (
            (speed - self.means[kind]) * busy / self.works[kind]
        )


def initial(mbps: int) -> Baseline:
    """Return what to think of a disk without history.

    :param mbps: what it is known to give, in MB/s; 0 if not known.
    """
    average = mbps * 1e6
    return Baseline(average=average, counted=_PRIOR * average)


def to_fields(baseline: Baseline) -> dict[str, Any]:
    """Return what can be kept as JSON."""
    return dataclasses.asdict(baseline)


def from_fields(fields: Any) -> Baseline:
    """Return what was kept.

    :raises TypeError: that was something else.
    :raises ValueError: so it was.
    """
    baseline = Baseline(**fields)
    numbers = (
        baseline.average,
        baseline.counted,
        baseline.gain,
        baseline.work,
        *baseline.means,
        *baseline.works,
    )
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError('a figure is not one')
    if {len(baseline.means), len(baseline.works)} != {_KINDS}:
        raise ValueError(f'it does not have {_KINDS} kinds')
    return baseline


def _kind(done: diskstats.Counters, moved: int, busy: float) -> int:
    requests = max(1, done.reads + done.writes)
    size = bisect.bisect(_SIZES, moved / requests)
    depth = bisect.bisect(_DEPTHS, done.waited / busy)
    writes = done.write_bytes > done.read_bytes
    return (writes * (len(_SIZES) + 1) + size) * (len(_DEPTHS) + 1) + depth
