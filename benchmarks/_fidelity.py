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

"""What the papers state, beside what was measured here.

Each file of ``benchmarks/fidelity`` has the claims and the items of a paper,
as ``schema.yaml`` there describes. A claim names figures of a result and has
no figure of ours itself, so that none can be other than measured.
"""

import dataclasses
import pathlib
import re
import typing

import jsonschema
import yaml

import _report
import _results
from nova_diskplacer import json_schema
from nova_diskplacer.profiles import catalogue

TABLES = pathlib.Path(__file__).with_name('fidelity')

REPRODUCED = 'reproduced'
REFUTED = 'refuted'
NOT_TOLD_APART = 'not told apart'
NOT_MEASURED = 'not measured'
NOT_MEASURABLE = 'not measurable here'
#: The verdicts on claims.
VERDICTS = (
    REPRODUCED,
    REFUTED,
    NOT_TOLD_APART,
    NOT_MEASURED,
    NOT_MEASURABLE,
)

IMPLEMENTED = 'implemented'
PARTLY = 'partly'
NOT_IMPLEMENTED = 'not implemented'
#: What became of items.
STATES = (IMPLEMENTED, PARTLY, NOT_IMPLEMENTED)

# A figure, or one divided by another or less another, and its unit.
_OURS = re.compile(r'(\S+(?: [/-] \S+)?)(?: ([^/ -]\S*))?')
_RULE = re.compile(r'(.+) (<=|>=) (\S+)')


class Ours(typing.NamedTuple):
    """A figure of a result that answers a claim."""

    label: str
    name: str
    unit: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """A figure of a paper, or what it found of how figures compare.

    Either ``result`` is the name of the result that answers it, or one of
    ``not_measured`` and ``not_measurable`` says why none does. ``beside`` is
    another result with the same figures, from other disks.
    """

    place: str
    claim: str
    theirs: str
    command: str | None = None
    result: str | None = None
    ours: tuple[Ours, ...] = ()
    reproduced_if: tuple[_report.Goal, ...] = ()
    note: str | None = None
    beside: str | None = None
    not_measured: str | None = None
    not_measurable: str | None = None

    def values(self, results: _results.Results) -> dict[Ours, _results.Value]:
        """Return our figures, without those that were not measured."""
        if self.result not in results:
            return {}
        found = {
            ours: results[self.result].value(ours.name) for ours in self.ours
        }
        return {ours: value for ours, value in found.items() if value}

    def other(self) -> 'Claim | None':
        """Return the claim with the result beside, if there is one."""
        if self.beside is None:
            return None
        return dataclasses.replace(self, result=self.beside, beside=None)

    def verdict(self, results: _results.Results) -> str:
        """Return one of VERDICTS.

        A claim is refuted if all of the interval of a figure is beyond a
        limit, and reproduced if no interval has a part that is.
        """
        if self.not_measurable:
            return NOT_MEASURABLE
        values = {
            ours.name: value for ours, value in self.values(results).items()
        }
        found = [
            values[goal.figure].meets(goal) if goal.figure in values else ...
            for goal in self.reproduced_if
        ]
        if False in found:
            return REFUTED
        if not found or ... in found:
            return NOT_MEASURED
        return NOT_TOLD_APART if None in found else REPRODUCED


@dataclasses.dataclass(frozen=True)
class Item:
    """A method or a part of a paper, which has no figure to compare.

    ``where`` are the files that have it. If it is there in part, ``partly``
    says what is not; if ``where`` is empty, ``missing`` says why.
    """

    place: str
    item: str
    where: tuple[str, ...] = ()
    partly: str | None = None
    missing: str | None = None
    command: str | None = None

    @property
    def state(self) -> str:
        """One of STATES."""
        if self.missing:
            return NOT_IMPLEMENTED
        return PARTLY if self.partly else IMPLEMENTED


class Paper(typing.NamedTuple):
    """The table of a paper."""

    claims: tuple[Claim, ...]
    items: tuple[Item, ...]


def read(directory: pathlib.Path = TABLES) -> dict[str, Paper]:
    """Return the tables by the names of their papers.

    :raises ValueError: a table is not as it has to be; says where.
    """
    schema = yaml.safe_load((TABLES / 'schema.yaml').read_text())
    validator = jsonschema.Draft202012Validator(schema)
    papers = {}
    for name in sorted(catalogue.PAPERS):
        path = directory / f'{name}.yaml'
        data = yaml.safe_load(path.read_text())
        problem = json_schema.problem(data, validator)
        if problem:
            raise ValueError(f'{path.name}: {problem}')
        try:
            papers[name] = Paper(
                tuple(_claim(row) for row in data['claims']),
                tuple(
                    Item(**row | {'where': tuple(row.get('where', ()))})
                    for row in data['items']
                ),
            )
        except ValueError as error:
            raise ValueError(f'{path.name}: {error}') from error
    return papers


def _claim(row: dict[str, typing.Any]) -> Claim:
    ours = []
    for label, text in row.get('ours', {}).items():
        name, unit = parse_ours(text)
        ours.append(Ours(label, name, unit))
    goals = tuple(_rule(text) for text in row.get('reproduced_if', ()))
    unknown = {goal.figure for goal in goals} - {one.name for one in ours}
    if unknown:
        raise ValueError(
            f'{row["place"]}: reproduced_if names {", ".join(sorted(unknown))}'
            ', which ours has not'
        )
    return Claim(**row | {'ours': tuple(ours), 'reproduced_if': goals})


def parse_ours(text: str) -> tuple[str, str]:
    """Return the name of a figure and its unit of ``NAME [/ NAME] [UNIT]``.

    ``-`` may stand for ``/``.

    :raises ValueError: the text is not like that.
    """
    match = _OURS.fullmatch(text)
    if not match:
        raise ValueError(f'{text}: must be NAME [/ NAME] or [- NAME] [UNIT]')
    return match[1], match[2] or ''


def _rule(text: str) -> _report.Goal:
    match = _RULE.fullmatch(text)
    if not match:
        raise ValueError(f'{text}: must be NAME [/ NAME] <= or >= NUMBER')
    return _report.Goal(match[1], match[2], float(match[3]))
