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

from nova_diskplacer.elastic import targets
from tests.unit.nova_diskplacer.elastic import hosts

UUIDS = 'abcdef'


def choose(width, disks, others=None, vdisk=None):
    return targets.choose(
        vdisk or hosts.vdisk('c'),
        width,
        disks,
        {**dict.fromkeys(disks, 0.0), **(others or {})},
        0.5,
    )


class ChooseTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disks = {uuid: hosts.disk() for uuid in UUIDS}

    def assert_chosen(self, expected, width, **arguments):
        found = choose(width, self.disks, **arguments)
        self.assertEqual('', found.reason)
        self.assertEqual(tuple(expected), found.path[-1])

    def test_least_used_disks_then_those_with_room(self):
        self.assert_chosen('ccee', 2, others=dict.fromkeys('abd', 0.1))
        self.disks['f'] = hosts.disk(free_gb=200)
        self.assert_chosen('ccff', 2, others=dict.fromkeys('abd', 0.1))

    def test_one_that_it_has_gets_nothing_and_needs_nothing(self):
        self.disks['c'] = hosts.disk(free_gb=0)
        self.assert_chosen('ccaa', 2, others={'c': 1.0})

    def test_room_for_the_most_legs_on_the_way(self):
        # the first further disk holds two legs until the third comes
        self.disks = {uuid: hosts.disk(free_gb=4) for uuid in UUIDS}
        self.assert_chosen('cbad', 4)
        self.disks = {uuid: hosts.disk(free_gb=3) for uuid in UUIDS}
        self.assertIn('no room for 4 GiB', choose(4, self.disks).reason)

    def test_medium(self):
        for uuid in 'abd':
            self.disks[uuid] = hosts.disk(medium='hdd')
        self.assert_chosen('ccee', 2)
        self.assertEqual((), choose(4, self.disks).path)

    def test_blocks(self):
        """Its user could not make the requests that it makes now."""
        for uuid in 'abd':
            self.disks[uuid] = hosts.disk(block_size=4096)
        self.assert_chosen('ccee', 2)
        found = choose(4, self.disks)
        self.assertEqual((), found.path)
        self.assertIn('3 have larger logical blocks', found.reason)
        # it has them already
        self.disks['c'] = hosts.disk(block_size=4096)
        self.assert_chosen('ccaa', 2)

    def test_reason(self):
        self.disks['a'] = hosts.disk(free_gb=1)
        self.disks['b'] = hosts.disk(medium='hdd')
        others = dict.fromkeys('cde', 0.0) | {'d': 0.6}
        found = targets.choose(hosts.vdisk('c'), 4, self.disks, others, 0.5)
        self.assertEqual(
            '1 of 3 further disks suit: of 4 others of its medium 0 have '
            'larger logical blocks, 1 have no room for 4 GiB, 2 are used to '
            'more than 50% by others or are not measured',
            found.reason,
        )

    def test_narrowing(self):
        four = hosts.vdisk(*'abcd')
        self.assertEqual('acbd', ''.join(four.location))
        self.assert_chosen('aabb', 2, vdisk=four)
        self.assert_chosen('aaaa', 1, vdisk=four)
        self.disks['a'] = hosts.disk(free_gb=5)
        self.assert_chosen('aabb', 2, vdisk=four)
        # it has a leg
        self.assertEqual(
            'disk a has no room for 6 GiB',
            choose(1, self.disks, vdisk=four).reason,
        )
        self.assertEqual(
            'disk b is used to more than 50% by others or is not measured',
            choose(2, self.disks, vdisk=four, others={'b': 0.6}).reason,
        )
        # nothing comes to these
        self.assert_chosen('aabb', 2, vdisk=four, others={'c': 0.6, 'd': 1.0})

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(('hdd', 'ssd')),
                st.integers(0, 12),
                st.none() | st.floats(0, 1),
            ),
            min_size=1,
            max_size=8,
        ),
        st.integers(2, 4),
        st.integers(1, 3),
    )
    @hosts.EXAMPLES
    def test_any_disks(self, drawn, width, leg_gb):
        disks = {
            uuid: hosts.disk(medium=medium, free_gb=room)
            for uuid, (medium, room, _) in zip('abcdefgh', drawn, strict=False)
        }
        others = {
            uuid: used
            for uuid, (_, _, used) in zip('abcdefgh', drawn, strict=False)
            if used is not None
        }
        vdisk = hosts.vdisk('a', leg_gb=leg_gb)
        found = targets.choose(vdisk, width, disks, others, 0.5)
        suited = [
            uuid
            for uuid, one in disks.items()
            if uuid != 'a'
            and one.medium == disks['a'].medium
            and one.free_gb >= 2 * leg_gb
            and others.get(uuid, 1.0) <= 0.5
        ]
        self.assertEqual(len(suited) < width - 1, bool(found.reason))
        if not found.reason:
            used = set(found.path[-1])
            self.assertEqual(width, len(used))
            self.assertEqual({'a'}, used - set(suited))
