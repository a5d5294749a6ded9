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


import itertools

import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.elastic import paths
from tests.unit.nova_diskplacer.elastic import hosts


@st.composite
def vdisks(draw):
    """Draw a vdisk of any width."""
    minimum = draw(st.integers(1, 3))
    maximum = draw(st.sampled_from(range(2 * minimum, 7, minimum)))
    width = draw(st.integers(minimum, maximum))
    return hosts.vdisk(*'abcdef'[:width], minimum=minimum, maximum=maximum)


def counts(location):
    return [location.count(disk) for disk in location.disks]


class WidthsTest(testtools.TestCase):
    def narrower(self, width, **limits):
        vdisk = hosts.vdisk(*'abcdef'[:width], **limits)
        found = paths.narrower(vdisk.location, vdisk.minimum)
        return [counts(path[-1]) for path in found]

    def wider(self, width, factor, **limits):
        vdisk = hosts.vdisk(*'abcdef'[:width], **limits)
        return paths.wider(vdisk.location, factor)

    def test_narrower(self):
        self.assertEqual([[4], [2, 2]], self.narrower(4))
        self.assertEqual([[4]], self.narrower(2))
        self.assertEqual([], self.narrower(1))
        self.assertEqual(
            [[3, 3], [1, 2, 1, 2]], self.narrower(6, minimum=2, maximum=6)
        )
        self.assertEqual([[6], [2, 4], [2, 2, 2]], self.narrower(6, maximum=6))

    def test_wider(self):
        self.assertEqual((2,), self.wider(1, 2))
        # three disks do no better than two
        self.assertEqual((4, 2), self.wider(1, 4))
        self.assertEqual((4,), self.wider(2, 2))
        self.assertEqual((), self.wider(4, 64))
        self.assertEqual((6, 4, 2), self.wider(1, 64, maximum=6))
        self.assertEqual((3, 2), self.wider(1, 3, maximum=3))

    def test_as_good(self):
        for width, expected in enumerate(([], [], [2, 2], []), 1):
            vdisk = hosts.vdisk(*'abcd'[:width])
            path = paths.as_good(vdisk.location, 1)
            self.assertEqual(expected, counts(path[-1]) if path else [])

    @given(vdisks())
    @hosts.EXAMPLES
    def test_paths_are_steps(self, vdisk):
        others = [uuid for uuid in 'uvwxyz' if uuid not in vdisk.disks]
        room = vdisk.maximum - vdisk.width
        for path in (
            paths.widened(vdisk.location, others[:room]),
            paths.narrowed(vdisk.location, vdisk.minimum),
        ):
            for old, new in itertools.pairwise(path):
                old.step_to(new)
            held = paths.most_held(path)
            for location in path:
                for disk in location:
                    self.assertTrue(location.count(disk) <= held[disk])
        self.assertEqual(vdisk.minimum, path[-1].width)

    @given(vdisks())
    @hosts.EXAMPLES
    def test_a_wider_one_is_worth_its_disks(self, vdisk):
        before = paths.fullest(vdisk.location)
        for width in reversed(paths.wider(vdisk.location, 2)):
            path = paths.widened(vdisk.location, 'uvwxyz')
            after = paths.fullest(path[width - vdisk.width])
            self.assertTrue(after < before)
            before = after
        if vdisk.width < vdisk.maximum:
            # twice the disks always are
            self.assertTrue(paths.wider(vdisk.location, 2))

    @given(vdisks())
    @hosts.EXAMPLES
    def test_what_is_as_good_has_no_fuller_disk(self, vdisk):
        path = paths.as_good(vdisk.location, vdisk.minimum)
        if path:
            self.assertEqual(
                paths.fullest(vdisk.location), paths.fullest(path[-1])
            )
            self.assertEqual((), paths.as_good(path[-1], vdisk.minimum))
