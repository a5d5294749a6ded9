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

import statistics
import unittest

import hypothesis
import numpy
import testtools
from hypothesis import given
from hypothesis import strategies
from hypothesis import strategies as st

from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import types
from tests.unit.nova_diskplacer.io_weights import test_policy

X, Y, Z = ('x', 'a'), ('y', 'a'), ('z', 'a')
COUNT = strategies.integers(0, 10**9)
PAIRS = strategies.sets(strategies.sampled_from((X, Y, Z)))
# seconds, what was done in them (None: nothing)
INTERVALS = strategies.lists(
    strategies.tuples(
        strategies.floats(0.1, 10),
        strategies.none() | strategies.tuples(COUNT, COUNT, COUNT, COUNT),
    ),
    max_size=20,
)


def make_counters(pairs, *rows, first=()):
    """Return counters; those of the pairs in ``first`` are new.

    io.cost charges 7 us for each byte that was read.
    """
    if not isinstance(pairs, types.Pairs):
        pairs = types.Pairs(pairs)
    return types.Counters(
        pairs,
        numpy.array([(*row, 7 * row[0]) for row in rows], numpy.int64).reshape(
            len(pairs), types.COUNTERS
        ),
        numpy.array([pair in first for pair in pairs], bool),
    )


class HistoryTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.history = history.History()

    def update(self, pairs, *rows, first=(), seconds=1.0):
        counters = make_counters(pairs, *rows, first=first)
        *done, charged = self.history.update(seconds, counters).T.tolist()
        self.assertEqual([7 * one for one in done[0]], charged)
        return done

    def test_what_was_done(self):
        pairs = (X, Y)
        self.update(pairs, (9, 9, 9, 9), (1, 1, 1, 1), first=pairs)
        self.assertEqual(
            [[1, 0], [2, 0], [3, 0], [4, 0]],
            self.update(pairs, (10, 11, 12, 13), (1, 1, 1, 1)),
        )

    def test_the_first_look_tells_nothing(self):
        self.assertEqual(
            [[0], [0], [0], [0]],
            self.update((X,), (9, 9, 9, 9), first=[X]),
        )
        self.assertEqual([0], self.history.table['active'].tolist())

    def test_a_pair_that_comes(self):
        self.update((Y,), (9, 9, 9, 9), first=[Y])
        found = self.update((X, Y), (5, 6, 7, 8), (10, 9, 9, 9))
        self.assertEqual([[5, 1], [6, 0], [7, 0], [8, 0]], found)

    def test_a_pair_that_goes_is_forgotten(self):
        pairs = (X, Y, Z)
        self.update(pairs, *[(9, 9, 9, 9)] * 3, first=pairs)
        self.update(pairs, *[(99, 9, 9, 9)] * 3)
        pairs = (X, Z)
        found = self.update(pairs, *[(100, 9, 9, 9)] * 2)
        self.assertEqual([1, 1], found[0])
        table = self.history.table
        self.assertEqual(pairs, table.pairs)
        self.assertEqual([2, 2], table['active'].tolist())
        pairs = (X, Y, Z)
        self.update(pairs, *[(100, 9, 9, 9)] * 3)
        self.assertEqual([2, 1, 2], self.history.table['active'].tolist())

    def test_counters_that_fall_have_begun_anew(self):
        pairs = (X,)
        self.update(pairs, (1000, 1000, 50, 50), first=pairs)
        found = self.update(pairs, (30, 0, 3, 0))
        self.assertEqual([[30], [0], [3], [0]], found)

    @given(strategies.data())
    def test_totals_add_up_while_a_pair_exists(self, data):
        one, pairs = history.History(), types.Pairs()
        counted = {}
        for _ in range(data.draw(strategies.integers(1, 6))):
            if data.draw(strategies.booleans()):
                pairs = types.Pairs(sorted(data.draw(PAIRS)))
            # the kernel counts anew for a pair that comes back
            counted = {
                pair: counted.get(pair, 0) + data.draw(COUNT) for pair in pairs
            }
            rows = [(counted[pair],) * 4 for pair in pairs]
            one.update(1.0, make_counters(pairs, *rows))
            self.assertEqual(
                [list(row) for row in rows],
                one.table['totals'][:, :4].tolist(),
            )

    def test_totals_lack_the_first_reading(self):
        self.update((X,), (9, 9, 9, 9), first=[X])
        self.update((X,), (10, 11, 12, 13))
        self.update((X,), (5, 11, 12, 13))
        self.assertEqual(
            [[6, 2, 3, 4, 42]], self.history.table['totals'].tolist()
        )

    def test_idle(self):
        pairs = (X, Y)
        self.update(pairs, (0, 0, 0, 0), (0, 0, 0, 0), seconds=2)
        # a request without data, such as a flush, is something
        self.update(pairs, (0, 0, 0, 1), (0, 0, 0, 0), seconds=3)
        table = self.history.table
        self.assertEqual([0, 5], table['idle_seconds'].tolist())
        self.update(pairs, (0, 0, 0, 1), (8, 0, 1, 0), seconds=4)
        table = self.history.table
        self.assertEqual([4, 0], table['idle_seconds'].tolist())

    @given(INTERVALS)
    def test_rates(self, intervals):
        one = history.History()
        values = numpy.zeros(4, numpy.int64)
        pairs = types.Pairs((X,))
        for seconds, done in intervals:
            if done is not None:
                values = values + done
            one.update(seconds, make_counters(pairs, values))
        found = one.table
        deviation = numpy.sqrt(
            found['squares'] / numpy.maximum(found['active'], 1)[:, None]
        )
        for column in (0, 1):
            rates = [
                done[column] / seconds
                for seconds, done in intervals
                if done is not None and any(done)
            ]
            if not intervals:
                self.assertEqual((), found.pairs)
                continue
            self.assertEqual(len(rates), found['active'][0])
            rates = rates or [0.0]
            for wanted, figures in (
                (min(rates), found['minimum']),
                (max(rates), found['maximum']),
                (statistics.fmean(rates), found['mean']),
                (statistics.pstdev(rates), deviation),
            ):
                numpy.testing.assert_allclose(
                    figures[0, column], wanted, rtol=1e-6, atol=0.1
                )

    def test_a_table_does_not_change(self):
        pairs = (X,)
        self.update(pairs, (1, 1, 1, 1))
        before = self.history.table
        mean = before['mean'].tolist()
        self.update(pairs, (100, 100, 2, 2))
        self.assertEqual(mean, before['mean'].tolist())
        self.assertEqual([1], before['active'].tolist())


