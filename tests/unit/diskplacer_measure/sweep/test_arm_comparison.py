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

import testtools

from diskplacer_measure.sweep import arm_comparison
from tests.unit.diskplacer_measure.sweep import example

READ = example.bare(operation='read', jobs=1)
WRITE = example.bare(operation='write', jobs=16)


class ScoresTest(testtools.TestCase):
    def test_each_load_counts_the_same(self):
        scores = arm_comparison.scores(
            [
                {'none': [100, 400], 'bfq': [50, 50]},
                {'none': [1, 1], 'bfq': [2, 8]},
            ]
        )
        self.assertEqual([10, 20], [round(one, 9) for one in scores['none']])
        self.assertEqual([10, 20], [round(one, 9) for one in scores['bfq']])


class JudgeTest(testtools.TestCase):
    def test_best(self):
        found = arm_comparison.judge(
            'none', {'none': [10, 11], 'bfq': [5, 6], 'kyber': [9, 9]}
        )
        self.assertTrue(found.was_best)
        self.assertEqual('yes', found.text)
        self.assertEqual(('none', 'bfq'), (found.best, found.worst))
        self.assertEqual((1, 1, 1), (found.ratio, found.low, found.high))
        self.assertAlmostEqual((0.5 * 6 / 11) ** 0.5, found.lowest)

    def test_behind(self):
        found = arm_comparison.judge(
            'bfq', {'none': [10, 11, 12], 'bfq': [9, 9.9, 10.8]}
        )
        self.assertFalse(found.was_best)
        self.assertEqual('NO', found.text)
        self.assertAlmostEqual(0.9, found.ratio)
        self.assertAlmostEqual(0.9, found.high)

    def test_behind_by_chance(self):
        found = arm_comparison.judge(
            'bfq', {'none': [10, 11, 12], 'bfq': [9.5, 11.5, 11]}
        )
        self.assertLess(found.ratio, 1)
        self.assertGreater(found.high, 1)
        self.assertTrue(found.was_best)
        self.assertEqual('not told apart', found.text)

    def test_behind_by_nothing_that_counts(self):
        values = {'none': [100, 100, 100], 'bfq': [99.2, 99.2, 99.2]}
        self.assertTrue(arm_comparison.judge('bfq', values).was_best)
        values['bfq'] = [98.8, 98.8, 98.8]
        self.assertFalse(arm_comparison.judge('bfq', values).was_best)


class PreferredTest(testtools.TestCase):
    def test_first_that_was_measured(self):
        for wanted, expected in (
            (('bfq', 'none'), 'none'),
            (('none', 'kyber'), 'none'),
            (('bfq',), None),
            ((), None),
        ):
            self.assertEqual(
                expected, arm_comparison.preferred(wanted, ('kyber', 'none'))
            )


class WorkloadTest(testtools.TestCase):
    def test_loads_like_it(self):
        loads = [READ, WRITE, example.bare(engine='sync_cached', jobs=16)]
        self.assertEqual(
            [READ, WRITE], arm_comparison.Workload(('async',)).of(loads)
        )
        self.assertEqual(
            [WRITE], arm_comparison.Workload(('async',), jobs=2).of(loads)
        )
