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

"""Rules that judge a claim of a paper by the results of a sweep.

A rule compares cells that differ only in the settings that the claim is about,
in the same repetition, and asks for a ratio, or for a Jain index, in a range.
The ranges are those of the page on papers and results: "more" is 1 % or more,
"much more" 10 %, and less than 10 % to either side is "alike".
"""

import collections
import collections.abc
import dataclasses
import math
import typing

from diskplacer_measure import stats
from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import cells

REPRODUCED = 'reproduced'
REFUTED = 'refuted'
NOT_TOLD_APART = 'not told apart'
NOT_MEASURED = 'not measured'

#: The settings in which a server differs from bare metal with as many threads.
OF_SERVERS = (
    'scenario',
    'servers',
    'jobs',
    'vcpus',
    'ram_mib',
    'guest_scheduler',
    'cache_mode',
    'read_ahead_kb',
)

#: {cell: {repetition: its result}}
Results = collections.abc.Mapping[
    cells.Cell, collections.abc.Mapping[int, cells.Result]
]

#: Values by repetition, a row for each pair of cells.
Rows = list[dict[int, float]]


class Range(typing.NamedTuple):
    """The figures that a claim allows, both ends included."""

    low: float = 0.0
    high: float = math.inf


MORE = Range(low=1 + arm_comparison.MARGIN)
LESS = Range(high=1 - arm_comparison.MARGIN)
MUCH_MORE = Range(low=1.1)
MUCH_LESS = Range(high=0.9)
ALIKE = Range(0.9, 1.1)
NOT_LESS = Range(low=0.9)


