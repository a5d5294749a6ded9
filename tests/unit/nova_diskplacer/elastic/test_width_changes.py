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

from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import verdicts
from nova_diskplacer.elastic import width_changes
from tests.unit.nova_diskplacer.elastic import hosts


def plan(vdisk, widths, disks, settings=hosts.QUICK, others=None):
    return width_changes.plan(
        'v',
        vdisk,
        verdicts.Verdict(None, 'because', widths, verdicts.WIDEN),
        disks,
        dict.fromkeys(disks, 0.0) if others is None else others,
        settings,
    )


class PlanTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disks = {uuid: hosts.disk() for uuid in 'abcd'}

    def test_figures(self):
        move = plan(hosts.vdisk('a'), (2,), self.disks).move
        self.assertEqual((tuple('aaaa'), tuple('aabb')), move.path)
        self.assertEqual(2, move.width)
        self.assertTrue(move.widens)
        self.assertEqual('because', move.why)
        # two legs of 2 GiB
        self.assertEqual(4 * GIB, move.size_bytes)
        self.assertAlmostEqual(4 * GIB / 100e6, move.seconds)
        self.assertAlmostEqual(100.0, move.mbps)

    def test_steps(self):
        move = plan(hosts.vdisk('a'), (4,), self.disks).move
        self.assertEqual(8 * GIB, move.size_bytes)
        location, steps = move.old, []
        while location:
            steps.append(''.join(location))
            location = move.next(location)
        self.assertEqual(['aaaa', 'aabb', 'acbb', 'acbd'], steps)
        self.assertIsNone(move.next(tuple('cccc')))

    def test_the_slower_disk_bounds_each_step(self):
        self.disks['c'] = hosts.disk(mbps=500)
        move = plan(hosts.vdisk('a'), (4,), self.disks).move
        # b gets two legs, c one and d one
        self.assertAlmostEqual(
            (4 / 100e6 + 2 / 50e6 + 2 / 100e6) * GIB, move.seconds
        )

    def test_a_hard_disk_seeks(self):
        disks = {uuid: hosts.disk(medium='hdd', mbps=500) for uuid in 'abcd'}
        settings = hosts.changed(max_move_time=10000)
        move = plan(hosts.vdisk('a'), (2,), disks, settings).move
        rate = copy_pace.copy_mbps(settings.copy_share, 'hdd', 500)
        self.assertAlmostEqual(rate, move.mbps)
        self.assertLess(rate, settings.copy_share * 500)

    def test_next_width_if_the_best_is_impossible(self):
        others = {'a': 0.0, 'b': 0.9, 'c': 0.0, 'd': 0.0}
        move = plan(hosts.vdisk('a'), (4, 2), self.disks, others=others)
        self.assertEqual(tuple('aacc'), move.move.new)

    def test_the_reason_is_that_of_the_best_width(self):
        found = plan(hosts.vdisk('a'), (4, 2), self.disks, others={})
        self.assertIsNone(found.move)
        self.assertIn('0 of 3 further disks', found.reason)

    def test_a_move_that_would_take_too_long(self):
        vdisk, settings = hosts.vdisk('a', leg_gb=24), hosts.changed
        found = plan(vdisk, (4,), self.disks, settings(max_move_time=1030))
        self.assertIsNone(found.move)
        self.assertEqual(
            'to copy 96 GiB takes 1031 s, [diskplacer_elastic] '
            'max_move_time=1030',
            found.reason,
        )
        longer = settings(max_move_time=1031)
        self.assertIsNotNone(plan(vdisk, (4,), self.disks, longer).move)

    def test_unknown_throughput(self):
        self.disks['b'] = hosts.disk(mbps=0)
        found = plan(hosts.vdisk('a'), (2,), self.disks)
        self.assertEqual('the throughput of b is unknown', found.reason)
