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

import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer.elastic import legs


@st.composite
def narrowest(draw):
    minimum = draw(st.integers(1, 3))
    number = minimum * draw(st.integers(1, 6 // minimum))
    return legs.narrowest(tuple('ABC'[:minimum]), number)


class LegsTestCase(testtools.TestCase):
    def test_over_four_legs(self):
        seen = [('A',) * 4]
        for disk in 'BCD':
            seen.append(legs.widen(seen[-1], disk))
        self.assertEqual(
            ['AAAA', 'AABB', 'ACBB', 'ACBD'], [''.join(one) for one in seen]
        )
        self.assertIsNone(legs.widen(seen[-1], 'E'))
        self.assertEqual(tuple('AABB'), legs.narrow(tuple('ACBB'), 1))
        self.assertIsNone(legs.narrow(tuple('AABB'), 2))

    def test_errors(self):
        self.assertRaises(ValueError, legs.narrowest, ('A', 'A'), 4)
        self.assertRaises(ValueError, legs.narrowest, ('A', 'B'), 3)
        self.assertRaises(ValueError, legs.widen, tuple('AABB'), 'B')
        for old, new in (
            ('AABB', 'AABB'),
            ('AABB', 'AAB'),
            ('AABB', 'CABB'),
            ('AABB', 'ACBD'),
            ('BBAA', 'BAAA'),
            ('AABB', 'BABB'),
        ):
            self.assertRaises(ValueError, legs.step, tuple(old), tuple(new))

    def test_a_step(self):
        self.assertEqual(
            legs.Step('A', 'C', (1,)), legs.step(tuple('AABB'), tuple('ACBB'))
        )

    @hypothesis.given(narrowest(), st.lists(st.booleans(), max_size=20))
    def test_any_walk_is_of_steps(self, start, widenings):
        minimum = len(legs.disks(start))
        now = start
        for number, widens in enumerate(widenings):
            if widens:
                after = legs.widen(now, f'disk{number}')
                self.assertEqual(
                    after is None, len(legs.disks(now)) == len(start)
                )
            else:
                after = legs.narrow(now, minimum)
                self.assertEqual(
                    after is None, len(legs.disks(now)) == minimum
                )
            if after is None:
                continue
            moved = legs.step(now, after)
            self.assertEqual(
                len(legs.disks(now)) + (1 if widens else -1),
                len(legs.disks(after)),
            )
            # the disks of a narrowest location keep their shares apart
            share = len(start) // minimum
            for disk in legs.disks(after):
                of = {leg // share for leg in legs.legs_on(after, disk)}
                self.assertEqual(1, len(of))
            self.assertEqual(
                moved.legs,
                legs.legs_on(after, moved.target)[-len(moved.legs) :],
            )
            now = after

    @hypothesis.given(narrowest())
    def test_the_widest_has_a_disk_for_each_leg(self, start):
        now, number = start, 0
        while after := legs.widen(now, f'disk{number}'):
            now, number = after, number + 1
        self.assertEqual(len(start), len(set(now)))
