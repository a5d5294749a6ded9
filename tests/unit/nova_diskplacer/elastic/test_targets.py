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
        self.assertEqual((tuple(expected), ''), (found.disks, found.reason))

    def test_its_own_disks_first(self):
        self.assert_chosen('ca', 2)
        # however much others use them, up to the limit
        self.assert_chosen('ca', 2, others={'c': 0.5})

    def test_least_used_disks_then_those_with_room(self):
        self.assert_chosen('cef', 3, others=dict.fromkeys('abd', 0.1))
        self.disks['e'] = hosts.disk(room_gb=200)
        self.assert_chosen('ced', 3, others=dict.fromkeys('ab', 0.1))

    def test_narrowing_keeps_the_least_used(self):
        four = hosts.vdisk(*'abcd')
        self.assert_chosen(
            'db', 2, vdisk=four, others={'a': 0.3, 'b': 0.2, 'c': 0.4}
        )

    def test_used_disks_are_avoided(self):
        self.assert_chosen('bd', 2, others={'a': 0.51, 'c': 0.51})

    def test_a_kept_disk_needs_room_for_both_pieces(self):
        # its old piece is in the ledger, so 4 GiB are room beside it
        self.disks['c'] = hosts.disk(room_gb=4)
        self.assert_chosen('ca', 2)
        self.disks['c'] = hosts.disk(room_gb=3)
        self.assert_chosen('ab', 2)

    def test_sizes_are_rounded_up(self):
        nine = hosts.vdisk('c', size_gb=9)
        self.disks = {uuid: hosts.disk(room_gb=3) for uuid in 'abc'}
        self.assert_chosen('cab', 3, vdisk=nine)
        self.assertIn('5 GiB', choose(2, self.disks, vdisk=nine).reason)

    def test_medium(self):
        for uuid in 'abd':
            self.disks[uuid] = hosts.disk(medium='hdd')
        self.assert_chosen('cef', 3)
        self.assertEqual((), choose(4, self.disks).disks)

    def test_reason(self):
        self.disks['a'] = hosts.disk(room_gb=1)
        self.disks['b'] = hosts.disk(medium='hdd')
        others = dict.fromkeys('cde', 0.0) | {'d': 0.6}
        found = targets.choose(hosts.vdisk('c'), 4, self.disks, others, 0.5)
        self.assertEqual(
            '2 of the 4 disks that it needs suit: of 5 disks of its medium 1 '
            'have no room for 2 GiB, 2 others are used to more than 50% by '
            'others or are not measured',
            found.reason,
        )

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
        st.integers(1, 8),
        st.integers(1, 20),
    )
    @hosts.EXAMPLES
    def test_any_disks(self, drawn, width, size_gb):
        disks = {
            uuid: hosts.disk(medium=medium, room_gb=room)
            for uuid, (medium, room, _) in zip('abcdefgh', drawn, strict=False)
        }
        others = {
            uuid: used
            for uuid, (_, _, used) in zip('abcdefgh', drawn, strict=False)
            if used is not None
        }
        vdisk = hosts.vdisk('a', size_gb=size_gb)
        found = targets.choose(vdisk, width, disks, others, 0.5)
        suited = [
            uuid
            for uuid, one in disks.items()
            if one.medium == disks['a'].medium
            and one.room_gb * width >= size_gb
            and others.get(uuid, 1.0) <= 0.5
        ]
        self.assertEqual(len(suited) < width, bool(found.reason))
        if not found.reason:
            self.assertEqual(width, len(set(found.disks)))
            self.assertEqual(set(), set(found.disks) - set(suited))
            self.assertEqual('a' in suited, 'a' in found.disks)
