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

"""Which scheduler, or flavor, was the best of a sweep of tools/io_sweep.py."""

import collections
import collections.abc
import dataclasses
import statistics
import typing

from nova_diskplacer.sweep import stats
from tools.io_sweep import Load

# Behind the best by less than this share is as good as the best.
MARGIN = 0.01

# {load: {arm: [one value for each repetition]}}
Values = dict[Load, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True)
class Workload:
    """The loads that a profile is for."""

    engines: tuple[str, ...]
    jobs: int = 1

    def of(self, loads: collections.abc.Iterable[Load]) -> list[Load]:
        """Return those loads that are like it."""
        return [
            load
            for load in loads
            if load.engine in self.engines and load.jobs >= self.jobs
        ]


# Of the profiles for sequential I/O. MapReduce has several tasks on a node at
# a time, which go through the page cache.
WORKLOADS = {
    'sequential_sync': Workload(('sync_direct', 'sync_cached')),
    'sequential_async': Workload(('async',)),
    'mapreduce': Workload(('sync_cached',), jobs=4),
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """What arms, such as schedulers, gave under each load."""

    arms: tuple[str, ...]
    mbps: Values
    jain: Values

    @classmethod
    def of(
        cls, sweeps: collections.abc.Mapping[str, dict[str, typing.Any]]
    ) -> 'Measured':
        """Return what sweeps, by name, have measured.

        Of one sweep, an arm is a scheduler. Of several, it is a sweep, or the
        scheduler of a sweep that has more than one.

        :raises ValueError: the sweeps are not of the same loads.
        """
        mbps: Values = collections.defaultdict(dict)
        jain: Values = collections.defaultdict(dict)
        for name, sweep in sweeps.items():
            for sample in sweep['samples']:
                arm = name
                if len(sweeps) == 1:
                    arm = sample['scheduler']
                elif len(sweep['schedulers']) > 1:
                    arm = f'{name} {sample["scheduler"]}'
                load = Load(
                    sample['engine'], sample['operation'], sample['jobs']
                )
                mbps[load].setdefault(arm, []).append(sample['mbps'])
                jain[load].setdefault(arm, []).append(
                    stats.jain(sample['rates'])
                )
        shapes = {
            tuple((arm, len(values)) for arm, values in sorted(one.items()))
            for one in mbps.values()
        }
        counts = {count for shape in shapes for _, count in shape}
        if len(shapes) != 1 or len(counts) != 1:
            raise ValueError(
                f'{", ".join(sweeps)}: not all have the same loads and '
                'repetitions'
            )
        arms = sorted({arm for one in mbps.values() for arm in one})
        return cls(tuple(arms), dict(mbps), dict(jain))

    def scores(
        self, loads: collections.abc.Iterable[Load]
    ) -> dict[str, list[float]]:
        """Return each arm's geometric mean over loads, by repetition.

        So that each load counts the same, however fast it is.
        """
        rows = [self.mbps[load] for load in loads]
        return {
            arm: [
                statistics.geometric_mean(values)
                for values in zip(*(row[arm] for row in rows), strict=True)
            ]
            for arm in self.arms
        }


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How an arm compares with the best one.

    ``low`` and ``high`` are the ends of the 95 % confidence interval of
    ``ratio``, what it gave by what the best gave. ``lowest`` is that ratio of
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
        """Say that it is not shown to be behind the best by MARGIN."""
        return self.high >= 1 - MARGIN

    @property
    def text(self) -> str:
        if self.arm == self.best:
            return 'yes'
        return 'not told apart' if self.was_best else 'NO'


def judge(
    arm: str, values: collections.abc.Mapping[str, list[float]]
) -> Verdict:
    """Compare an arm with all of them, repetition by repetition."""
    ordered = sorted(
        values, key=lambda one: statistics.geometric_mean(values[one])
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
    return next((one for one in schedulers if one in arms), None)
