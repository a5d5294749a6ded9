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

"""How every benchmark prints and writes its figures and goals."""

import argparse
import collections.abc
import datetime
import json
import operator
import pathlib
import shlex
import sys
import typing

import prettytable

import _catalogue
from tools import provenance

Figures = dict[str, float | None]

_OPERATORS = {'<=': operator.le, '>=': operator.ge, '==': operator.eq}


class Goal(typing.NamedTuple):
    """``figure`` should be ``op`` (one of <=, >=, ==) ``value``."""

    figure: str
    op: str
    value: float

    def met(self, figures: Figures) -> bool:
        """Say whether it is; a figure that was not measured misses."""
        figure = figures.get(self.figure)
        return figure is not None and _OPERATORS[self.op](figure, self.value)


def table(
    headers: collections.abc.Sequence[str],
    rows: collections.abc.Iterable[collections.abc.Sequence[object]],
) -> None:
    """Print a table: the first column to the left, the others right."""
    shown = prettytable.PrettyTable(list(headers))
    shown.align = 'r'
    shown.align[headers[0]] = 'l'
    shown.add_rows([list(row) for row in rows])
    print(shown, flush=True)


def show_goals(
    figures: Figures, goals: collections.abc.Iterable[Goal]
) -> None:
    """Print each goal, its figure, and whether it is met or missed."""
    table(
        ('Goal', 'Measured', ''),
        [
            (
                f'{goal.figure} {goal.op} {goal.value:g}',
                'not measured'
                if figures.get(goal.figure) is None
                else f'{figures[goal.figure]:.4g}',
                'met' if goal.met(figures) else 'MISSED',
            )
            for goal in goals
        ],
    )


def write(
    path: str,
    benchmark: str,
    figures: Figures,
    goals: collections.abc.Iterable[Goal],
) -> None:
    """Write figures and goals to a JSON file, and when and how they came.

    The file is complete or not there.

    :param benchmark: the name of its script, without ``.py``.
    :param figures: {name: value}, None for what could not be measured. The
        lowest and highest of the runs of ``x`` are ``x_min`` and ``x_max``;
        the ends of its 95 % confidence interval ``x_low`` and ``x_high``.
    """
    content = {
        'benchmark': benchmark,
        'date': datetime.date.today().isoformat(),
        'command': _command(benchmark, sys.argv[1:]),
        **provenance.record(_catalogue.measured(benchmark)),
        'figures': figures,
        'goals': [
            {**goal._asdict(), 'met': goal.met(figures)} for goal in goals
        ],
    }
    partial = pathlib.Path(f'{path}.part')
    partial.write_text(json.dumps(content, indent=2) + '\n')
    partial.replace(path)


def _command(benchmark: str, words: collections.abc.Sequence[str]) -> str:
    """Return how to run a benchmark again, without ``--json FILE``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--json')
    _, others = parser.parse_known_args(words)
    return shlex.join(['tools/bench.sh', benchmark, *others])
