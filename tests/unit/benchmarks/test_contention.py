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

import _contention_goals
import _contention_setup as setup
import contention

# at 10 MB/s in all
SIZES = [600 * setup.MB, 200 * setup.MB]
SIZES += [50 * setup.MB, 25 * setup.MB]


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
            setup.scaled(contention.SIZES_MB, mbps),
            strict=True,
        ):
            self.assertEqual(0, found % setup.MIB)
            self.assertAlmostEqual(
                size / setup.PAPER_MBPS,
                found / setup.MB / mbps,
                delta=setup.MIB / setup.MB / mbps,
            )

    def test_never_nothing(self):
        self.assertEqual([setup.MIB], setup.scaled([1], 1))


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
        goals = _contention_goals.goals('bfq', found)
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
        self.assertAlmostEqual(10 / 1.02, found['bfq_aggregate_mbps_without'])
        self.assertAlmostEqual(2, found['bfq_aggregate_mbps_change'])
        self.assertAlmostEqual(-100 / 26, found['bfq_task1_s_change_min'])
        self.assertAlmostEqual(0, found['bfq_task1_s_change_max'])

    def test_what_is_lost(self):
        lost = [one * 1.006 for one in BASE]
        kept = [one * 1.004 for one in BASE]
        # the lowest of all runs
        for runs, met in ((5 * [kept], True), ([*4 * [kept], lost], False)):
            _, found = self.evaluate(*((BASE, run) for run in runs))
            self.assertEqual(met, found['bfq_aggregate_mbps_change_min'])

    def test_long_tasks_may_be_2_percent_later(self):
        for later, met in ((1.019, True), (1.021, False)):
            late = [one * later for one in BASE]
            # however much the runs without the agent differ
            noisy = [one * 1.2 * later for one in BASE]
            _, found = self.evaluate(
                (BASE, late),
                (BASE, late),
                ([1.2 * one for one in BASE], noisy),
            )
            for task in (1, 2):
                self.assertEqual(met, found[f'bfq_task{task}_s_change'])

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
    def run_of(self, latency_ms=12.0, p99_ms=40.0, scan_mbps=85.0):
        alone = {'mbps': 3.0, 'latency_ms': 10.0, 'p99_ms': 16.0}
        return {
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

    def met(self, prefer, *runs):
        figures = contention.evaluate_steady('bfq', runs)
        figures |= contention.evaluate('bfq', times((BASE, BASE)), SIZES)
        return {
            goal.figure.removeprefix('bfq_steady_'): goal.met(figures)
            for goal in _contention_goals.goals('bfq', figures, prefer)
            if 'steady' in goal.figure
        }

    def test_goals(self):
        harmless = dict.fromkeys(
            ('kept', 'latency_ms_ratio', 'p99_ms_ratio')
            + ('latency_ms_ratio_max', 'p99_ms_ratio_max'),
            True,
        )
        for prefer, figure, met in (
            ('balanced', 'sum_lost', True),
            ('throughput', 'sum_lost', False),
            ('latency', 'slower', True),
        ):
            found = self.met(prefer, self.run_of(), self.run_of())
            self.assertEqual(harmless | {figure: met}, found)

    def test_harm(self):
        for figure, some, one, other in (
            ('latency_ms', 29.0, 31.0, 32.0),
            ('p99_ms', 59.0, 62.0, 64.0),
        ):
            good = self.run_of(**{figure: some})
            within, beyond = (
                self.run_of(**{figure: value}) for value in (one, other)
            )
            for runs, ratio, most in (
                ([good, good, within], True, True),
                ([good, good, beyond], True, False),
                ([good, within, within], False, True),
            ):
                found = self.met('balanced', *runs)
                self.assertEqual(ratio, found[f'{figure}_ratio'])
                self.assertEqual(most, found[f'{figure}_ratio_max'])
        lost = self.run_of(scan_mbps=76.0)
        self.assertFalse(self.met('balanced', lost)['sum_lost'])
        slow = self.run_of(latency_ms=21.0)
        self.assertFalse(self.met('latency', slow)['slower'])

    def test_one_run_has_no_highest(self):
        found = contention.evaluate_steady('bfq', [self.run_of()])
        self.assertNotIn('bfq_steady_latency_ms_ratio_max', found)
        self.assertFalse(
            self.met('balanced', self.run_of())['latency_ms_ratio_max']
        )

    def test_medians_are_shown(self):
        runs = [self.run_of(latency_ms=value) for value in (11.0, 13.0, 19.0)]
        found = contention.evaluate_steady('bfq', runs)
        self.assertEqual(11.0, found['bfq_steady_with_latency_ms_min'])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            contention.show_steady('bfq', found)
        rows = [line.split('|') for line in printed.getvalue().splitlines()]
        (row,) = (
            row for row in rows if row[1:] and ' with the agent' in row[1]
        )
        self.assertEqual('13.00', row[3].strip())


class JudgedTest(testtools.TestCase):
    """A result of before its goals."""

    def test_figures_that_follow(self):
        run = EvaluateSteadyTest.run_of(None)
        old = contention.evaluate('bfq', times((BASE, BASE)), SIZES)
        old |= contention.evaluate_steady('bfq', [run])
        new = dict(old)
        for figure in ('latency_ms_ratio', 'p99_ms_ratio', 'sum_lost'):
            del old[f'bfq_steady_{figure}']
        figures, goals = _contention_goals.judged(old, '--runs 3')
        self.assertEqual(new, figures)
        self.assertEqual([*_contention_goals.goals('bfq', new)], [*goals])
        _, goals = _contention_goals.judged(old, '--prefer latency --runs 3')
        self.assertIn('bfq_steady_slower', {goal.figure for goal in goals})

    def test_a_part_has_its_own_goals(self):
        run = EvaluateSteadyTest.run_of(None)
        found = contention.evaluate_steady('bfq', [run])
        _, goals = _contention_goals.judged(found, '--part steady')
        self.assertEqual(6, len(goals))
        self.assertTrue(all('steady' in goal.figure for goal in goals))

    def test_guests_have_no_steady_server(self):
        old = contention.evaluate('bfq', times((BASE, BASE)), SIZES)
        figures, goals = _contention_goals.judged(old, '--guests')
        self.assertEqual(old, figures)
        self.assertEqual(5, len(goals))
