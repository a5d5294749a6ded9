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

"""Reads of a disk that may go into standby by checks, on a real device."""

import os
import time

from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import standby
from tests.functional.disks import base

# Checks in a row without a read, after which a disk is left alone.
ENOUGH = 20

_READS = 0


class StandbyTest(base.VDiskTestCase):
    def check(self):
        """Check the disk and return the reads that this took."""
        before = standby.read_stat(self.device)[_READS]
        (disk,) = discover.discover(self.root)
        self.assertEqual('ok', disk.health)
        return standby.read_stat(self.device)[_READS] - before

    def checks_until_it_is_left_alone(self):
        deadline = time.monotonic() + 180
        alone = 0
        while alone < ENOUGH:
            # the filesystem writes its log for a while
            self.assertLess(time.monotonic(), deadline)
            alone = 0 if self.check() else alone + 1
            time.sleep(0.01)

    def test_a_marked_disk_is_left_alone(self):
        for _ in range(ENOUGH):
            self.assertGreaterEqual(self.check(), 1)
        standby.set_mark(self.disk, True)
        self.checks_until_it_is_left_alone()
        self.create()
        (disk,) = discover.discover(self.root)
        self.assertEqual(['volume-1'], [one.name for one in disk.vdisks])
        self.checks_until_it_is_left_alone()
        standby.set_mark(self.disk, False)
        self.assertGreaterEqual(self.check(), 1)

    def test_the_mark_is_no_change_of_the_disk(self):
        before = reported_disks.comparable(self.look())
        standby.set_mark(self.disk, True)
        self.assertEqual(before, reported_disks.comparable(self.look()))
        self.assertEqual(
            {os.path.basename(self.disk)}, standby.marked(self.root)
        )
