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

"""Entries in a file like /etc/fstab."""

import os

import fixtures
import testtools

from nova_diskplacer.host import fstab

BEFORE = '# disks\n/dev/sda1 / ext4 defaults 0 1\n\n/dev/sdb /mnt/a xfs 0 0'


class FstabTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.fstab = os.path.join(self.directory, 'fstab')

    def read(self):
        with open(self.fstab) as stream:
            return stream.read()

    def test_add_and_remove(self):
        with open(self.fstab, 'w') as stream:
            stream.write(BEFORE)
        for _ in range(2):
            fstab.add(self.fstab, 'u-1', '/mnt/u-1')
        self.assertEqual(
            BEFORE + '\nUUID=u-1 /mnt/u-1 xfs nofail,noatime 0 0\n',
            self.read(),
        )
        for _ in range(2):
            fstab.remove(self.fstab, '/mnt/u-1')
        self.assertEqual(BEFORE + '\n', self.read())
        self.assertEqual(['fstab'], os.listdir(self.directory))

    def test_only_the_entry_itself_is_removed(self):
        with open(self.fstab, 'w') as stream:
            stream.write(BEFORE + '\n# /dev/sdc /mnt/a xfs\n')
        fstab.remove(self.fstab, '/mnt')
        fstab.remove(self.fstab, '/mnt/a/b')
        self.assertEqual(BEFORE + '\n# /dev/sdc /mnt/a xfs\n', self.read())

    def test_no_file_yet(self):
        fstab.remove(self.fstab, '/mnt/a b')
        self.assertFalse(os.path.exists(self.fstab))
        for _ in range(2):
            fstab.add(self.fstab, 'u-1', '/mnt/a b')
        self.assertEqual(
            'UUID=u-1 /mnt/a\\040b xfs nofail,noatime 0 0\n', self.read()
        )
