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

"""Chooses the best shapes and settings of servers for a workload.

Candidates are compared under the loads that all of them were measured under:
their score is the geometric mean of the throughput, so that each load counts
the same. Repetitions are blocks: changes from one to the next affect all
candidates. A candidate is excluded if it is shown to be behind the highest by
more than 1 %, where noise is a share of the throughput, the same for all. As
the highest is picked from the data, all pairs count as compared: their
intervals hold at once with 95 %, after Bonferroni. So where nothing differs,
something is excluded in one choice of twenty at most.
"""

import collections
import collections.abc
import dataclasses
import math
import statistics
import typing

import numpy

from diskplacer_measure import stats
from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import rules

#: The throughput to maximise: that of one server, or of the host, which has
#: one server or several.
OBJECTIVES = {'server': 'a server alone', 'host': 'the whole host'}

_CONFIDENCE = 0.95

# Repetitions that a candidate needs under each load: one has no spread.
_REPETITIONS = 2


@dataclasses.dataclass(frozen=True, order=True)
class Candidate:
    """A candidate: the shape and the settings of servers.

    With ``several`` there is a thread in each of several servers, otherwise
    all threads are in one. ``jobs`` is 0 if the load has their number.
    """

    several: bool
    vcpus: int
    ram_mib: int
    host_scheduler: str
    guest_scheduler: str
    cache_mode: str
    read_ahead_kb: int
    jobs: int

    @classmethod
    def of(cls, cell: cells.Cell, jobs_are_chosen: bool) -> 'Candidate':
        return cls(
            cell.scenario == 'servers',
            cell.vcpus,
            cell.ram_mib,
            cell.host_scheduler,
            cell.guest_scheduler,
            cell.cache_mode,
            cell.read_ahead_kb,
            cell.threads if jobs_are_chosen else 0,
        )

    @property
    def settings(self) -> tuple[object, ...]:
        """All but the shape and the number of servers."""
        return dataclasses.astuple(self)[3:]


class Load(typing.NamedTuple):
    """The load of all threads together; ``jobs`` is 0 if it is chosen."""

    engine: str
    operation: str
    jobs: int
    depth: int


@dataclasses.dataclass(frozen=True)
class Compared:
    """The score of a candidate in MB/s, and by that of the highest.

    ``low`` and ``high`` are the ends of the interval of ``ratio``.
    """

    candidate: Candidate
    mbps: float
    ratio: float
    low: float
    high: float

    @property
    def excluded(self) -> bool:
        """True if it is shown to be behind the highest by MARGIN."""
        return self.high < 1 - arm_comparison.MARGIN


@dataclasses.dataclass(frozen=True)
class Choice:
    """The candidates for a workload and an objective, the highest first.

    ``left_out`` were not measured under all the loads. With fewer than two
    candidates nothing is compared.
    """

    workload: str
    objective: str
    loads: tuple[Load, ...]
    compared: tuple[Compared, ...]
    left_out: tuple[Candidate, ...]

    @property
    def chosen(self) -> list[Compared]:
        """The highest, and those that are not shown to be worse."""
        return [
            candidate for candidate in self.compared if not candidate.excluded
        ]

    @property
    def excluded(self) -> list[Compared]:
        return [candidate for candidate in self.compared if candidate.excluded]

    @property
    def claims_optimum(self) -> bool:
        """True if a candidate is shown to be worse than the highest."""
        return bool(self.excluded)


#: {candidate: {load: {repetition: MB/s}}}
_Table = dict[Candidate, dict[Load, dict[int, float]]]


def choose(
    results: collections.abc.Iterable[cells.Result],
    workload: str,
    objective: str,
) -> Choice:
    """Compare the candidates for a workload by those results that count.

    :param workload: one of arm_comparison.WORKLOADS.
    :param objective: one of OBJECTIVES.
    """
    table = _table(results, arm_comparison.WORKLOADS[workload], objective)
    candidates, loads = _comparable(table)
    scores = {
        candidate: _scores(table[candidate], loads) for candidate in candidates
    }
    compared = _compare(scores)
    left_out = sorted(table.keys() - {score.candidate for score in compared})
    return Choice(
        workload, objective, tuple(loads), tuple(compared), tuple(left_out)
    )


def _table(
    results: collections.abc.Iterable[cells.Result],
    workload: arm_comparison.Workload,
    objective: str,
) -> _Table:
    """Return the throughput of servers under loads like the workload."""
    scenarios = ('server',) if objective == 'server' else ('server', 'servers')
    table: _Table = {}
    of_several = set()
    for result in results:
        cell = result.cell
        load = Load(cell.engine, cell.operation, cell.threads, cell.depth)
        if (
            not rules.counts(result)
            or cell.scenario not in scenarios
            or not workload.includes(load)
        ):
            continue
        if workload.jobs_are_chosen:
            load = load._replace(jobs=0)
        candidate = Candidate.of(cell, workload.jobs_are_chosen)
        values = table.setdefault(candidate, {}).setdefault(load, {})
        values[result.repetition] = result.mbps
        if candidate.several:
            of_several.add(load)
    if objective == 'server':
        return table
    # loads of one server only do not show what several would do
    return {
        candidate: kept
        for candidate, by_load in table.items()
        if (
            kept := {
                load: values
                for load, values in by_load.items()
                if load in of_several
            }
        )
    }


