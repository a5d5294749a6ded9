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

import contextlib
import io

import testtools

import task_sizes as benchmark

WITHOUT = [90.0, 6.0, 3.0, 1.2, 0.6, 0.2]
WITH = [90.0, 3.0, 2.0, 0.6, 0.3, 0.1]


def figures(cgroups=WITH, guests=WITH, runs=5):
    """Return the figures of runs that are all the same."""
    found = {}
    for reader, with_ in zip(
        benchmark.READERS, (cgroups, guests), strict=True
    ):
        found |= benchmark.evaluate(
            f'bfq_{reader}', ([WITHOUT] * runs, [with_] * runs)
        )
    return found | benchmark.compared('bfq', found)


class TaskSizesTest(testtools.TestCase):
    def test_there_is_a_time_for_each_size(self):
        self.assertEqual(len(benchmark.SIZES_MB) + 1, len(WITH))
        benchmark.check(WITH)

    def test_tasks_that_meet_are_no_result(self):
        for task, seconds in ((1, benchmark.LAG_S + 1), (0, 60.0)):
            wrong = WITH.copy()
            wrong[task] = seconds
            self.assertRaises(ValueError, benchmark.check, wrong)

    def test_changes_are_those_of_pairs(self):
        """A machine that is slow in one run is slow in both halves of it."""
        slow = [[2 * one for one in arm] for arm in (WITHOUT, WITH)]
        found = benchmark.evaluate(
            'bfq_cgroups', ([WITHOUT, slow[0]], [WITH, slow[1]])
        )
        for end in ('', '_min', '_max'):
            self.assertEqual(-50.0, found[f'bfq_cgroups_500_change{end}'])
        self.assertEqual(9.0, found['bfq_cgroups_500_without_s'])

    def test_goals(self):
        met = figures()
        self.assertEqual(1.0, met['bfq_12_kept'])
        missed = figures(guests=WITHOUT)
        nothing = figures(cgroups=WITHOUT)
        self.assertIsNone(nothing['bfq_12_kept'])
        for goal in benchmark.goals('bfq'):
            self.assertTrue(goal.met(met))
            self.assertFalse(goal.met(missed))
            self.assertFalse(goal.met(nothing))

    def test_show(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            benchmark.show('bfq', figures())
        self.assertIn('| 500 MB, guests', output.getvalue())
        self.assertIn('-50.0 (-50.0 to -50.0)', output.getvalue())
