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


"""Which goals of benchmarks the results meet, as reStructuredText."""

import dataclasses

import _contention_goals
import _fidelity
import _report
import _results

MET = 'met'
MISSED = 'missed'


def judged(result: _results.Result) -> _results.Result:
    """Return a result with the goals that its benchmark has today.

    Of contention they may be others than when it was measured, as may the
    figures that follow from what was.
    """
    if result.benchmark != 'contention':
        return result
    figures, goals = _contention_goals.judged(result.figures, result.command)
    return dataclasses.replace(result, figures=figures, goals=goals)


def rows(result: _results.Result) -> list[list[str]]:
    """Return what is measured of each goal, and whether it is met."""
    result = judged(result)
    found = [['Figure', 'Goal', 'Measured', '']]
    for goal in result.goals:
        value = result.value(goal.figure)
        measured = _fidelity.NOT_MEASURED
        if value is not None:
            measured = f'{value.value:.4g}'
            if value.low is not None and value.high is not None:
                measured += f' ({value.low:.4g} to {value.high:.4g})'
        state = _state(result, [goal])
        if state == MISSED:
            state = f'**{state}**'
        found.append(
            [f'``{goal.figure}``', f'{goal.op} {goal.value:g}', measured]
            + ['' if value is None else state]
        )
    return found


def state(results: _results.Results, text: str) -> str:
    """Return whether the goal is met that ``RESULT FIGURE`` names.

    :raises ValueError: the result has no goal for the figure.
    """
    name, _, figure = ' '.join(text.split()).partition(' ')
    if name not in results:
        return _fidelity.NOT_MEASURED
    result = judged(results[name])
    goals = [goal for goal in result.goals if goal.figure == figure]
    if not goals:
        raise ValueError(f'{name}.json has no goal for {figure}')
    return _state(result, goals)


def _state(result: _results.Result, goals: list[_report.Goal]) -> str:
    if any(result.figures.get(goal.figure) is None for goal in goals):
        return _fidelity.NOT_MEASURED
    met = all(goal.met(result.figures) for goal in goals)
    return MET if met else MISSED
