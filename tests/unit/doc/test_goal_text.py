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


import dataclasses

import testtools

import _report
import goal_text
from tests.unit.benchmarks.test_results import result

ONE = dataclasses.replace(
    result(nothing=None),
    goals=(
        _report.Goal('rate', '>=', 9),
        _report.Goal('rate', '<=', 11),
        _report.Goal('plain', '>=', 2.5),
        _report.Goal('nothing', '==', 0),
    ),
)


class GoalTextTest(testtools.TestCase):
    def test_rows(self):
        _, met, _, missed, nothing = goal_text.rows(ONE)
        self.assertEqual(['``rate``', '>= 9', '10 (8 to 12.5)', 'met'], met)
        self.assertEqual(['2', '**missed**'], missed[2:])
        self.assertEqual(['not measured', ''], nothing[2:])

    def test_state(self):
        for text, state in (
            ('one rate', 'met'),
            ('one\n plain', 'missed'),
            ('one nothing', 'not measured'),
            ('two rate', 'not measured'),
        ):
            self.assertEqual(state, goal_text.state({'one': ONE}, text))

    def test_goals_of_contention_are_those_of_today(self):
        old = dataclasses.replace(
            result(
                bfq_task1_s_change=1.5,
                bfq_task1_s_change_min=1.0,
                bfq_task1_s_change_max=2.5,
                bfq_aggregate_mbps_change=0.1,
                bfq_aggregate_mbps_change_min=-0.6,
            ),
            benchmark='contention',
            goals=(
                _report.Goal('bfq_task1_s_change', '<=', 1.0),
                _report.Goal('bfq_aggregate_mbps_change', '>=', -0.5),
            ),
        )
        found = {row[0]: row[1:] for row in goal_text.rows(old)}
        self.assertEqual(
            ['<= 2', '1.5 (1 to 2.5)', 'met'], found['``bfq_task1_s_change``']
        )
        self.assertEqual(
            ['>= -0.5', '-0.6', '**missed**'],
            found['``bfq_aggregate_mbps_change_min``'],
        )
        self.assertEqual(
            'missed',
            goal_text.state(
                {'contention': old}, 'contention bfq_aggregate_mbps_change_min'
            ),
        )

    def test_no_goal(self):
        error = self.assertRaises(
            ValueError, goal_text.state, {'one': ONE}, 'one times'
        )
        self.assertEqual('one.json has no goal for times', str(error))
