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

"""The figures of P0 and P3, with the results of a sweep.

A figure has panels, a panel a line for each series of cells that differ in
the number of threads only.
"""

import collections
import collections.abc
import dataclasses
import statistics

from diskplacer_measure import stats
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import rules

# The texts of the settings that label a series, where they differ.
_SETTINGS = {
    'depth': '{} in flight',
    'guest_scheduler': '{} in the server',
    'cache_mode': 'cache mode {}',
    'read_ahead_kb': 'read-ahead {} KiB',
}


@dataclasses.dataclass(frozen=True)
class Point:
    """The repetitions of a cell.

    Their mean with the ends of its 95 % confidence interval, which are None
    of a single repetition. ``repetitions`` have no problem; if it is 0, the
    mean is that of those with one. ``problems`` are of the others.
    """

    threads: int
    mean: float
    low: float | None
    high: float | None
    repetitions: int
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Series:
    """Cells that differ in the number of threads only."""

    label: str
    points: tuple[Point, ...]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure of a result; ``most`` is the highest that there can be."""

    name: str
    unit: str
    of: collections.abc.Callable[[cells.Result], float]
    most: float | None = None


@dataclasses.dataclass(frozen=True)
class Panel:
    """A diagram over the number of threads; ``row`` is its operation."""

    title: str
    row: str
    metric: Metric
    series: tuple[Series, ...]


@dataclasses.dataclass(frozen=True)
class Figure:
    """Panels of the same kind; claims refer to ``name``."""

    name: str
    title: str
    text: str
    panels: tuple[Panel, ...]


THROUGHPUT = Metric('Throughput', 'MB/s', lambda result: result.mbps)
_JAIN = Metric(
    'Jain index', '', lambda result: stats.jain(result.rates), most=1
)
_SERVING = Metric(
    'Serving', '% of time', lambda result: 100 * result.serving, most=100
)
_SWITCHES = Metric(
    'Context switches', '1/s', lambda result: result.context_switches
)


def draw(results: collections.abc.Iterable[cells.Result]) -> list[Figure]:
    """Return the figures; one of which nothing was measured has no panels.

    Cells of which each repetition failed, so that none has a throughput, are
    in no figure.
    """
    by_cell = {
        cell: repetitions
        for cell, repetitions in rules.by_cell(results).items()
        if any(result.mbps > 0 for result in repetitions.values())
    }
    blocking = [
        panel
        for engine in ('sync_direct', 'sync_cached')
        for panel in _panels(by_cell, THROUGHPUT, engine)
    ]
    return [
        Figure(
            'blocking',
            'Blocking I/O: P0, Fig. 3',
            'A fixed amount of data is divided among all threads. The page '
            'cache is that of the server, or of the host on bare metal.',
            tuple(blocking),
        ),
        Figure(
            'asynchronous',
            'Asynchronous I/O: P0, Fig. 4; P3, three figures of throughput',
            'Direct, with many requests in flight, by the scheduler of the '
            'host. P0 has 256 requests in flight, P3 32.',
            tuple(_panels(by_cell, THROUGHPUT, 'async')),
        ),
        Figure(
            'fairness',
            'Fairness: P3, Fig. "Jain Fairness Index of different scenarios"',
            "Jain's index of the threads of asynchronous I/O: 1 if all have "
            'the same throughput.',
            tuple(_panels(by_cell, _JAIN, 'async')),
        ),
        Figure(
            'cache mode',
            'Cache modes: P3, Fig. "Write-through cache is using on the host '
            'and the VMs"',
            "Writes of servers by QEMU's cache mode.",
            tuple(_cache_modes(by_cell)),
        ),
        Figure(
            'processors',
            'Time of processors: P3, CPU utilization and Context switching',
            'Serving is the share of its time in which a thread executed, the '
            'rest is waiting. Context switches are those of all threads. The '
            'paper names these quantities and states no result.',
            tuple(
                panel
                for metric in (_SERVING, _SWITCHES)
                for panel in _panels(by_cell, metric, 'async')
            ),
        ),
    ]


def _title(metric: Metric, operation: str, engine: str, scheduler: str) -> str:
    parts = [operation, labels.ENGINES[engine], labels.scheduler(scheduler)]
    if metric is not THROUGHPUT:
        parts = [metric.name, operation, labels.scheduler(scheduler)]
    text = ', '.join(parts)
    return text[0].upper() + text[1:]


def _panels(
    by_cell: rules.Results, metric: Metric, engine: str
) -> collections.abc.Iterator[Panel]:
    """Yield the panels of an engine, by the host's scheduler."""
    for operation in cells.OPERATIONS:
        chosen = rules.where(by_cell, engine=engine, operation=operation)
        for name in sorted({cell.host_scheduler for cell in chosen}):
            yield Panel(
                _title(metric, operation, engine, name),
                operation,
                metric,
                _series(
                    by_cell,
                    metric,
                    [cell for cell in chosen if cell.host_scheduler == name],
                ),
            )


def _cache_modes(
    by_cell: rules.Results,
) -> collections.abc.Iterator[Panel]:
    """Yield the panels of servers' writes if there are several modes."""
    chosen = rules.where(
        by_cell, scenario=('server', 'servers'), operation='write'
    )
    if len({cell.cache_mode for cell in chosen}) < 2:
        return
    for engine in cells.ENGINES:
        for name in sorted({cell.host_scheduler for cell in chosen}):
            of_panel = rules.where(
                {cell: by_cell[cell] for cell in chosen},
                engine=engine,
                host_scheduler=name,
            )
            if of_panel:
                yield Panel(
                    _title(THROUGHPUT, 'write', engine, name),
                    'write',
                    THROUGHPUT,
                    _series(by_cell, THROUGHPUT, of_panel),
                )


def _series(
    by_cell: rules.Results,
    metric: Metric,
    chosen: collections.abc.Iterable[cells.Cell],
) -> tuple[Series, ...]:
    """Return the series of the cells of a panel: bare metal first."""
    groups: dict[cells.Cell, list[cells.Cell]] = collections.defaultdict(list)
    for cell in sorted(chosen, key=lambda cell: cell.threads):
        groups[dataclasses.replace(cell, servers=0, jobs=0)].append(cell)
    order = sorted(
        groups, key=lambda cell: (cells.SCENARIOS.index(cell.scenario), cell)
    )
    return tuple(
        Series(
            _label(group, order),
            tuple(
                _point(by_cell[cell].values(), metric, cell.threads)
                for cell in groups[group]
            ),
        )
        for group in order
    )


def _label(cell: cells.Cell, others: list[cells.Cell]) -> str:
    """Return the label of a series, with the settings that differ."""
    parts = [labels.place(cell, numbered=False)]
    for name, text in _SETTINGS.items():
        value = getattr(cell, name)
        if len({getattr(other, name) for other in others} - {''}) > 1 and (
            value != ''
        ):
            parts.append(text.format(value))
    return ', '.join(parts)


def _point(
    results: collections.abc.Collection[cells.Result],
    metric: Metric,
    threads: int,
) -> Point:
    values = [metric.of(result) for result in results if rules.counts(result)]
    problems = {
        result.problem or 'no throughput'
        for result in results
        if not rules.counts(result)
    }
    low = high = None
    if len(values) > 1:
        low, high = stats.interval(values).low, stats.interval(values).high
    mean = statistics.fmean(
        values or [metric.of(result) for result in results if result.mbps > 0]
    )
    return Point(
        threads, mean, low, high, len(values), tuple(sorted(problems))
    )
