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

from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.location import Step


@st.composite
def narrowest(draw):
    minimum = draw(st.integers(1, 3))
    number = minimum * draw(st.integers(1, 6 // minimum))
    return Location.narrowest(tuple('ABC'[:minimum]), number)


class LocationTestCase(testtools.TestCase):
    @hypothesis.given(
        st.lists(st.text('0123456789abcdef-', min_size=1), max_size=6)
    )
    def test_text(self, disks):
        location = Location(disks)
        self.assertEqual(','.join(disks), str(location))
        self.assertEqual(location, Location.parse(f'{location}'))
        self.assertIsInstance(Location.parse(str(location)), Location)
        self.assertEqual(len(disks) > 1, location.is_striped)

    def test_no_disk(self):
        for text in (None, ''):
            location = Location.parse(text)
            self.assertFalse(location)
            self.assertEqual('', str(location))
            self.assertEqual((), location.disks)
            self.assertEqual({}, location.pieces_gb(7))

    def test_pieces(self):
        location = Location('aaba')
        self.assertEqual(('a', 'b'), location.disks)
        self.assertEqual(2, location.width)
        self.assertEqual((0, 1, 3), location.legs_on('a'))
        self.assertEqual({'a': 9, 'b': 3}, location.pieces_gb(10))
        self.assertEqual({'a': 7}, Location('a').pieces_gb(7))
        self.assertTrue(Location('aa').is_striped)

    @hypothesis.given(
        st.lists(st.sampled_from('abc'), min_size=1, max_size=6),
        st.integers(1, 100),
    )
    def test_pieces_hold_the_vdisk(self, disks, size_gb):
        pieces = Location(disks).pieces_gb(size_gb)
        self.assertEqual({*disks}, {*pieces})
        # each leg is rounded up by less than a GiB
        self.assertGreaterEqual(sum(pieces.values()), size_gb)
        self.assertLess(sum(pieces.values()), size_gb + len(disks))

    def test_replaced(self):
        self.assertEqual(Location('CBC'), Location('ABA').replaced('A', 'C'))

    def test_the_rest_of_a_step(self):
        for old, new, moved in (
            ('AAAA', 'AABB', Step('A', 'B', (2, 3))),
            ('AABA', 'AABB', Step('A', 'B', (3,))),
            ('BAAA', 'BAAB', Step('A', 'B', (3,))),
            ('AABB', 'AABB', None),
            ('AABB', 'CCDD', None),
            ('AABB', 'AA', None),
        ):
            self.assertEqual(moved, Location(old).moved_to(Location(new)))

    def test_over_four_legs(self):
        seen = [Location('AAAA')]
        for disk in 'BCD':
            seen.append(seen[-1].widened(disk))
        self.assertEqual(
            ['AAAA', 'AABB', 'ACBB', 'ACBD'], [''.join(one) for one in seen]
        )
        self.assertIsNone(seen[-1].widened('E'))
        self.assertEqual(Location('AABB'), Location('ACBB').narrowed(1))
        self.assertIsNone(Location('AABB').narrowed(2))

    def test_errors(self):
        self.assertRaises(ValueError, Location.narrowest, ('A', 'A'), 4)
        self.assertRaises(ValueError, Location.narrowest, ('A', 'B'), 3)
        self.assertRaises(ValueError, Location('AABB').widened, 'B')
        for old, new in (
            ('AABB', 'AABB'),
            ('AABB', 'AAB'),
            ('AABB', 'CABB'),
            ('AABB', 'ACBD'),
            ('BBAA', 'BAAA'),
            ('AABB', 'BABB'),
        ):
            self.assertRaises(ValueError, Location(old).step_to, Location(new))

    def test_a_step(self):
        self.assertEqual(
            Step('A', 'C', (1,)), Location('AABB').step_to(Location('ACBB'))
        )

    @hypothesis.given(narrowest(), st.lists(st.booleans(), max_size=20))
    def test_any_walk_is_of_steps(self, start, widenings):
        minimum = start.width
        now = start
        for number, widens in enumerate(widenings):
            if widens:
                after = now.widened(f'disk{number}')
                self.assertEqual(after is None, now.width == len(start))
            else:
                after = now.narrowed(minimum)
                self.assertEqual(after is None, now.width == minimum)
            if after is None:
                continue
            moved = now.step_to(after)
            self.assertEqual(
                now.width + (1 if widens else -1),
                after.width,
            )
            # the disks of a narrowest location keep their shares apart
            share = len(start) // minimum
            for disk in after.disks:
                of = {leg // share for leg in after.legs_on(disk)}
                self.assertEqual(1, len(of))
            self.assertEqual(
                moved.legs,
                after.legs_on(moved.target)[-len(moved.legs) :],
            )
            now = after

    @hypothesis.given(narrowest())
    def test_the_widest_has_a_disk_for_each_leg(self, start):
        now, number = start, 0
        while after := now.widened(f'disk{number}'):
            now, number = after, number + 1
        self.assertEqual(len(start), len(set(now)))
