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

import fixtures
import testtools

from nova_diskplacer.host import mounts

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 0:25 /@ / rw,relatime shared:1 master:2 - btrfs /dev/sda2 rw,subvol=/@
28 27 0:25 /@a /srv/a\040b rw - btrfs /dev/sda2 rw,subvolid=257
29 27 0:30 / /srv/none rw - ramfs none rw
30 27 8:17 / /srv/twice rw - xfs /dev/sdb1 rw
31 27 8:33 / /srv/twice rw - xfs /dev/mapper/x\134y rw
""".lstrip()


class MountsTestCase(testtools.TestCase):
    def call(self, function, path):
        directory = self.useFixture(fixtures.TempDir()).path
        mountinfo = os.path.join(directory, 'mountinfo')
        with open(mountinfo, 'w') as stream:
            stream.write(MOUNTINFO)
        return function(path, mountinfo)

    def test_device(self):
        for path, device in (
            ('/', '/dev/sda2'),
            ('/srv/a b', '/dev/sda2'),
            ('/srv/twice', '/dev/mapper/x\\y'),
            # no device, no mount point
            ('/proc', None),
            ('/srv/none', None),
            ('/srv', None),
        ):
            self.assertEqual(device, self.call(mounts.device, path), path)

    def test_is_mount_point(self):
        for path, expected in (
            ('/', True),
            ('/proc', True),
            ('/srv/a b', True),
            ('/srv/none', True),
            ('/srv', False),
            ('/srv/a', False),
        ):
            self.assertEqual(
                expected, self.call(mounts.is_mount_point, path), path
            )

    def test_of_this_host(self):
        self.assertTrue(mounts.is_mount_point('/proc'))
        self.assertIsNone(mounts.device('/proc'))
