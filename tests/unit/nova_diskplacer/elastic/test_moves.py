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

from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import moves
from tests.unit.nova_diskplacer.elastic import hosts

SPEEDS = st.lists(st.floats(1, 5000), min_size=8, max_size=8)


def plan(vdisk, widths, disks, settings=hosts.QUICK, others=None):
    return moves.plan(
        'v',
        vdisk,
        widths,
        disks,
        dict.fromkeys(disks, 0.0) if others is None else others,
        settings,
        forced=False,
        why='because',
    )


class PlanTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disks = {uuid: hosts.disk() for uuid in 'abcd'}

    def test_figures(self):
        move = plan(hosts.vdisk('a'), (4,), self.disks).move
        self.assertEqual(('a',), move.old)
        self.assertEqual(tuple('abcd'), move.new)
        self.assertTrue(move.widens)
        self.assertEqual('because', move.why)
        self.assertEqual(8 * GIB, move.size_bytes)
        # a reads all and writes a quarter: 1.25 times the rate
        self.assertAlmostEqual(80.0, move.mbps)
        self.assertAlmostEqual(8 * GIB / 80e6, move.seconds)

    def test_the_slowest_disk_bounds_the_rate(self):
        self.disks['d'] = hosts.disk(mbps=100)
        move = plan(hosts.vdisk('a'), (4,), self.disks).move
        # it writes a quarter
        self.assertAlmostEqual(40.0, move.mbps)

    def test_next_width_if_the_best_is_impossible(self):
        others = {'a': 0.0, 'b': 0.9, 'c': 0.0, 'd': 0.0}
        move = plan(hosts.vdisk('a'), (4, 3, 2), self.disks, others=others)
        self.assertEqual(tuple('acd'), move.move.new)

    def test_the_reason_is_that_of_the_best_width(self):
        found = plan(hosts.vdisk('a'), (4, 3), self.disks, others={})
        self.assertIsNone(found.move)
        self.assertIn('0 of the 4 disks', found.reason)

    def test_a_move_that_would_take_too_long(self):
        found = plan(
            hosts.vdisk('a', size_gb=75),
            (4,),
            self.disks,
            hosts.changed(max_move_time=1006),
        )
        self.assertIsNone(found.move)
        self.assertEqual(
            'to copy 75 GiB at 80.0 MB/s takes 1007 s, [diskplacer_elastic] '
            'max_move_time=1006',
            found.reason,
        )
        longer = hosts.changed(max_move_time=1007)
        self.assertIsNotNone(
            plan(hosts.vdisk('a', size_gb=75), (4,), self.disks, longer).move
        )

    def test_unknown_throughput(self):
        self.disks['b'] = hosts.disk(mbps=0)
        found = plan(hosts.vdisk('a'), (4,), self.disks)
        self.assertEqual('the throughput of b is unknown', found.reason)

    @given(SPEEDS, st.integers(1, 8), st.integers(1, 8), st.integers(1, 500))
    @hosts.EXAMPLES
    def test_no_disk_copies_more_than_its_share(
        self, speeds, old, new, size_gb
    ):
        disks = {
            uuid: hosts.disk(mbps=mbps, room_gb=500)
            for uuid, mbps in zip('abcdefgh', speeds, strict=True)
        }
        vdisk = hosts.vdisk(*'abcdefgh'[-old:], size_gb=size_gb)
        settings = hosts.changed(max_move_time=1e9)
        move = plan(vdisk, (new,), disks, settings).move
        shares = []
        for uuid, one in disks.items():
            reads = move.mbps / old if uuid in move.old else 0
            writes = move.mbps / new if uuid in move.new else 0
            shares.append((reads + writes) / one.mbps)
        # one is the bound, the others stay below
        self.assertAlmostEqual(settings.copy_share, max(shares))