def _comparable(table: _Table) -> tuple[list[Candidate], list[Load]]:
    """Return the most candidates with a load in common, and these loads."""
    covered: dict[Load, set[Candidate]] = collections.defaultdict(set)
    for candidate, by_load in table.items():
        for load, values in by_load.items():
            if len(values) >= _REPETITIONS:
                covered[load].add(candidate)

    def loads_of(candidates: set[Candidate]) -> list[Load]:
        return sorted(
            load
            for load, covering in covered.items()
            if covering >= candidates
        )

    best = max(
        covered.values(),
        key=lambda covering: (len(covering), len(loads_of(covering))),
        default=set(),
    )
    return sorted(best), loads_of(best)


def _scores(
    by_load: dict[Load, dict[int, float]], loads: list[Load]
) -> dict[int, float]:
    """Return, by repetition, the logarithm of the mean over all loads."""
    complete = set.intersection(*(set(by_load[load]) for load in loads))
    return {
        repetition: statistics.fmean(
            math.log(by_load[load][repetition]) for load in loads
        )
        for repetition in sorted(complete)
    }


def _compare(
    scores: dict[Candidate, dict[int, float]],
) -> list[Compared]:
    """Return candidates by their means after the repetitions' effects."""
    scores = {
        candidate: values
        for candidate, values in scores.items()
        if len(values) >= _REPETITIONS
    }
    if len(scores) < 2:
        return []
    means, covariance, freedom = _effects(list(scores.values()))
    if freedom < 1:
        return []
    best = int(numpy.argmax(means))
    pairs = math.comb(len(scores), 2)
    t = stats.student_t(1 - (1 - _CONFIDENCE) / pairs, freedom)
    compared = []
    for place, candidate in enumerate(scores):
        error = math.sqrt(
            max(
                0.0,
                covariance[place, place]
                + covariance[best, best]
                - 2 * covariance[place, best],
            )
        )
        log = float(means[place] - means[best])
        compared.append(
            Compared(
                candidate,
                math.exp(means[place]),
                math.exp(log),
                math.exp(log - t * error),
                math.exp(log + t * error),
            )
        )
    return sorted(compared, key=lambda score: -score.mbps)


def _effects(
    rows: list[dict[int, float]],
) -> tuple[typing.Any, typing.Any, int]:
    """Fit means of rows and effects of repetitions by least squares.

    :returns: the means, in a typical repetition, their covariance, and the
        degrees of freedom of the residuals; 0 if these have no spread, or if
        no repetition connects some rows with the others.
    """
    repetitions = sorted({repetition for row in rows for repetition in row})
    cells_ = [
        (place, repetition, value)
        for place, row in enumerate(rows)
        for repetition, value in row.items()
    ]
    design = numpy.zeros((len(cells_), len(rows) + len(repetitions) - 1))
    values = numpy.array([value for _, _, value in cells_])
    for line, (place, repetition, _) in enumerate(cells_):
        design[line, place] = 1
        # effects whose sum over repetitions is 0
        position = repetitions.index(repetition)
        if position < len(repetitions) - 1:
            design[line, len(rows) + position] = 1
        else:
            design[line, len(rows) :] = -1
    fitted, _, rank, _ = numpy.linalg.lstsq(design, values, rcond=None)
    connected = rank == design.shape[1]
    freedom = len(cells_) - int(rank) if connected else 0
    residuals = values - design @ fitted
    variance = float(residuals @ residuals) / max(freedom, 1)
    covariance = variance * numpy.linalg.pinv(design.T @ design)
    return fitted[: len(rows)], covariance, freedom


# The settings besides the shape, named where they differ.
_SETTINGS = {
    'host_scheduler': '{}',
    'guest_scheduler': '{} in the server',
    'cache_mode': 'cache mode {}',
    'read_ahead_kb': 'read-ahead {} KiB',
    'jobs': '{} threads',
}


def text(
    candidate: Candidate, others: collections.abc.Iterable[Candidate]
) -> str:
    """Return a candidate with those settings in which it differs."""
    parts = [
        'several servers' if candidate.several else 'one server',
        labels.shape(candidate.vcpus, candidate.ram_mib),
    ]
    compared = list(others)
    for name, format_ in _SETTINGS.items():
        if len({getattr(other, name) for other in compared}) > 1:
            parts.append(format_.format(getattr(candidate, name)))
    return ', '.join(parts)
