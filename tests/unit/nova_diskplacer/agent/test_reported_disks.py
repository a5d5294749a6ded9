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

from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import inventory
from tests.fakes import disks as fake_disks

FIGURES = inventory.DiskFigures(100, 10, 20, 150, 30)


class AsSeenTest(base.BaseTestCase):
    def test_figures_stay_and_disks_are_as_they_are(self):
        before = fake_disks.make_disk('a')
        now = fake_disks.make_disk(
            'a',
            health=discover.READ_ONLY,
            vdisks=(VDisk('volume-1', '1', None, 1 << 30),),
        )
        self.assertEqual(
            [reported_disks.ReportedDisk(now, FIGURES)],
            reported_disks.with_known_figures(
                [reported_disks.ReportedDisk(before, FIGURES)], [now]
            ),
        )

    def test_a_disk_that_placement_does_not_know_is_left_out(self):
        a, b = fake_disks.make_disk('a'), fake_disks.make_disk('b')
        seen = reported_disks.with_known_figures(
            [reported_disks.ReportedDisk(a, FIGURES)], [a, b]
        )
        self.assertEqual([a], [one.disk for one in seen])

    def test_a_disk_that_is_gone_is_left_out(self):
        a, b = fake_disks.make_disk('a'), fake_disks.make_disk('b')
        reported = [
            reported_disks.ReportedDisk(a, FIGURES),
            reported_disks.ReportedDisk(b, FIGURES),
        ]
        seen = reported_disks.with_known_figures(reported, [b])
        self.assertEqual([b], [one.disk for one in seen])

    def test_a_foreign_disk_stays_foreign(self):
        foreign = fake_disks.make_disk('a', health=constants.FOREIGN)
        seen = reported_disks.with_known_figures(
            [reported_disks.ReportedDisk(foreign, FIGURES)],
            [fake_disks.make_disk('a')],
        )
        self.assertEqual(constants.FOREIGN, seen[0].disk.health)
