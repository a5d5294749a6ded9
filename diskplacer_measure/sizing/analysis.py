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

"""Analysis of measured runs: regressions, and the cost of migrations."""

import collections
import collections.abc
import dataclasses

from diskplacer_measure.sizing import advice
from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import migrations
from diskplacer_measure.sizing import regression
from diskplacer_measure.sizing import samples

VCPUS = 'vcpus'
MEMORY = 'memory_gib'
DATA = 'data_gib'

#: What can be causes of the running time; the others follow from it, such as
#: the time that the vCPUs ran.
DEFAULT = (
    VCPUS,
    MEMORY,
    DATA,
    counters.MAJOR_FAULTS,
    counters.DISK_READS,
    counters.CACHE_REFERENCES,
    counters.CACHE_MISSES,
    counters.MIGRATIONS,
)

#: The counters of P1's regressions (§III-B, Fig. 5), each alone.
OF_P1 = (
    counters.CACHE_REFERENCES,
    counters.CACHE_MISSES,
    counters.MIGRATIONS,
)

#: Said with P1's regressions.
WARNING = (
    'A regression on one counter is confounded: events that cost nothing and '
    'come at a steady rate are more in longer runs. With the design of P1 '
    '(§III-B) that gives R² of 0.86 to 0.91 and a slope. Runs that are pinned '
    'and floating in random order tell what migrations cost.'
)


@dataclasses.dataclass(frozen=True)
class Alone:
    """P1's regression on one counter, for one size of the data.

    ``data_gib`` is None if the loads did not print it. ``share`` is the slope
    by the mean time of an operation, as P1 has it, None if the number of
    operations is not known. Without a ``fit``, ``problem`` is the reason.
    """

    data_gib: float | None
    counter: str
    fit: regression.Fit | None
    share: float | None
    problem: str = ''


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The cost of migrations of one server under one load.

    ``share`` is the cost by the mean time of an operation. Without
    a ``cost``, ``problem`` is the reason.
    """

    server: str
    load: str
    cost: migrations.Cost | None
    share: float | None
    problem: str = ''


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The analysis of runs.

    ``together`` is the regression on all counters, None if ``problem`` says
    why; ``left_out`` has the reason for each counter that it lacks. ``alone``
    are P1's regressions. ``memory`` is advice for each size of memory and of
    data.
    """

    runs: int
    together: regression.Fit | None
    problem: str
    left_out: dict[str, str]
    alone: tuple[Alone, ...]
    experiments: tuple[Experiment, ...]
    memory: tuple[advice.Advice, ...]


def analyse(
    runs: collections.abc.Sequence[samples.Sample],
    counter_names: collections.abc.Sequence[str] = (),
) -> Analysis:
    """Analyse runs.

    :param counter_names: those of the regression, by default those of
        ``DEFAULT`` that are not the same in all runs.
    :raises SizingError: there are no runs, or none has one of these counters.
    """
    if not runs:
        raise errors.SizingError('the file has no runs')
    sizes = _sizes(runs)
    rows = [values(sample, sizes[_data(sample)]) for sample in runs]
    measured = {name for row in rows for name in row}
    for name in counter_names:
        if name not in measured:
            raise errors.SizingError(
                f'--counters {name}: the runs have only '
                f'{", ".join(sorted(measured))}'
            )
    left_out = dict(_left_out(runs, rows, counter_names or DEFAULT))
    names = [name for name in counter_names or DEFAULT if name not in left_out]
    together, problem = _fit(names, rows, runs)
    return Analysis(
        runs=len(runs),
        together=together,
        problem=problem,
        left_out=left_out,
        alone=tuple(_alone(runs)),
        experiments=tuple(_experiments(runs)),
        memory=tuple(_memory(runs)),
    )


def values(sample: samples.Sample, data_bytes: int | None) -> dict[str, float]:
    """Return the possible causes of the running time of a run, by name.

    :param data_bytes: the size of its data, None if it is not known.
    """
    by_name = {
        VCPUS: sample.vcpus,
        MEMORY: sample.memory_bytes / advice.GIB,
        **sample.counters,
    }
    if data_bytes is not None:
        by_name[DATA] = data_bytes / advice.GIB
    return by_name


def _left_out(
    runs: collections.abc.Sequence[samples.Sample],
    rows: collections.abc.Sequence[dict[str, float]],
    names: collections.abc.Iterable[str],
) -> collections.abc.Iterator[tuple[str, str]]:
    for name in names:
        without = [
            sample
            for sample, row in zip(runs, rows, strict=True)
            if name not in row
        ]
        if without:
            reason = without[0].missing.get(name, 'the load does not tell it')
            yield name, f'missing in {len(without)} runs: {reason}'
        elif len({row[name] for row in rows}) == 1:
            yield name, 'the same in all runs'


