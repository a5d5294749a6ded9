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

"""The results of ``diskplacer-manage sizing`` as text."""

import collections.abc
import textwrap

from diskplacer_measure.sizing import advice
from diskplacer_measure.sizing import analysis
from diskplacer_measure.sizing import migrations
from diskplacer_measure.sizing import regression
from diskplacer_measure.sizing.key_value import latencies
from diskplacer_measure.sizing.key_value import load
from diskplacer_measure.sizing.key_value import postgresql
from nova_diskplacer.cmd import shell

_WIDTH = 79

# From here on the client has hardly time to wait for the store.
_BUSY_CLIENT = 0.8

# Three digits would hide the unit of larger values.
_MANY = 1000

_UNITS = (
    (1, 's'),
    (1e-3, 'ms'),
    (1e-6, 'µs'),
    (1e-9, 'ns'),
)


def seconds(value: float) -> str:
    """Return a time with three digits, and the unit that suits it."""
    size = abs(value)
    if size >= _MANY:
        return f'{value:.0f} s'
    for scale, unit in _UNITS:
        if size >= scale:
            return f'{value / scale:.3g} {unit}'
    return f'{value:.3g} s'


def print_load(about: postgresql.Description, result: load.Result) -> None:
    """Print the latencies of operations."""
    print(
        f'{about.store}, {about.records} records, '
        f'{about.data_bytes / advice.GIB:.2f} GiB'
    )
    print(f'running time {seconds(result.seconds)}')
    parts = [f'{100 * part:g} %' for part in latencies.QUANTILES]
    columns = ('Operation', 'Number', 'Mean', *parts, '< 1 ms', '10-30 ms')
    print(
        shell.make_table(
            columns,
            [
                (
                    kind,
                    latency.operations,
                    seconds(latency.mean),
                    *map(seconds, latency.quantiles.values()),
                    _percent(latency.below_1_ms),
                    _percent(latency.from_10_to_30_ms),
                )
                for kind, latency in result.latencies.items()
            ],
        )
    )
    if result.client_cpu >= _BUSY_CLIENT:
        _print(
            f'The client used a CPU for {_percent(result.client_cpu)} of the '
            'time: the run measures the client, not the store.'
        )


def print_analysis(result: analysis.Analysis) -> None:
    """Print the analysis of runs."""
    print(f'{result.runs} runs')
    print('\nAll counters together')
    if result.together is None:
        _print(f'No regression: {result.problem}.')
    else:
        _print_fit(result.together)
        _print('This tells what goes together, not what causes what.')
    for name, reason in result.left_out.items():
        _print(f'{name} is left out: {reason}.')
    if result.experiments:
        print('\nCost of CPU migrations, by pinned and floating runs')
        _print_experiments(result)
    if result.alone:
        print('\nOne counter alone, as P1 has it')
        _print_alone(result)
        _print(analysis.WARNING)
    for advised in result.memory:
        print('\nMemory')
        print_advice(advised)


def print_advice(advice_: advice.Advice) -> None:
    """Print whether the memory suffices, and why."""
    _print(f'{"Enough" if advice_.enough else "Too little"}. {advice_.text}')


def _print_fit(fit: regression.Fit) -> None:
    columns = ('Counter', 'One more', '95 % interval', 'Share', 'Partial R²')
    print(
        shell.make_table(
            columns,
            [
                (
                    coefficient.name,
                    seconds(coefficient.seconds),
                    _interval(coefficient.low, coefficient.high),
                    _percent(coefficient.share),
                    f'{coefficient.partial_r2:.2f}',
                )
                for coefficient in fit.coefficients
            ],
        )
    )
    print(
        f'R² {fit.r2:.2f}, constant {seconds(fit.intercept)}, condition '
        f'number {fit.condition:.1f}'
    )
    for problem in fit.problems:
        _print(f'Beware: {problem}.')


def _print_experiments(result: analysis.Analysis) -> None:
    for experiment in result.experiments:
        load_ = f', load {experiment.load}' if experiment.load else ''
        if experiment.cost is None:
            _print(f'Server {experiment.server}{load_}: {experiment.problem}.')
            continue
        print(
            f'Server {experiment.server}{load_}, '
            f'{experiment.cost.blocks} blocks: {experiment.cost.verdict}'
        )
        for line in _cost_lines(experiment.cost, experiment.share):
            print(f'  {line}')


def _cost_lines(
    cost: migrations.Cost, share: float | None
) -> collections.abc.Iterator[str]:
    time, wide, moves = cost.seconds, cost.seconds_99, cost.migrations
    yield (
        f'floating takes longer by {seconds(time.value)} (95 %: '
        f'{_interval(time.low, time.high)}; 99 %: '
        f'{_interval(wide.low, wide.high)})'
    )
    yield (
        f'and has {moves.value:.0f} more migrations (95 %: {moves.low:.0f} to '
        f'{moves.high:.0f})'
    )
    if cost.each is not None:
        part = '' if share is None else f', {_percent(share)} of an operation'
        yield (
            f'one migration takes {seconds(cost.each.value)} (95 %: '
            f'{_interval(cost.each.low, cost.each.high)}){part}'
        )


def _print_alone(result: analysis.Analysis) -> None:
    columns = (
        'Data', 'Counter', 'One more', '95 % interval', 'Of an operation',
        'R²', 'Runs',
    )  # fmt: skip
    rows = []
    for single in result.alone:
        if single.fit is None:
            _print(f'{single.counter}: {single.problem}.')
            continue
        (slope,) = single.fit.coefficients
        rows.append(
            (
                '-'
                if single.data_gib is None
                else f'{single.data_gib:.2f} GiB',
                single.counter,
                seconds(slope.seconds),
                _interval(slope.low, slope.high),
                '-' if single.share is None else _percent(single.share),
                f'{single.fit.r2:.2f}',
                single.fit.runs,
            )
        )
    if rows:
        print(shell.make_table(columns, rows))


def _interval(low: float, high: float) -> str:
    return f'{seconds(low)} to {seconds(high)}'


def _percent(part: float) -> str:
    return f'{100 * part:.1f} %'


def _print(text: str) -> None:
    print(textwrap.fill(text, _WIDTH))
