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


"""Directives ``placement-…``: results of the benchmark placement_quality.

``.. placement-scenario:: NAME`` shows all policies in a scenario,
``.. placement-loads:: LOAD...`` those by load, ``.. placement-others::`` other
fleets, ``.. placement-extremes::`` the worst of all these, and
``.. placement-holdout::`` mixes on which nothing was chosen.
"""

from sphinx.application import Sphinx

import fidelity
import fidelity_text
import placement_text

_RESULT = 'placement_quality'


class Placement(fidelity.Generated):
    """A table of the result."""

    def lines(self, papers, results):
        if _RESULT not in results:
            return ['No result is committed yet.', '']
        rows = self.rows(results[_RESULT])
        if len(rows) < 2:
            raise ValueError(f'{_RESULT}.json has no such figures')
        columns = len(rows[0]) - 1
        return fidelity_text.table([28, *[72 // columns] * columns], rows)

    def used(self, results):
        return [_RESULT]

    def rows(self, result):
        raise NotImplementedError


class Scenario(Placement):
    required_arguments = 1

    def rows(self, result):
        return placement_text.scenario_rows(result, self.arguments[0])


class Loads(Placement):
    required_arguments = 1
    final_argument_whitespace = True

    def rows(self, result):
        loads = [int(word) for word in self.arguments[0].split()]
        return placement_text.load_rows(result, loads)


class Others(Placement):
    def rows(self, result):
        return placement_text.other_rows(result)


class Extremes(Placement):
    def rows(self, result):
        return placement_text.extreme_rows(result)


class Holdout(Placement):
    def rows(self, result):
        return placement_text.holdout_rows(result)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive('placement-scenario', Scenario)
    app.add_directive('placement-loads', Loads)
    app.add_directive('placement-others', Others)
    app.add_directive('placement-extremes', Extremes)
    app.add_directive('placement-holdout', Holdout)
    return {'parallel_read_safe': True}
