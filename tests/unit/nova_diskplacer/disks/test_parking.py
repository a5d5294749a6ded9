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


import os
import subprocess
import sys
from unittest import mock

from nova_diskplacer.disks import links
from nova_diskplacer.disks import parking
from tests.unit.nova_diskplacer.disks import links_base

DISK = links_base.DISK
OTHER = links_base.OTHER
NAME = links_base.NAME


class ParkingTestCase(links_base.LinksTestCase):
    def hold(self, path, count=1):
        """Have processes open a file; they open another when told to."""
        code = (
            'import sys; files = [open(sys.argv[1])]\n'
            'print(flush=True)\n'
            'for line in sys.stdin: print(open(line[:-1]).read(), flush=True)'
        )
        found = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, '-c', code, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(process.communicate)
            process.stdout.readline()
            found.append(process)
        return found

    def make_vdisk(self):
        path = f'{self.root}/{DISK}/vdisks/{NAME}'
        os.makedirs(os.path.dirname(path))
        with open(path, 'w') as stream:
            stream.write('content')
        links.link(self.root, DISK, NAME)
        return path

    def test_parked(self):
        """Only who has the vdisk open finds it by its link."""
        path = self.make_vdisk()
        (holder,) = self.hold(path)
        (other,) = self.hold(__file__)
        self.assertTrue(parking.park(self.root, NAME))
        self.assertTrue(links.is_parked(self.root, NAME))
        self.assertFalse(os.path.exists(self.path))
        print(self.path, file=holder.stdin, flush=True)
        self.assertEqual('content\n', holder.stdout.readline())
        print(self.path, file=other.stdin, flush=True)
        self.assertEqual('', other.stdout.readline())
        # nothing else is different
        self.assertEqual(DISK, links.linked_disk(self.root, NAME))
        self.assertEqual({NAME: DISK}, links.all_links(self.root))
        self.assertEqual(path, links.resolve(self.path))
        self.assertFalse(links.is_to_device(self.root, NAME))
        # again, as by the next process after a kill
        self.assertTrue(parking.park(self.root, NAME))
        for _ in range(2):
            parking.unpark(self.root, NAME)
            self.assertEqual(path, os.readlink(self.path))
            self.assertFalse(links.is_parked(self.root, NAME))

    def test_parked_to_a_device(self):
        for disk, to_device in ((DISK, True), (OTHER, False)):
            links.link(self.root, disk, NAME, to_device)
            target = os.readlink(self.path)
            with (
                mock.patch.object(parking.processes, 'holders') as holders,
                mock.patch.object(parking.time, 'sleep'),
            ):
                # such as udev, for a moment
                holders.side_effect = [[6, 7], OSError, [7]]
                self.assertTrue(parking.park(self.root, NAME))
            holders.assert_called_with(target)
            self.assertEqual(
                f'/proc/self/task/7/../../../..{target}',
                os.readlink(self.path),
            )
            self.assertEqual(disk, links.linked_disk(self.root, NAME))
            self.assertEqual(to_device, links.is_to_device(self.root, NAME))
            links.link(self.root, disk, NAME, to_device)
            self.assertFalse(links.is_parked(self.root, NAME))

    def test_not_parked(self):
        self.assertFalse(parking.park(self.root, NAME))
        path = self.make_vdisk()
        with mock.patch.object(parking.time, 'sleep') as sleep:
            self.assertFalse(parking.park(self.root, NAME))
            self.hold(path, 2)
            self.assertFalse(parking.park(self.root, NAME))
        self.assertLess(sum(call.args[0] for call in sleep.mock_calls), 5)
        self.assertEqual(path, os.readlink(self.path))
