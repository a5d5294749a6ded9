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

"""Choices and models as tables for people, and as data."""

import dataclasses
import typing

from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import model

#: Columns and rows.
Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


def title(choice: choose.Choice) -> str:
    """Return the title of a choice, with the number of loads."""
    number = len(choice.loads)
    return (
        f'{choice.workload}, {choose.OBJECTIVES[choice.objective]}: {number} '
        f'load{"s" if number != 1 else ""}'
    )


def table(choice: choose.Choice) -> Table:
    """Return the candidates, the highest first."""
    candidates = [row.candidate for row in choice.compared]
    return ('Servers', 'MB/s', 'Of the highest', 'From', 'To', 'Best'), [
        (
            choose.text(row.candidate, candidates),
            f'{row.mbps:.1f}',
            f'{row.ratio:.3f}',
            f'{row.low:.3f}',
            f'{row.high:.3f}',
            'no' if row.excluded else 'not told apart' if place else 'highest',
        )
        for place, row in enumerate(choice.compared)
    ]


def conclusion(choice: choose.Choice) -> str:
    """Return the result of a choice, in a sentence or two."""
    candidates = [row.candidate for row in choice.compared]
    if not candidates:
        return 'Not measured: no two candidates have a load in common.'
    if not choice.claims_optimum:
        text = 'No optimum is told: no candidate is shown to be worse.'
    elif len(choice.chosen) == 1:
        text = f'The best: {choose.text(candidates[0], candidates)}.'
    else:
        text = (
            f'{len(choice.chosen)} of {len(candidates)} candidates are not '
            'told apart from the best.'
        )
    if choice.left_out:
        text += (
            f' {len(choice.left_out)} were left out, without enough results '
            'under the same loads.'
        )
    return text


def model_title(fitted: model.Model) -> str:
    """Return the quality of a model, in a few sentences."""
    text = (
        f'Model of the logarithm of MB/s: R² {fitted.r_squared:.2f} over '
        f'{fitted.shapes} shapes. It is off by {fitted.error:.1f} % at a '
        f'shape that it was not fitted to, the mean of the others by '
        f'{fitted.mean_error:.1f} %.'
    )
    if fitted.is_worse_than_mean:
        text += ' It is no better than the mean: do not rely on it.'
    if fitted.without:
        text += (
            ' The shapes do not tell these terms: '
            f'{", ".join(fitted.without)}.'
        )
    return text


def model_table(fitted: model.Model) -> Table:
    """Return the terms of a model."""
    return ('Term', 'Coefficient', 'From', 'To'), [
        (
            term.name,
            *(f'{end:.3f}' for end in (term.value, term.low, term.high)),
        )
        for term in fitted.terms
    ]


def data(
    choice: choose.Choice, fitted: model.Model | None
) -> dict[str, typing.Any]:
    """Return a choice and its model as JSON has them."""
    return {
        'workload': choice.workload,
        'objective': choice.objective,
        'loads': [load._asdict() for load in choice.loads],
        'claims_optimum': choice.claims_optimum,
        'candidates': [
            {**dataclasses.asdict(score), 'excluded': score.excluded}
            for score in choice.compared
        ],
        'left_out': [
            dataclasses.asdict(candidate) for candidate in choice.left_out
        ],
        'model': fitted
        and {
            **dataclasses.asdict(fitted),
            'worse_than_mean': fitted.is_worse_than_mean,
        },
    }
