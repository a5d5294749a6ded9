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


class TaskThroughputTest(testtools.TestCase):
    def test_figures(self):
        """A second before or after a task has none, one in it has 0."""
        figures = benchmark.evaluate(
            'bfq',
            [
                {'/dev/vdb': [[9.0, 5.0, 9.0], [0.0, 4.0, 0.0]]},
                {'/dev/vdb': [[9.0, 0.0, 9.0], [0.0, 8.0, 1.0]]},
            ],
        )
        for figure, value in (
            ('without_task1_mbps_1', 9.0),
            ('without_task2_mbps_1', None),
            ('without_task2_mbps_2', 4.0),
            ('without_task2_mbps_3', None),
            ('with_task1_mbps_2', 0.0),
            ('with_task2_mbps_3', 1.0),
        ):
            self.assertEqual(value, figures[f'bfq_{figure}'], figure)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            benchmark.show('bfq', figures | {'bfq_with_task1_mbps_5': 3.5})
        self.assertIn('3.5', output.getvalue())
