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

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import naming
from tests.unit.nova_diskplacer.disks.lvm.test_report import NAME
from tests.unit.nova_diskplacer.disks.lvm.test_report import UUID


class NamesTestCase(testtools.TestCase):
    def test_volumes(self):
        for vdisk, name in (
            ('volume-1', 'volume-1'),
            ('snapshot-1', '_snapshot-1'),
            ('unmanaged-1', 'unmanaged-1'),
        ):
            self.assertEqual(name, naming.volume_name(vdisk))
            self.assertEqual(
                f'/dev/{NAME}/{name}', naming.device_path(UUID, vdisk)
            )
        for vdisk in ('', 'pool', '-a', '.', '..', 'a/b', 'a b', 'a' * 64):
            self.assertRaises(exception.DiskError, naming.volume_name, vdisk)

    def test_groups(self):
        self.assertEqual(NAME, naming.group_name(UUID))
        for uuid in ('', UUID.upper(), UUID + '\n', '../' + UUID, 'x'):
            self.assertRaises(exception.DiskError, naming.group_name, uuid)

    def test_entries(self):
        root = self.useFixture(fixtures.TempDir()).path
        entry = os.path.join(root, UUID)
        self.assertFalse(naming.is_entry(entry))
        os.symlink('/dev/' + NAME, entry)
        self.assertTrue(naming.is_entry(entry))
        other = os.path.join(root, UUID.replace('0', '1'))
        os.symlink('/dev/' + NAME, other)
        self.assertFalse(naming.is_entry(other))
        os.mkdir(os.path.join(root, 'directory'))
        self.assertFalse(naming.is_entry(os.path.join(root, 'directory')))
