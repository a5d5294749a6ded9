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

"""Tests of servers that boot without their volumes."""

import unittest

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import boot_volumes
from nova_diskplacer.scheduler.server_volumes import BootVolume

WANTED = flavor.VDiskRequest(2, 100, volume_type='vdisk')


class FittingTest(unittest.TestCase):
    def _fitting(self, *volumes, wanted=WANTED):
        return boot_volumes.fitting(wanted, volumes)

    def test_size(self):
        self.assertEqual(0, self._fitting())
        self.assertEqual(
            1,
            self._fitting(
                BootVolume(100, None),
                BootVolume(50, None),
                BootVolume(None, None),
            ),
        )

    def test_type(self):
        named = [BootVolume(100, 'vdisk'), BootVolume(100, 'ceph')]
        self.assertEqual(1, self._fitting(*named))
        anything = flavor.VDiskRequest(2, 100)
        self.assertEqual(2, self._fitting(*named, wanted=anything))

    def test_bootable(self):
        self.assertEqual(0, self._fitting(BootVolume(100, 'vdisk', True)))
