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

"""The committed results of benchmarks: what they wrote with ``--json``."""

import collections.abc
import dataclasses
import datetime
import itertools
import json
import math
import operator
import pathlib
import re
import typing

import _catalogue
import _report
from tools import provenance

DIRECTORY = pathlib.Path(__file__).with_name('results')

# What figures that end so are to the figure without the ending.
_ENDS = {'95 % CI': ('_low', '_high'), '': ('_min', '_max')}

# A figure, or two and what combines them.
_TWO = re.compile(r'(\S+)(?: ([/-]) (\S+))?')
_COMBINE = {'/': operator.truediv, '-': operator.sub}


@dataclasses.dataclass(frozen=True)
class Value:
    """A measured figure, and the ends of its interval, if it has one.

    ``kind`` is what the interval is: a confidence interval, or, if empty, the
    lowest and the highest of the runs. The ends are infinite if nothing bounds
    the figure.

    :raises ValueError: the figure is not between the ends.
    """

    value: float
    low: float | None = None
    high: float | None = None
    kind: str = ''

    def __post_init__(self) -> None:
        if self.low is None or self.high is None:
            return
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f'{self.value:g} is not between the ends of its interval, '
                f'{self.low:g} and {self.high:g}'
            )

    @property
    def bounded(self) -> bool:
        """Whether there is an interval, with two ends."""
        return (
            self.low is not None
            and self.high is not None
            and math.isfinite(self.low)
            and math.isfinite(self.high)
        )

    def meets(self, goal: _report.Goal) -> bool | None:
        """Say whether a limit is met; None if the interval allows either.

        A figure without an interval is judged by itself.
        """
        ends = (
            (self.value,)
            if self.low is None or self.high is None
            else (self.low, self.high)
        )
        found = {goal.met({goal.figure: end}) for end in ends}
        return found.pop() if len(found) == 1 else None


class Machine(typing.NamedTuple):
    """The machine of a result; ``load`` is that when the run began."""

    kernel: str
    cores: int
    cpu: str = ''
    load: float | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """What a benchmark has written.

    ``revision`` is '' if it is not known. ``code`` has a hash of each path
    that decides the figures, and is empty in results that have none.
    """

    benchmark: str
    date: datetime.date
    command: str
    machine: Machine
    figures: _report.Figures
    goals: tuple[_report.Goal, ...] = ()
    revision: str = ''
    code: dict[str, str] = dataclasses.field(default_factory=dict)

    def changed(self) -> list[str]:
        """Return the paths of the code that have changed since, or may have.

        Those may have that are not in ``code``.
        """
        paths = _catalogue.measured(self.benchmark)
        return provenance.changed(paths, self.code)

    def value(self, name: str) -> Value | None:
        """Return a figure of ``NAME [/ NAME]`` or ``NAME [- NAME]``.

        The interval of a quotient or a difference is what those of both
        figures allow: that of a quotient has no ends if the divisor may be 0
        or less. None if one was not measured, or the divisor is 0.
        """
        first, sign, second = _TWO.fullmatch(name).groups()
        value = self._value(first)
        if not sign or value is None:
            return value
        other = self._value(second)
        if other is None or (sign == '/' and not other.value):
            return None
        return _combined(sign, value, other)

    def _value(self, name: str) -> Value | None:
        value = self.figures.get(name)
        if value is None:
            return None
        for kind, ends in _ENDS.items():
            low, high = (self.figures.get(f'{name}{end}') for end in ends)
            if low is not None and high is not None:
                return Value(value, low, high, kind)
        return Value(value)


def _combined(sign: str, one: Value, other: Value) -> Value:
    combine = _COMBINE[sign]
    value = combine(one.value, other.value)
    if one.low is None or other.low is None:
        return Value(value)
    assert one.high is not None and other.high is not None
    if sign == '/' and other.low <= 0:
        return Value(value, -math.inf, math.inf, one.kind)
    corners = [
        combine(*ends)
        for ends in itertools.product(
            (one.low, one.high), (other.low, other.high)
        )
    ]
    return Value(value, min(corners), max(corners), one.kind)


def figures_of(name: str) -> list[str]:
    """Return the figures that a name has: one, or two that are combined."""
    first, _, second = _TWO.fullmatch(name).groups()
    return [first, second] if second else [first]


Results = collections.abc.Mapping[str, Result]


def read(directory: pathlib.Path = DIRECTORY) -> dict[str, Result]:
    """Return the results by the names of their files, without ``.json``."""
    results = {}
    for path in sorted(directory.glob('*.json')):
        content = json.loads(path.read_text())
        results[path.stem] = Result(
            content['benchmark'],
            datetime.date.fromisoformat(content['date']),
            content['command'],
            _machine(content),
            content['figures'],
            tuple(
                _report.Goal(goal['figure'], goal['op'], goal['value'])
                for goal in content['goals']
            ),
            content.get('revision') or '',
            content.get('code', {}),
        )
    return results


def _machine(content: dict[str, typing.Any]) -> Machine:
    """Return the machine; older results have less of it."""
    if 'machine' in content:
        return Machine(**content['machine'])
    return Machine(content['kernel'], content['cpus'])
