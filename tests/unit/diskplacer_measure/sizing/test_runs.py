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

import collections
import json
import random
import sys

import ddt
import testtools

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import runs
from diskplacer_measure.sizing import samples
from tests.unit.diskplacer_measure.sizing import test_counters
from tests.unit.diskplacer_measure.sizing import test_samples


class PlanTest(testtools.TestCase):
    def test_runs_by_themselves(self):
        self.assertEqual(
            3 * [runs.Run(None, '')],
            runs.plan(3, False, 1, random.Random(1)),
        )

    def test_blocks_have_both_in_random_order(self):
        firsts = collections.Counter()
        for seed in range(100):
            made = runs.plan(4, True, 5, random.Random(seed))
            self.assertEqual(
                [5, 5, 6, 6, 7, 7, 8, 8], [run.block for run in made]
            )
            for pair in zip(made[::2], made[1::2], strict=True):
                kinds = [run.vcpus_are for run in pair]
                self.assertEqual(['floating', 'pinned'], sorted(kinds))
                firsts[kinds[0]] += 1
        # 400 blocks: 4.5 standard deviations
        self.assertAlmostEqual(200, firsts['pinned'], delta=45)

    def test_next_block(self):
        self.assertEqual(1, runs.next_block([]))
        self.assertEqual(1, runs.next_block([test_samples.sample()]))
        made = [test_samples.sample(block=block) for block in (4, 7, None, 2)]
        self.assertEqual(8, runs.next_block(made))


class MakeTest(testtools.TestCase):
    def test_readings_are_taken_around_the_load(self):
        calls = []

        def read():
            calls.append('read')
            return test_counters.reading(5 * len(calls))

        def load():
            calls.append('load')
            return runs.Done(2.5, {'workload': 'a'})

        found = runs.make(runs.Run(3, samples.PINNED), load, read)
        self.assertEqual(['read', 'load', 'read'], calls)
        self.assertEqual(10, found.counters['migrations'])
        self.assertEqual(
            (2.5, 3, 'pinned', {'workload': 'a'}, 2),
            (
                found.seconds, found.block, found.vcpus_are, found.load,
                found.vcpus,
            ),
        )  # fmt: skip
        self.assertIn('major_faults', found.missing)


@ddt.ddt
class ExecuteTest(testtools.TestCase):
    def execute(self, code):
        return runs.execute([sys.executable, '-c', code])

    def test_a_command(self):
        done = self.execute('import time; time.sleep(0.2)')
        self.assertEqual({}, done.about)
        self.assertGreaterEqual(done.seconds, 0.2)

    def test_a_command_that_tells_its_running_time(self):
        done = self.execute('print(\'{"seconds": 3.5, "workload": "b"}\')')
        self.assertEqual(
            runs.Done(3.5, {'seconds': 3.5, 'workload': 'b'}), done
        )

    @ddt.data(
        '', 'hello', '[1]', '7', '{"a": 1}', '{"seconds": "x"}',
        '{"seconds": 0}', '{"seconds": true}', '{"seconds": null}',
        '{"seconds": 3, "rate": NaN}', '{"seconds": 1e999}',
    )  # fmt: skip
    def test_other_output(self, text):
        self.assertEqual(runs.Done(1.25, {}), runs.parse(text, 1.25))

    def test_indented_output(self):
        about = {'seconds': 4, 'latencies': {'read': 1}}
        self.assertEqual(
            runs.Done(4.0, about), runs.parse(json.dumps(about, indent=2), 9)
        )

    def test_a_command_that_fails(self):
        error = self.assertRaises(
            errors.SizingError, self.execute, 'raise SystemExit(3)'
        )
        self.assertIn('ended with 3', str(error))

    def test_no_such_command(self):
        error = self.assertRaises(
            errors.SizingError, runs.execute, ['/missing/load', '-x']
        )
        self.assertEqual(
            '/missing/load: No such file or directory', str(error)
        )
