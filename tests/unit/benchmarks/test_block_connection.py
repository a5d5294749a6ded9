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
import itertools
from unittest import mock

import testtools

import block_connection as benchmark


def runs(*rates, cpu_us=5.0):
    return [benchmark.Run(rate, cpu_us / 1e6) for rate in rates]


class BlockConnectionTest(testtools.TestCase):
    def test_figures(self):
        """Each round has a ratio of its own, as the machine may change."""
        found = benchmark.figures_of(
            'rbps',
            {
                'file': runs(100, 50, 200),
                'device': runs(90, 50, 210, cpu_us=8.0),
            },
        )
        self.assertEqual(
            {
                'rbps_file': 100,
                'rbps_device': 90,
                'rbps_ratio': 1.0,
                'rbps_ratio_min': 0.9,
                'rbps_ratio_max': 1.05,
            },
            {k: v for k, v in found.items() if not k.endswith('us')},
        )
        self.assertAlmostEqual(5.0, found['rbps_file_cpu_us'])
        self.assertAlmostEqual(8.0, found['rbps_device_cpu_us'])

    def test_each_load_has_a_goal(self):
        figures = {}
        for load in benchmark.LOADS:
            figures |= benchmark.figures_of(
                load, {path: runs(100) for path in benchmark.PATHS}
            )
        self.assertTrue(all(goal.met(figures) for goal in benchmark.goals()))
        for goal in benchmark.goals():
            worse = figures | {goal.figure: 0.96}
            self.assertEqual(
                [goal],
                [one for one in benchmark.goals() if not one.met(worse)],
            )
        with contextlib.redirect_stdout(io.StringIO()) as output:
            benchmark.show(figures)
        self.assertIn('random writes, IOPS', output.getvalue())

    def test_time_of_processors(self):
        def busy(*fields):
            return benchmark.busy_s(f'cpu  {" ".join(map(str, fields))}\ncpu0')

        idle = (100, 0, 50, 1000, 70, 1, 2, 3, 4, 0)
        for position, counts in enumerate((1, 1, 1, 0, 0, 1, 1, 0, 0, 0)):
            later = list(idle)
            later[position] += 100
            self.assertAlmostEqual(
                counts * 100 / benchmark.os.sysconf('SC_CLK_TCK'),
                busy(*later) - busy(*idle),
            )

    def test_measure(self):
        """The rate is that of the load's unit; all requests share the time."""
        clock = itertools.count()
        result = benchmark.fio.Result(1e6, 50.0)
        with (
            mock.patch.object(benchmark.fio.Fio, 'measure') as measure,
            mock.patch.object(
                benchmark, 'busy_s', side_effect=lambda stat: next(clock)
            ),
        ):
            measure.return_value = result
            for name, rate in (('rbps', 1e6), ('rrandiops', 50.0)):
                load = benchmark.LOADS[name]
                found = benchmark.measure('/dev/null', 1, load, 8)
                self.assertEqual(rate, found.rate)
                self.assertAlmostEqual(1 / (50 * 10), found.cpu_s)