DAY = 86400.0
FAIR_PAIRS = tuple(sorted((key, disk) for key in 'abc' for disk in ('x', 'y')))


def make_sample(used, seconds=1.0):
    return test_policy.make_sample(used, seconds=seconds)


class FairShareTest(unittest.TestCase):
    def _ratios(self, *samples, window=DAY):
        kept = history.FairShare(window)
        for used in samples:
            ratios = kept.update(used)
        return list(ratios)

    def test_one_who_uses_all_of_a_disk_of_three(self):
        used = {('a', 'x'): 900, ('b', 'x'): 0, ('c', 'x'): None}
        self.assertEqual([3, 0, 0], self._ratios(make_sample(used)))

    def test_disks_are_apart(self):
        used = {('a', 'x'): 30, ('a', 'y'): 10, ('b', 'x'): 10, ('b', 'y'): 70}
        self.assertEqual(
            [1.5, 0.25, 0.5, 1.75], self._ratios(make_sample(used))
        )

    def test_nobody_uses_anything(self):
        self.assertEqual(
            [0, 0],
            self._ratios(make_sample({('a', 'x'): None, ('b', 'x'): 0})),
        )
        self.assertEqual([], self._ratios(make_sample({})))

    def test_old_use_fades(self):
        """By a factor e in a window, whatever the interval is."""
        first = make_sample({('a', 'x'): 1000, ('b', 'x'): 0})
        for seconds in (60.0, 7.5):
            samples = [
                make_sample({('a', 'x'): 0, ('b', 'x'): 0}, seconds)
            ] * int(60.0 / seconds)
            last = make_sample({('a', 'x'): 0, ('b', 'x'): 1000}, 0.0)
            one, other = self._ratios(first, *samples, last, window=60.0)
            self.assertAlmostEqual(numpy.e, other / one)
            self.assertAlmostEqual(2.0, one + other)

    def test_a_newcomer_is_compared_from_when_it_came(self):
        samples = [make_sample({('a', 'x'): 1000})] * 100
        samples += [make_sample({('a', 'x'): 500, ('b', 'x'): 500})]
        one, other = self._ratios(*samples)
        self.assertAlmostEqual(1.0, other)
        self.assertAlmostEqual(1.0, one)

    def test_who_comes_back_is_new(self):
        both = make_sample({('a', 'x'): 0, ('b', 'x'): 1000})
        alone = make_sample({('a', 'x'): 0})
        self.assertEqual([0, 2], self._ratios(both, alone, both))

    @hypothesis.given(
        st.lists(
            st.dictionaries(
                st.sampled_from(FAIR_PAIRS),
                st.one_of(st.none(), st.integers(0, 10**9)),
            ),
            min_size=1,
            max_size=15,
        )
    )
    def test_ratios_are_bounded(self, samples):
        kept = history.FairShare(DAY)
        for used in samples:
            sample = make_sample(used)
            ratios = kept.update(sample)
            self.assertEqual(len(sample.pairs), len(ratios))
            self.assertTrue((ratios >= 0).all())
            self.assertTrue((ratios <= len(FAIR_PAIRS)).all())
