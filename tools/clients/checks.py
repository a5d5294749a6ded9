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


"""What clients are to do, and what came of it."""

import collections.abc
import dataclasses
import typing

AS_EXPECTED = 'as expected'
DIFFERENT = 'different'
NOT_RUN = 'not run'
OUTCOMES = (AS_EXPECTED, DIFFERENT, NOT_RUN)


class Step(typing.NamedTuple):
    """What a client is to do.

    ``find`` does it and returns what there is then, in the words of
    ``expected`` if it is as expected.
    """

    name: str
    expected: str
    find: collections.abc.Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Check:
    """What came of a step: ``found``, or why it was not run."""

    client: str
    name: str
    expected: str
    outcome: str
    found: str


def run(
    client: str, steps: collections.abc.Iterable[Step]
) -> collections.abc.Iterator[Check]:
    """Do steps, each of which needs those before it, and yield the checks."""
    reason = ''
    for step in steps:
        if reason:
            yield Check(client, step.name, step.expected, NOT_RUN, reason)
            continue
        check = _do(client, step)
        yield check
        if check.outcome != AS_EXPECTED:
            reason = f'"{step.name}" came out differently'


def not_run(
    client: str, steps: collections.abc.Iterable[Step], reason: str
) -> list[Check]:
    """Return the checks of steps that cannot be done."""
    return [
        Check(client, step.name, step.expected, NOT_RUN, reason)
        for step in steps
    ]


def _do(client: str, step: Step) -> Check:
    try:
        found = step.find()
    # a client may fail in any way, and the others go on
    except Exception as error:
        found = f'{error.__class__.__name__}: {error}'
    outcome = AS_EXPECTED if found == step.expected else DIFFERENT
    return Check(client, step.name, step.expected, outcome, found)