def _fit(
    names: collections.abc.Sequence[str],
    rows: collections.abc.Sequence[dict[str, float]],
    runs: collections.abc.Sequence[samples.Sample],
) -> tuple[regression.Fit | None, str]:
    counts = {name: [row[name] for row in rows] for name in names}
    try:
        return regression.fit(counts, [sample.seconds for sample in runs]), ''
    except errors.SizingError as error:
        return None, str(error)


def _alone(
    runs: collections.abc.Iterable[samples.Sample],
) -> collections.abc.Iterator[Alone]:
    by_data = collections.defaultdict(list)
    for sample in runs:
        # P1 pinned no run of its regressions
        if sample.vcpus_are != samples.PINNED:
            by_data[_data(sample)].append(sample)
    for group in by_data.values():
        for name in OF_P1:
            with_counter = [
                sample for sample in group if name in sample.counters
            ]
            if with_counter:
                yield _alone_on(name, with_counter)


def _alone_on(
    name: str, group: collections.abc.Sequence[samples.Sample]
) -> Alone:
    (size,) = _sizes(group).values()
    fit, problem = _fit([name], [sample.counters for sample in group], group)
    operation = _operation(group)
    share = (
        fit.coefficients[0].seconds / operation if fit and operation else None
    )
    data = None if size is None else size / advice.GIB
    return Alone(data, name, fit, share, problem)


def _experiments(
    runs: collections.abc.Iterable[samples.Sample],
) -> collections.abc.Iterator[Experiment]:
    groups = collections.defaultdict(list)
    for sample in runs:
        if sample.block is not None:
            load = str(sample.load.get('workload', ''))
            # blocks of a server that was resized, or of other operations, are
            # no repetitions of one another
            size = sample.vcpus, sample.memory_bytes
            groups[
                sample.server, load, size, _data(sample), sample.operations
            ].append(sample)
    for (server, load, *_), group in groups.items():
        try:
            cost = migrations.cost(_blocks(group))
        except errors.SizingError as error:
            yield Experiment(server, load, None, None, str(error))
            continue
        operation = _operation(group)
        share = (
            cost.each.value / operation if cost.each and operation else None
        )
        yield Experiment(server, load, cost, share)


def _blocks(
    group: collections.abc.Iterable[samples.Sample],
) -> list[migrations.Block]:
    """Return the blocks of which both runs are there.

    :raises SizingError: the migrations of a run are missing.
    """
    pairs: dict[int, dict[str, samples.Sample]] = collections.defaultdict(dict)
    for sample in group:
        if counters.MIGRATIONS not in sample.counters:
            reason = sample.missing.get(counters.MIGRATIONS, 'not counted')
            raise errors.SizingError(
                f'migrations are missing in block {sample.block}: {reason}'
            )
        if sample.block is not None:
            pairs[sample.block][sample.vcpus_are] = sample
    return [
        migrations.Block(
            pinned_seconds=pair[samples.PINNED].seconds,
            floating_seconds=pair[samples.FLOATING].seconds,
            pinned_migrations=pair[samples.PINNED].counters[
                counters.MIGRATIONS
            ],
            floating_migrations=pair[samples.FLOATING].counters[
                counters.MIGRATIONS
            ],
        )
        for pair in pairs.values()
        if len(pair) == 2
    ]


def _memory(
    runs: collections.abc.Sequence[samples.Sample],
) -> collections.abc.Iterator[advice.Advice]:
    sizes = _sizes(runs)
    pairs = {(sample.memory_bytes, sizes[_data(sample)]) for sample in runs}
    with_data = [(memory, data) for memory, data in pairs if data is not None]
    for memory, data in sorted(with_data):
        yield advice.by_data(memory, data)


def _sizes(
    runs: collections.abc.Iterable[samples.Sample],
) -> dict[int, int | None]:
    """Return the largest size in bytes of each data, by ``_data``."""
    sizes = collections.defaultdict(list)
    for sample in runs:
        sizes[_data(sample)].append(sample.data_bytes)
    return {
        data: max((size for size in of_data if size is not None), default=None)
        for data, of_data in sizes.items()
    }


def _data(sample: samples.Sample) -> int:
    """Return a number that is the same for runs on the same data.

    It is the number of records, which updates leave as it is; 0 if the load
    did not print it.
    """
    records = sample.load.get('records')
    return records if isinstance(records, int) else 0


def _operation(
    group: collections.abc.Sequence[samples.Sample],
) -> float | None:
    """Return the mean time of an operation in seconds, None if not known."""
    counts = [sample.operations for sample in group]
    reported = [count for count in counts if count]
    if len(reported) < len(counts):
        return None
    return sum(sample.seconds for sample in group) / sum(reported)
