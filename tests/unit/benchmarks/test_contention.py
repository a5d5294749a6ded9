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

import ddt
import testtools

import contention

# at 10 MB/s in all
SIZES = [600 * contention.MB, 200 * contention.MB]
SIZES += [50 * contention.MB, 25 * contention.MB]


def times(*runs):
    """Return times of runs: (without, with) the agent."""
    return contention.Times(*(list(arm) for arm in zip(*runs, strict=True)))


BASE = [87.5, 44.0, 12.0, 7.0]


@ddt.ddt
class ScaledTest(testtools.TestCase):
    @ddt.data(1, 20, 166, 1000)
    def test_takes_as_long_as_in_the_paper(self, mbps):
        for size, found in zip(
            contention.SIZES_MB,
            contention.scaled(contention.SIZES_MB, mbps),
            strict=True,
        ):
            self.assertEqual(0, found % contention.MIB)
            self.assertAlmostEqual(
                size / contention.PAPER_MBPS,
                found / contention.MB / mbps,
                delta=contention.MIB / contention.MB / mbps,
            )

    def test_never_nothing(self):
        self.assertEqual([contention.MIB], contention.scaled([1], 1))


class AggregateTest(testtools.TestCase):
    def test_known(self):
        self.assertAlmostEqual(10, contention.aggregate(SIZES, BASE))

    def test_the_first_ended_before_another(self):
        error = self.assertRaises(
            ValueError, contention.aggregate, SIZES, [20, 15.1, 3, 2]
        )
        self.assertIn('[20, 15.1, 3, 2]', str(error))
        # lags count
        contention.aggregate(SIZES, [20, 14.9, 3, 2])


class EvaluateTest(testtools.TestCase):
    def evaluate(self, *runs):
        found = contention.evaluate('bfq', times(*runs), SIZES)
        goals = contention.goals('bfq', found)
        return found, {goal.figure: goal.met(found) for goal in goals}

    def test_as_in_the_paper(self):
        found, met = self.evaluate(
            *(
                [[one[arm] for one in contention.PAPER] for arm in (0, 1)]
                for _ in range(5)
            )
        )
        for task, percent in enumerate((-1.3, -10.1, -42.7, -46.4), 1):
            self.assertAlmostEqual(
                percent, found[f'bfq_task{task}_s_change'], 1
            )
        # 42.7 % is not 43 %
        self.assertFalse(met.pop('bfq_task3_s_change'))
        self.assertEqual({True}, set(met.values()))

    def test_median_and_ends(self):
        slow = [one * 1.02 for one in BASE]
        slower = [one * 1.04 for one in BASE]
        found, _ = self.evaluate((BASE, BASE), (slower, BASE), (slow, BASE))
        self.assertEqual(slow[0], found['bfq_task1_s_without'])
        self.assertEqual(BASE[0], found['bfq_task1_s_without_min'])
        self.assertEqual(slower[0], found['bfq_task1_s_without_max'])
        self.assertAlmostEqual(4, found['bfq_task1_noise'])
        self.assertAlmostEqual(10 / 1.02, found['bfq_aggregate_mbps_without'])
        self.assertAlmostEqual(2, found['bfq_aggregate_mbps_change'])
        self.assertAlmostEqual(-100 / 26, found['bfq_task1_s_change_min'])
        self.assertAlmostEqual(0, found['bfq_task1_s_change_max'])

    def test_what_is_lost(self):
        lost = [one * 1.006 for one in BASE]
        _, met = self.evaluate((BASE, lost), (BASE, lost))
        self.assertEqual({False}, set(met.values()))
        kept = [one * 1.004 for one in BASE]
        _, met = self.evaluate((BASE, kept), (BASE, kept))
        self.assertTrue(met['bfq_aggregate_mbps_change'])
        self.assertTrue(met['bfq_task1_s_change'])
        self.assertTrue(met['bfq_task2_s_change'])

    def test_long_tasks_within_noise(self):
        noisy = [one * 1.03 for one in BASE]
        _, met = self.evaluate((BASE, noisy), (noisy, noisy))
        self.assertTrue(met['bfq_task1_s_change'])
        self.assertTrue(met['bfq_task2_s_change'])
        self.assertFalse(met['bfq_aggregate_mbps_change'])

    def test_shown_beside_the_paper(self):
        found, _ = self.evaluate((BASE, [87.5, 40, 6.0, 3.5]))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            contention.show('bfq', found)
        rows = [
            [cell.strip() for cell in line.split('|')[1:-1]]
            for line in printed.getvalue().splitlines()
            if line.startswith('|')
        ]
        self.assertEqual(
            ['Task 3, s', '12.4', '7.1', '-42.7', '12.00 (12.00 to 12.00)']
            + ['6.00 (6.00 to 6.00)', '-50.00'],
            rows[3],
        )


class EvaluateSteadyTest(testtools.TestCase):
    def met(self, prefer, latency_ms=12.0, p99_ms=40.0, scan_mbps=85.0):
        alone = {'mbps': 3.0, 'latency_ms': 10.0, 'p99_ms': 16.0}
        found = {
            'alone': {'steady': alone},
            'without': {
                'steady': {'mbps': 2.0, 'latency_ms': 30.0, 'p99_ms': 60.0},
                'scan': {'mbps': 98.0},
            },
            'with': {
                'steady': alone | {'latency_ms': latency_ms, 'p99_ms': p99_ms},
                'scan': {'mbps': scan_mbps},
            },
        }
        figures = contention.evaluate_steady('bfq', found)
        figures |= contention.evaluate('bfq', times((BASE, BASE)), SIZES)
        return {
            goal.figure.removeprefix('bfq_steady_'): goal.met(figures)
            for goal in contention.goals('bfq', figures, prefer)
            if 'steady' in goal.figure
        }

    def test_goals(self):
        harmless = {'kept': True, 'latency_ms_ratio': True} | {
            'p99_ms_ratio': True
        }
        self.assertEqual(harmless | {'sum_lost': True}, self.met('balanced'))
        self.assertEqual(
            harmless | {'sum_lost': False}, self.met('throughput')
        )
        self.assertEqual(harmless | {'slower': True}, self.met('latency'))

    def test_harm(self):
        for figure, value in (('latency_ms', 31.0), ('p99_ms', 62.0)):
            self.assertTrue(
                self.met('balanced', **{figure: value})[f'{figure}_ratio']
            )
        for figure, value in (('latency_ms', 32.0), ('p99_ms', 64.0)):
            self.assertFalse(
                self.met('balanced', **{figure: value})[f'{figure}_ratio']
            )
        self.assertFalse(self.met('balanced', scan_mbps=76.0)['sum_lost'])
        self.assertFalse(self.met('latency', latency_ms=21.0)['slower'])
