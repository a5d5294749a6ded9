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

import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.elastic import observations
from tests.unit.nova_diskplacer.elastic import hosts


def observation(end, seconds=10.0, a=0.5, part=0.0, **others):
    return observations.Observation(
        end, seconds, {'a': a, **others}, {('v', 'a'): part}
    )


class PartTest(testtools.TestCase):
    def test_part(self):
        self.assertEqual(0.2, observations.part(0.8, 25, 100))
        self.assertEqual(0.0, observations.part(0.8, 0, 0))
        # counters are not read at the same moment
        self.assertEqual(0.8, observations.part(0.8, 101, 100))


class WindowTest(testtools.TestCase):
    def test_only_what_covers_the_time_is_kept(self):
        window = ()
        for end in (10, 20, 30, 40, 50):
            window = observations.add(window, observation(end), 30)
        self.assertEqual([30, 40, 50], [one.end for one in window])

    def test_intervals_longer_than_the_time(self):
        window = observations.add((), observation(10), 5)
        window = observations.add(window, observation(20), 5)
        self.assertEqual([20], [one.end for one in window])

    def test_gap(self):
        window = observations.add((), observation(10), 30)
        late = observations.add(window, observation(30), 30)
        self.assertEqual([10, 30], [one.end for one in late])
        lost = observations.add(window, observation(31), 30)
        self.assertEqual([31], [one.end for one in lost])

    @given(
        st.lists(st.integers(1, 60), min_size=1, max_size=40),
        st.integers(1, 300),
    )
    @hosts.EXAMPLES
    def test_window(self, lengths, seconds):
        window, end = (), 0
        for length in lengths:
            end += length
            window = observations.add(
                window, observation(end, length), seconds
            )
            self.assertEqual(end, window[-1].end)
            covered = end - window[0].start
            self.assertTrue(covered >= min(seconds, end))
            self.assertTrue(covered - window[0].seconds < seconds)


class MeansTest(testtools.TestCase):
    def test_weighted_by_length(self):
        found = observations.means(
            (observation(10, 10, 0.2, 0.1), observation(40, 30, 1.0, 0.5))
        )
        self.assertAlmostEqual(0.8, found.utilization['a'])
        self.assertAlmostEqual(0.4, found.parts['v', 'a'])
        self.assertAlmostEqual(0.4, found.others('v')['a'])
        self.assertAlmostEqual(0.8, found.others('w')['a'])

    def test_disk_that_was_not_always_measured(self):
        found = observations.means((observation(10, b=0.5), observation(20)))
        self.assertEqual(['a'], list(found.utilization))

    def test_largest_other_part(self):
        found = observations.Means(
            {'a': 0.9, 'b': 0.2},
            {('v', 'a'): 0.3, ('w', 'a'): 0.2, ('w', 'b'): 0.2},
        )
        # 0.4 remain for others
        self.assertAlmostEqual(0.4, found.largest_other('v', 'a'))
        self.assertAlmostEqual(0.2, found.largest_other('v', 'b'))
        self.assertAlmostEqual(0.0, found.largest_other('w', 'b'))

    def test_nothing(self):
        found = observations.means(())
        self.assertEqual(({}, {}), (found.utilization, found.parts))
