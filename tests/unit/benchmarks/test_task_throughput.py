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

import _task_throughput_guest as guest
import task_throughput as benchmark


class RatesTest(testtools.TestCase):
    def test_rates_are_those_between_samples(self):
        samples = [
            (0.0, [7, 0]),
            (1.0, [7, 0]),
            (2.0, [2_000_007, 0]),
            (4.0, [4_000_007, 6_000_000]),
            (5.0, [4_000_007, 6_000_000]),
        ]
        self.assertEqual([[2.0, 1.0], [0.0, 3.0]], guest.rates(samples))

    def test_nobody_has_read(self):
        self.assertEqual([], guest.rates([(0.0, [1]), (1.0, [1])]))


# The second task reads in the seconds 6 to 29, and in parts of 5 and 30.
ALONE = [0.0] * 5
EQUAL = [
    [20.0] * 5 + [10.0] * 26 + [20.0] * 19,
    ALONE + [1.0] + [10.0] * 24 + [1.0] + [0.0] * 19,
]
WEIGHED = [
    [20.0] * 5 + [5.0] * 13 + [10.0] * 13 + [18.0] * 19,
    ALONE + [1.0] + [15.0] * 12 + [10.0] * 12 + [1.0] + [0.0] * 19,
]


class TaskThroughputTest(testtools.TestCase):
    def test_summary(self):
        """Seconds that a task does not read in all the time do not count."""
        found = benchmark.summary(EQUAL, WEIGHED)
        for figure, value in (
            ('without_fairness', 1.0),
            # 0.8 is the index of 5 and 15
            ('with_fairness', 0.9),
            ('without_at_first', 1.0),
            ('with_at_first', 1 / 3),
            ('with_later', 1.0),
            ('alone_again', 0.9),
        ):
            self.assertAlmostEqual(value, found[figure], msg=figure)

    def test_figures(self):
        """A second before or after a task has none, one in it has 0."""
        weighed = [WEIGHED[0], [*WEIGHED[1]]]
        weighed[1][8] = 0.0
        figures = benchmark.evaluate('bfq', [(EQUAL, weighed)] * 2)
        for figure, value in (
            ('with_task1_mbps_1', 20.0),
            ('with_task2_mbps_5', None),
            ('with_task2_mbps_6', 1.0),
            ('with_task2_mbps_9', 0.0),
            ('with_task2_mbps_31', 1.0),
            ('with_task2_mbps_32', None),
            ('without_fairness_max', 1.0),
        ):
            self.assertEqual(value, figures[f'bfq_{figure}'], figure)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            benchmark.show('bfq', figures)
        self.assertIn('0.90 (0.90 to 0.90)', output.getvalue())
