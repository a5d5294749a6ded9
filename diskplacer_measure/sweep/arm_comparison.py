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

"""Compares arms, such as schedulers or flavors, with the best of them.

Arms are measured in turn, repetition by repetition, under the same loads.
"""

import collections.abc
import dataclasses
import statistics
import typing

from diskplacer_measure import stats

# Behind the best by less than this share is as good as the best.
MARGIN = 0.01


class Load(typing.Protocol):
    """The load of fio: an engine, and a number of threads."""

    @property
    def engine(self) -> str: ...

    @property
    def jobs(self) -> int: ...


_Load = typing.TypeVar('_Load', bound=Load)

#: {arm: [one value for each repetition]}
Values = collections.abc.Mapping[str, list[float]]


@dataclasses.dataclass(frozen=True)
class Workload:
    """The loads that a profile is for.

    ``jobs`` is the least number of threads. With ``jobs_are_chosen`` it is
    up to the operator, as the number of parallel tasks in a server is.
    """

    engines: tuple[str, ...]
    jobs: int = 1
    jobs_are_chosen: bool = False

    def of(self, loads: collections.abc.Iterable[_Load]) -> list[_Load]:
        """Return the loads that are like the workload."""
        return [load for load in loads if self.includes(load)]

    def includes(self, load: Load) -> bool:
        """Return whether a load is like the workload."""
        return load.engine in self.engines and load.jobs >= self.jobs


# Of the profiles for sequential I/O. MapReduce has several tasks on a node at
# a time, which go through the page cache.
WORKLOADS = {
    'sequential_sync': Workload(('sync_direct', 'sync_cached')),
    'sequential_async': Workload(('async',)),
    'mapreduce': Workload(('sync_cached',), jobs=4, jobs_are_chosen=True),
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The comparison of an arm with the best one.

    ``low`` and ``high`` are the ends of the 95 % confidence interval of
    ``ratio``, its throughput by that of the best. ``lowest`` is that ratio of
    the worst arm.
    """

    arm: str
    best: str
    ratio: float
    low: float
    high: float
    worst: str
    lowest: float

    @property
    def was_best(self) -> bool:
        """True if it is not shown to be behind the best by MARGIN."""
        return self.high >= 1 - MARGIN

    @property
    def text(self) -> str:
        if self.arm == self.best:
            return 'yes'
        return 'not told apart' if self.was_best else 'NO'


def scores(rows: collections.abc.Sequence[Values]) -> dict[str, list[float]]:
    """Return each arm's geometric mean over loads, by repetition.

    So that each load counts the same, however fast it is.

    :param rows: of each load, the values of the same arms.
    """
    return {
        arm: [
            statistics.geometric_mean(values)
            for values in zip(*(row[arm] for row in rows), strict=True)
        ]
        for arm in rows[0]
    }


def judge(arm: str, values: Values) -> Verdict:
    """Compare an arm with all of them, repetition by repetition."""
    ordered = sorted(
        values, key=lambda name: statistics.geometric_mean(values[name])
    )
    worst, best = ordered[0], ordered[-1]
    lowest, _, _ = stats.ratio(values[worst], values[best])
    compared = stats.ratio(values[arm], values[best])
    return Verdict(arm, best, *compared, worst, lowest)


def preferred(
    schedulers: collections.abc.Iterable[str],
    arms: collections.abc.Collection[str],
) -> str | None:
    """Return the first of a profile's schedulers that was measured."""
    return next(
        (scheduler for scheduler in schedulers if scheduler in arms), None
    )
