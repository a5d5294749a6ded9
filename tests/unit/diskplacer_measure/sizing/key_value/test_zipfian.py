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
import math
import random

import ddt
import testtools
from hypothesis import given
from hypothesis import strategies

from diskplacer_measure.sizing.key_value import zipfian

# What ScrambledZipfianGenerator of YCSB has as ZETAN, for 10^10 ranks.
YCSB_ZETA = 26.46902820178302


class ZetaTest(testtools.TestCase):
    def test_is_the_sum(self):
        for n in (1, 2, 10, 1000, 1001, 50_000):
            expected = math.fsum(i**-0.99 for i in range(1, n + 1))
            self.assertAlmostEqual(expected, zipfian.zeta(n), 10)

    def test_is_that_of_ycsb(self):
        self.assertAlmostEqual(YCSB_ZETA, zipfian.zeta(10**10), 9)


@ddt.ddt
class RanksTest(testtools.TestCase):
    @ddt.data(10, 1000, 10**6)
    def test_shares_are_those_of_the_formula(self, n):
        """Each u of a fine, even grid is as likely as the others.

        Gray et al. have the first two ranks exactly; the sum of the ranks
        below any is within 2 % of all, as an integral stands for a sum.
        """
        count = 200_000
        ranks = zipfian.Ranks(n)
        found = collections.Counter(
            ranks.rank((number + 0.5) / count) for number in range(count)
        )
        zeta = zipfian.zeta(n)
        for rank in (0, 1):
            expected = (rank + 1) ** -zipfian.THETA / zeta
            self.assertAlmostEqual(expected, found[rank] / count, 4)
        below = 0
        for rank in range(min(n, 200)):
            below += found[rank]
            self.assertAlmostEqual(
                zipfian.zeta(rank + 1) / zeta, below / count, delta=0.02
            )

    @given(
        strategies.integers(3, 10**10),
        strategies.floats(0, 1, exclude_max=True),
    )
    def test_ranks_are_in_range(self, n, u):
        self.assertTrue(0 <= zipfian.Ranks(n).rank(u) < n)


class FnvTest(testtools.TestCase):
    def test_known(self):
        """The absolute value of signed 64 bits, as Java has it."""
        # FNV-1a of eight zero bytes is 0xa8c7f832281a39c5
        self.assertEqual(2**64 - 0xA8C7F832281A39C5, zipfian.fnv(0))
        # of 1 and seven zero bytes 0x89cd31291d2aefa4
        self.assertEqual(2**64 - 0x89CD31291D2AEFA4, zipfian.fnv(1))

    @given(strategies.integers(0, 2**64 - 1))
    def test_is_a_record(self, number):
        self.assertTrue(0 <= zipfian.fnv(number) <= 2**63)


class RecordsTest(testtools.TestCase):
    def draw(self, records, count, seed=1):
        keys = zipfian.Records(records, random.Random(seed))
        return [keys.draw() for _ in range(count)]

    def test_popular_records(self):
        """The most popular is where YCSB has it, and as popular."""
        count = 50_000
        found = collections.Counter(self.draw(1000, count))
        (first, times), (second, _) = found.most_common(2)
        self.assertEqual(zipfian.fnv(0) % 1000, first)
        self.assertEqual(zipfian.fnv(1) % 1000, second)
        # its share of 1 / zeta, and that of a thousandth of the rest
        share = 1 / YCSB_ZETA
        share += (1 - share) / 1000
        error = math.sqrt(share * (1 - share) / count)
        self.assertAlmostEqual(share, times / count, delta=4 * error)

    def test_all_records_are_used(self):
        self.assertEqual(set(range(100)), set(self.draw(100, 20_000)))

    def test_a_seed_repeats(self):
        self.assertEqual(self.draw(50, 100), self.draw(50, 100))
        self.assertNotEqual(self.draw(50, 100), self.draw(50, 100, seed=2))
