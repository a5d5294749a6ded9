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

import math
import random

import ddt
import testtools

from diskplacer_measure import stats


@ddt.ddt
class StudentTTest(testtools.TestCase):
    # from the tables of Student's distribution, two-sided
    @ddt.data(
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 4, 2.776),
        (0.95, 9, 2.262),
        (0.95, 10, 2.228),
        (0.95, 29, 2.045),
        (0.95, 30, 2.042),
        (0.95, 120, 1.980),
        (0.90, 5, 2.015),
        (0.99, 1, 63.657),
        (0.99, 7, 3.499),
        (0.99, 60, 2.660),
    )
    @ddt.unpack
    def test_known(self, confidence, df, expected):
        self.assertAlmostEqual(
            expected, stats.student_t(confidence, df), delta=0.0006
        )

    def test_many_degrees_are_normal(self):
        self.assertAlmostEqual(1.95996, stats.student_t(0.95, 10**4), 3)

    @ddt.data((0, 3), (1, 3), (0.95, 0))
    @ddt.unpack
    def test_impossible(self, confidence, df):
        error = self.assertRaises(ValueError, stats.student_t, confidence, df)
        self.assertIn(f'confidence {confidence}, {df} degrees', str(error))


class SpreadTest(testtools.TestCase):
    def test_known(self):
        self.assertEqual((2, 1, 9), stats.spread([9, 1, 2]))
        self.assertEqual((4, 4, 4), stats.spread([4]))

    def test_nothing(self):
        self.assertRaises(ValueError, stats.spread, [])


class IntervalTest(testtools.TestCase):
    def test_known(self):
        # mean 3, deviation sqrt(2.5), t 2.776 of 4 degrees
        found = stats.interval([1, 2, 3, 4, 5])
        self.assertAlmostEqual(3, found.mean)
        self.assertAlmostEqual(1.9632, found.half, 4)
        self.assertAlmostEqual(1.0368, found.low, 4)
        self.assertAlmostEqual(4.9632, found.high, 4)

    def test_without_spread(self):
        self.assertEqual((7, 0), stats.interval([7, 7, 7]))

    def test_one_value_is_not_enough(self):
        self.assertRaises(ValueError, stats.interval, [1])

    def test_holds_the_truth_as_often_as_it_says(self):
        source = random.Random(4)
        held = 0
        for _ in range(2000):
            found = stats.interval([source.gauss(10, 3) for _ in range(3)])
            held += found.low <= 10 <= found.high
        self.assertAlmostEqual(0.95, held / 2000, delta=0.015)


class RatioTest(testtools.TestCase):
    def test_what_changes_for_both_counts_for_neither(self):
        found = stats.ratio([9, 90, 900], [10, 100, 1000])
        for end in found:
            self.assertAlmostEqual(0.9, end)

    def test_spread(self):
        # logarithms 0 and log 4: mean log 2, error log 2, t 12.706
        middle, low, high = stats.ratio([1, 4], [1, 1])
        self.assertAlmostEqual(2, middle)
        self.assertAlmostEqual(13.7062, math.log2(high), 3)
        self.assertAlmostEqual(-11.7062, math.log2(low), 3)

    def test_must_be_pairs(self):
        self.assertRaises(ValueError, stats.ratio, [1, 2], [1, 2, 3])


class PooledTest(testtools.TestCase):
    def test_each_variable_counts_the_same(self):
        found = stats.pooled([{0: 1, 1: 3}, {0: 10, 1: 10, 2: 10}])
        self.assertEqual(6, found.mean)

    def test_of_one_variable(self):
        found = stats.pooled([dict(enumerate((1, 2, 4)))])
        self.assertEqual(stats.interval((1, 2, 4)), found)

    def test_repetitions_are_what_varies(self):
        """Variables that change together tell no more than one of them."""
        one = dict(enumerate((1.0, 2.0, 4.0)))
        other = {number: value + 50 for number, value in one.items()}
        self.assertAlmostEqual(
            stats.pooled([one]).half, stats.pooled([one, other]).half
        )
        opposite = {number: -value for number, value in one.items()}
        self.assertAlmostEqual(0, stats.pooled([one, opposite]).half)

    def test_covers_the_mean(self):
        draw = random.Random(1)
        hits = 0
        for _ in range(400):
            drift = [draw.gauss(0, 1) for _ in range(5)]
            rows = [
                {
                    number: level + drift[number] + draw.gauss(0, 1)
                    for number in range(5)
                }
                for level in (0, 10, 50)
            ]
            found = stats.pooled(rows)
            hits += found.low <= 20 <= found.high
        self.assertLessEqual(0.92, hits / 400)
        self.assertGreaterEqual(0.98, hits / 400)

    def test_a_single_repetition(self):
        self.assertRaises(ValueError, stats.pooled, [{0: 1.0}])


@ddt.ddt
class JainTest(testtools.TestCase):
    @ddt.data(
        ([5], 1),
        ([5, 5, 5], 1),
        ([1, 0, 0, 0], 0.25),
        ([1, 2], 0.9),
        ([0, 0], 1),
    )
    @ddt.unpack
    def test_known(self, rates, expected):
        self.assertAlmostEqual(expected, stats.jain(rates))
