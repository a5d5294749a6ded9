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

from nova_diskplacer.host import devices
from nova_diskplacer.host.devices import Device

DISK = Device('uuid', 'sda', '8:0', rotational=True)


class StackTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.sys = self.useFixture(fixtures.TempDir()).path
        os.makedirs(f'{self.sys}/class/block')

    def device(self, name, number, below=(), uuid='', disk=''):
        path = f'{self.sys}/devices/{disk or "."}/{name}'
        os.makedirs(f'{path}/holders')
        if disk:
            self.write(f'{path}/partition', '1')
        if uuid:
            os.mkdir(f'{path}/dm')
            self.write(f'{path}/dm/uuid', uuid)
        self.write(f'{path}/dev', number)
        link = f'{self.sys}/class/block/{name}'
        os.symlink(path, link)
        for other in below:
            below_it = os.path.realpath(f'{self.sys}/class/block/{other}')
            os.symlink(path, f'{below_it}/holders/{name}')

    def write(self, path, text):
        with open(path, 'w') as stream:
            stream.write(text + '\n')

    def tops(self):
        return devices.submission_devices(DISK, self.sys)

    def test_whole(self):
        self.device('sda', '8:0')
        self.assertEqual({'8:0': False}, self.tops())

    def test_partition(self):
        self.device('sda', '8:0')
        self.device('sda1', '8:1', disk='sda')
        self.assertEqual({'8:1': False, '8:0': False}, self.tops())

    def test_encrypted(self):
        self.device('sda', '8:0')
        self.device('sda1', '8:1', disk='sda')
        self.device('dm-0', '253:0', ['sda1'], 'CRYPT-LUKS2-1-x')
        self.assertEqual({'253:0': False}, self.tops())

    def test_striped_vdisk(self):
        """Its device is on other disks, too."""
        self.device('sda', '8:0')
        self.device('sdb', '8:16')
        self.device('dm-0', '253:0', ['sda'], 'LVM-one')
        self.device('dm-1', '253:1', ['sdb'], 'LVM-other')
        self.device(
            'dm-2', '253:2', ['dm-0', 'dm-1'], 'LVM-diskplacer-striped-volume'
        )
        self.assertEqual({'253:0': True}, self.tops())

    def test_leg_that_is_moved(self):
        self.device('sda', '8:0')
        self.device('sdb', '8:16')
        self.device('dm-0', '253:0', ['sda'], 'LVM-one')
        self.device('dm-1', '253:1', ['sdb'], 'LVM-other')
        self.device(
            'dm-2', '253:2', ['dm-0', 'dm-1'], 'LVM-diskplacer-moving-volume.1'
        )
        self.device('dm-3', '253:3', ['dm-2'], 'LVM-diskplacer-striped-volume')
        self.assertEqual({'253:0': True}, self.tops())

    def test_volumes(self):
        """Thin ones too, which lie on those of their pool."""
        self.device('sda', '8:0')
        self.device('dm-0', '253:0', ['sda'], 'LVM-plain')
        self.device('dm-1', '253:1', ['sda'], 'LVM-x-tmeta')
        self.device('dm-2', '253:2', ['sda'], 'LVM-x-tdata')
        self.device('dm-3', '253:3', ['dm-1', 'dm-2'], 'LVM-x-tpool')
        self.device('dm-4', '253:4', ['dm-3'], 'LVM-thin')
        self.assertEqual({'253:0': True, '253:4': True}, self.tops())

    def test_gone(self):
        self.assertRaises(OSError, self.tops)
