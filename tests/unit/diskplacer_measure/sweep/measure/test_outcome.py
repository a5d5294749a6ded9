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

import ddt
import testtools

from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import workload
from tests.unit.diskplacer_measure.sweep import samples

IDLE = {
    'user': 0.1, 'system': 0.1, 'idle': 0.8, 'iowait': 0.0, 'steal': 0.0,
}  # fmt: skip


def make_measured(**values):
    fields = {
        'began': 1000,
        'seconds': 5.0,
        'kib': (1000,),
        'ms': (2000,),
        'latency_us': 1000.0,
        'executing': 0.2,
        'switches': 100,
        'cpu': IDLE,
    }
    return workload.Measured(**{**fields, **values})


@ddt.ddt
class CombineTest(testtools.TestCase):
    repetition = plan.Repetition(samples.make_cell(2), 1)

    def combine(self, *machines, host=IDLE):
        return outcome.combine(self.repetition, machines, host)

    def test_one_machine(self):
        found = self.combine(make_measured(kib=(1000, 3000), ms=(2000, 4000)))
        self.assertEqual(
            (self.repetition.cell, 1), (found.cell, found.repetition)
        )
        self.assertEqual('1970-01-01T00:16:40+00:00', found.began)
        # all bytes, by the time of the last thread
        self.assertEqual(4.0, found.seconds)
        self.assertAlmostEqual(4000 * 1024 / 1e6 / 4, found.mbps)
        self.assertEqual((0.512, 0.768), found.rates)
        self.assertEqual(1.0, found.latency_ms)
        self.assertEqual((0.2, 0.8), (found.serving, found.waiting))
        self.assertEqual(25.0, found.context_switches)
        self.assertEqual('', found.problem)

    def test_several_machines(self):
        found = self.combine(
            make_measured(),
            make_measured(
                began=999,
                kib=(3000,),
                ms=(4000,),
                latency_us=5000.0,
                executing=0.4,
                switches=300,
                cpu={**IDLE, 'user': 0.3, 'idle': 0.6},
            ),
        )
        self.assertEqual('1970-01-01T00:16:39+00:00', found.began)
        self.assertEqual(4.0, found.seconds)
        self.assertEqual((0.512, 0.768), found.rates)
        # the mean of all requests
        self.assertAlmostEqual((1000 + 3 * 5000) / 4 / 1000, found.latency_ms)
        self.assertAlmostEqual(0.3, found.serving)
        self.assertEqual(100.0, found.context_switches)
        self.assertAlmostEqual(0.2, found.cpu['user'])
        self.assertAlmostEqual(0.7, found.cpu['idle'])

    @ddt.data(
        # idle, waiting for I/O, steal: the problem of the machine
        (0.06, 0.0, 0.0, ''),
        (0.0, 0.06, 0.0, ''),
        (0.04, 0.0, 0.0, outcome.CPU_BOUND),
        (0.02, 0.02, 0.0, outcome.CPU_BOUND),
        # what others take it cannot have
        (0.04, 0.0, 0.96, outcome.CPU_BOUND),
    )
    @ddt.unpack
    def test_bound_by_the_cpu(self, idle, iowait, steal, problem):
        busy = {
            'user': 1 - idle - iowait - steal,
            'system': 0.0,
            'idle': idle,
            'iowait': iowait,
            'steal': steal,
        }
        # one of several servers keeps the others waiting, too
        self.assertEqual(
            problem,
            self.combine(make_measured(cpu=busy), make_measured()).problem,
        )
        self.assertEqual(
            problem, self.combine(make_measured(), host=busy).problem
        )

    @ddt.data((0.96, outcome.CPU_BOUND), (0.94, ''))
    @ddt.unpack
    def test_threads_that_only_execute(self, executing, problem):
        """They are slow however many processors are idle."""
        found = self.combine(make_measured(executing=executing))
        self.assertEqual(problem, found.problem)

    def test_an_unknown_host(self):
        found = self.combine(make_measured(), host={})
        self.assertEqual('', found.problem)


class FailedTest(testtools.TestCase):
    def test_it_has_no_figures(self):
        repetition = plan.Repetition(samples.make_cell(), 2)
        found = outcome.failed(repetition, 60.9, 'late')
        self.assertEqual('1970-01-01T00:01:00+00:00', found.began)
        self.assertEqual(('late', 0.0, ()), (
            found.problem, found.mbps, found.rates,
        ))  # fmt: skip

    def test_what_is_repeated(self):
        for problem, final in (
            ('', True),
            (outcome.CPU_BOUND, True),
            ('a server came to the cell too late', False),
        ):
            result = samples.make_result(samples.make_cell(), problem=problem)
            self.assertEqual(final, outcome.is_final(result))
