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
import json
import pathlib
import typing

import _report

DIRECTORY = pathlib.Path(__file__).with_name('results')

# What figures that end so are to the figure without the ending.
_ENDS = {'95 % CI': ('_low', '_high'), '': ('_min', '_max')}


class Value(typing.NamedTuple):
    """A measured figure, and the ends of its interval, if it has one.

    ``kind`` is what the interval is: a confidence interval, or, if empty, the
    lowest and the highest of the runs.
    """

    value: float
    low: float | None = None
    high: float | None = None
    kind: str = ''


@dataclasses.dataclass(frozen=True)
class Result:
    """What a benchmark has written."""

    benchmark: str
    date: datetime.date
    command: str
    kernel: str
    cpus: int
    figures: _report.Figures
    goals: tuple[_report.Goal, ...] = ()

    def value(self, name: str) -> Value | None:
        """Return a figure, or one divided by another; None if not measured.

        The interval of a quotient is what those of both figures allow.
        """
        first, _, second = name.partition(' / ')
        value = self._value(first)
        if not second or value is None:
            return value
        divisor = self._value(second)
        if divisor is None:
            return None
        quotient = value.value / divisor.value
        if value.low is None or divisor.low is None:
            return Value(quotient)
        assert value.high is not None and divisor.high is not None
        return Value(
            quotient,
            value.low / divisor.high,
            value.high / divisor.low,
            value.kind,
        )

    def _value(self, name: str) -> Value | None:
        value = self.figures.get(name)
        if value is None:
            return None
        for kind, ends in _ENDS.items():
            low, high = (self.figures.get(f'{name}{end}') for end in ends)
            if low is not None and high is not None:
                return Value(value, low, high, kind)
        return Value(value)


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
            content['kernel'],
            content['cpus'],
            content['figures'],
            tuple(
                _report.Goal(goal['figure'], goal['op'], goal['value'])
                for goal in content['goals']
            ),
        )
    return results
