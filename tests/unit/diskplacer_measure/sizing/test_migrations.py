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

import random

import ddt
import numpy
import testtools

from diskplacer_measure import stats
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import migrations
from tests.unit.diskplacer_measure.sizing import simulated

SEEDS = 200
BLOCKS = 10


def experiment(seed, cost, blocks=BLOCKS, pinned=0.02):
    """Return blocks of runs of P1's load with 2 GB of data.

    Migrations come at the rate that P1 publishes, and a fiftieth of it with
    pinned vCPUs. Each takes ``cost`` seconds; all other time is as in
    ``simulated``, and the blocks differ as its workloads do.
    """
    source = numpy.random.default_rng(seed)
    data = simulated.PUBLISHED['2 GB']
    found = []
    for _ in range(blocks):
        common = data.seconds * source.uniform(0.7, 1.3)
        row = []
        for part in (pinned, 1):
            other = common * (1 + 0.05 * source.normal())
            rate = part * (1 + 0.1 * source.normal()) / data.migration
            # the rate is that of the time that migrations make longer
            seconds = other / (1 - rate * cost)
            row.append((seconds, rate * seconds))
        (one, few), (other, many) = row
        found.append(migrations.Block(one, other, few, many))
    return found


@ddt.ddt
class CostTest(testtools.TestCase):
    def test_known(self):
        # differences in time 1, 2, 3, in migrations 10, 10, 10
        found = migrations.cost(
            [migrations.Block(5, 5 + more, 1, 11) for more in (1, 2, 3)]
        )
        self.assertEqual(3, found.blocks)
        self.assertAlmostEqual(2, found.seconds.value)
        self.assertAlmostEqual(0.2, found.each.value)
        # t 4.303 of 2 degrees, error 1/sqrt(3)
        self.assertAlmostEqual(2 + 4.303 / 3**0.5, found.seconds.high, 3)
        # 9.925 of 99 %
        self.assertAlmostEqual(2 - 9.925 / 3**0.5, found.seconds_99.low, 3)
        self.assertAlmostEqual(0.2 - 0.4303 / 3**0.5, found.each.low, 4)
        self.assertAlmostEqual(0.2 + 0.4303 / 3**0.5, found.each.high, 4)
        self.assertEqual(migrations.NO_EFFECT, found.verdict)

    def test_migrations_that_cost_nothing(self):
        """The null: a regression would find 75 % of an operation."""
        found = [
            migrations.cost(experiment(seed, 0)).verdict
            for seed in range(SEEDS)
        ]
        self.assertGreaterEqual(
            found.count(migrations.NO_EFFECT), 0.95 * SEEDS
        )

    @ddt.data(1e-4, 4e-4)
    def test_planted(self, planted):
        """Of 200 intervals of 95 %, 91 to 99 % hold the truth.

        Others do in less than 1.5 % of all cases (binomial distribution).
        """
        held = told = 0
        for seed in range(SEEDS):
            found = migrations.cost(experiment(seed, planted))
            held += found.each.low <= planted <= found.each.high
            told += found.verdict == migrations.COSTS
        self.assertTrue(0.91 * SEEDS <= held <= 0.99 * SEEDS, held)
        self.assertGreater(told, 0.9 * SEEDS)

    def test_pinning_that_slows_down(self):
        """vCPUs that would have found an idle CPU elsewhere."""
        swapped = [
            migrations.Block(
                one.floating_seconds,
                one.pinned_seconds,
                one.pinned_migrations,
                one.floating_migrations,
            )
            for one in experiment(1, 4e-4)
        ]
        found = migrations.cost(swapped)
        self.assertEqual(migrations.SAVES, found.verdict)
        self.assertLess(found.each.high, 0)

    def test_migrations_that_pinning_does_not_change(self):
        blocks = [migrations.Block(5, 9, 10, 10 + n) for n in (-1, 1, 0, 0)]
        found = migrations.cost(blocks)
        self.assertEqual(migrations.NOT_TOLD_APART, found.verdict)
        self.assertIsNone(found.each)

    def test_too_few(self):
        error = self.assertRaises(
            errors.SizingError, migrations.cost, experiment(1, 0, blocks=2)
        )
        self.assertIn('2 blocks', str(error))
        self.assertIn('at least 3', str(error))


class FiellerTest(testtools.TestCase):
    def test_holds_the_truth_as_often_as_it_says(self):
        source = random.Random(7)
        held = 0
        for _ in range(2000):
            pairs = []
            for _ in range(6):
                common = source.gauss(0, 1)
                pairs.append(
                    (
                        6 + common + source.gauss(0, 1),
                        12 + common + source.gauss(0, 2),
                    )
                )
            low, high = migrations.fieller(*zip(*pairs, strict=True))
            held += low <= 0.5 <= high
        self.assertAlmostEqual(0.95, held / 2000, delta=0.015)

    def test_a_divisor_without_spread(self):
        values = [1.0, 2, 3, 4]
        low, high = migrations.fieller(values, [2, 2, 2, 2])
        found = stats.interval(values)
        self.assertAlmostEqual(found.low / 2, low)
        self.assertAlmostEqual(found.high / 2, high)

    def test_a_divisor_that_may_be_0(self):
        self.assertRaises(
            ValueError, migrations.fieller, [1, 2, 3], [-1, 1, 0.5]
        )
