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

"""Tests of the use of disks compared to a fair share."""

import unittest

import hypothesis
import numpy
from hypothesis import strategies as st

from nova_diskplacer.monitor import history
from tests.unit.nova_diskplacer.io_weights import test_policy

DAY = 86400.0
PAIRS = tuple(sorted((key, disk) for key in 'abc' for disk in ('x', 'y')))


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
                st.sampled_from(PAIRS),
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
            self.assertTrue((ratios <= len(PAIRS)).all())