@dataclasses.dataclass(frozen=True)
class Check:
    """A figure that a claim is about, and the range that the claim allows.

    The figure is a ratio of throughputs, or a Jain index, over ``cells``
    cells and ``repetitions`` repetitions: their mean, and the ends of its
    confidence interval. ``least`` and ``most`` are those of single cells.
    Of one without cells they mean nothing.
    """

    text: str
    allowed: Range
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    least: float = math.nan
    most: float = math.nan
    cells: int = 0
    repetitions: int = 0

    @property
    def verdict(self) -> str:
        """Verdict: the claim holds for all of the interval, or for none."""
        if not self.cells:
            return NOT_MEASURED
        if self.low >= self.allowed.low and self.high <= self.allowed.high:
            return REPRODUCED
        if self.low > self.allowed.high or self.high < self.allowed.low:
            return REFUTED
        return NOT_TOLD_APART


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The values that a claim is about; logarithms if they are ratios."""

    text: str
    allowed: Range
    rows: Rows
    ratios: bool = True

    def check(self, confidence: float) -> Check:
        """Return the figure, with an interval of this confidence."""
        # one repetition has no spread
        rows = [row for row in self.rows if len(row) > 1]
        if not rows:
            return Check(self.text, self.allowed)
        pooled = stats.pooled(rows, confidence)
        cell_means = [sum(row.values()) / len(row) for row in rows]
        figures = [
            pooled.mean,
            pooled.low,
            pooled.high,
            min(cell_means),
            max(cell_means),
        ]
        if self.ratios:
            figures = [math.exp(figure) for figure in figures]
        repetitions = {number for row in rows for number in row}
        value, low, high, least, most = figures
        return Check(
            self.text,
            self.allowed,
            value,
            low,
            high,
            least,
            most,
            len(rows),
            len(repetitions),
        )


Rule = collections.abc.Callable[[Results], list[Comparison]]
Chooser = collections.abc.Callable[..., list[cells.Cell]]


def by_cell(results: collections.abc.Iterable[cells.Result]) -> Results:
    """Return results by their cell and repetition."""
    grouped: dict[cells.Cell, dict[int, cells.Result]] = {}
    for result in results:
        grouped.setdefault(result.cell, {})[result.repetition] = result
    return grouped


def counted(results: collections.abc.Iterable[cells.Result]) -> Results:
    """Return those results that have no problem."""
    return by_cell(result for result in results if counts(result))


def counts(result: cells.Result) -> bool:
    """Return whether a result counts."""
    return not result.problem and result.mbps > 0


def where(results: Results, **settings: typing.Any) -> list[cells.Cell]:
    """Return the cells with these settings.

    :param settings: for each setting, its value, a tuple of values, or a
        function that returns whether a value is allowed.
    """
    return [
        cell
        for cell in results
        if all(
            _matches(getattr(cell, name), value)
            for name, value in settings.items()
        )
    ]


def _matches(value: object, allowed: typing.Any) -> bool:
    if callable(allowed):
        return bool(allowed(value))
    return value in allowed if isinstance(allowed, tuple) else value == allowed


def most_threads(results: Results, **settings: typing.Any) -> list[cells.Cell]:
    """Return the cells with the most threads, which are more than one."""
    chosen = where(results, **settings)
    most = max((cell.threads for cell in chosen), default=0)
    return [cell for cell in chosen if cell.threads == most > 1]


def ratios(
    results: Results,
    above: collections.abc.Iterable[cells.Cell],
    below: collections.abc.Iterable[cells.Cell],
    besides: collections.abc.Collection[str],
) -> Rows:
    """Return logarithms of the throughput of cells by that of others.

    :param besides: the settings in which a cell and its others may differ.
        ``threads`` are those of all servers together.
    """
    names = [field.name for field in dataclasses.fields(cells.Cell)]
    same = [name for name in (*names, 'threads') if name not in besides]

    def key(cell: cells.Cell) -> tuple[object, ...]:
        return tuple(getattr(cell, name) for name in same)

    others = collections.defaultdict(list)
    for cell in below:
        others[key(cell)].append(results[cell])
    rows = []
    for cell in above:
        row = {}
        for repetition, result in results[cell].items():
            logs = [
                math.log(other[repetition].mbps)
                for other in others[key(cell)]
                if repetition in other
            ]
            if logs:
                mean = sum(logs) / len(logs)
                row[repetition] = math.log(result.mbps) - mean
        rows.append(row)
    return rows


def all_of(*rules: Rule) -> Rule:
    """Return the rule with the comparisons of all rules."""
    return lambda results: [
        comparison for rule in rules for comparison in rule(results)
    ]


def to_bare_metal(
    text: str,
    allowed: Range,
    choose: Chooser = where,
    **settings: typing.Any,
) -> Rule:
    """Compare servers with bare metal, for as many threads."""

    def rule(results: Results) -> list[Comparison]:
        chosen = choose(results, **settings)
        bare = where(results, scenario='bare')
        rows = ratios(results, chosen, bare, OF_SERVERS)
        return [Comparison(text, allowed, rows)]

    return rule


def swapped(
    text: str,
    allowed: Range,
    name: str,
    values: tuple[typing.Any, typing.Any],
    besides: tuple[str, ...] = (),
    **settings: typing.Any,
) -> Rule:
    """Compare two values of a setting, where all others are the same.

    :param values: as ``where`` takes them.
    :param besides: other settings that may differ.
    """

    def rule(results: Results) -> list[Comparison]:
        above, below = (
            where(results, **{**settings, name: value}) for value in values
        )
        rows = ratios(results, above, below, (name, *besides))
        return [Comparison(text, allowed, rows)]

    return rule


def more_threads(
    text: str,
    allowed: Range,
    many: collections.abc.Callable[[int], bool] | None = None,
    **settings: typing.Any,
) -> Rule:
    """Compare many threads with one, where all else is the same.

    :param many: returns whether a number is many; by default the highest is.
    """

    def rule(results: Results) -> list[Comparison]:
        above = (
            most_threads(results, **settings)
            if many is None
            else where(results, **settings, jobs=many)
        )
        below = where(results, **settings, jobs=1)
        rows = ratios(results, above, below, ('jobs', 'threads'))
        return [Comparison(text, allowed, rows)]

    return rule


def more_memory(text: str, allowed: Range, **settings: typing.Any) -> Rule:
    """Compare a server with that of the least memory, else the same."""

    def rule(results: Results) -> list[Comparison]:
        least: dict[cells.Cell, cells.Cell] = {}
        chosen = sorted(where(results, scenario='server', **settings))
        for cell in chosen:
            least.setdefault(dataclasses.replace(cell, ram_mib=0), cell)
        below = set(least.values())
        above = [cell for cell in chosen if cell not in below]
        rows = ratios(results, above, below, ('ram_mib',))
        return [Comparison(text, allowed, rows)]

    return rule


def fair(
    text: str,
    allowed: Range,
    choose: Chooser = where,
    **settings: typing.Any,
) -> Rule:
    """Ask for the Jain index of cells with more than one thread."""

    def rule(results: Results) -> list[Comparison]:
        rows = [
            {
                repetition: stats.jain(result.rates)
                for repetition, result in results[cell].items()
            }
            for cell in choose(results, **settings)
            if cell.threads > 1
        ]
        return [Comparison(text, allowed, rows, ratios=False)]

    return rule
