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

"""The geometry of thin pools, and devices of groups that are prepared."""

import json
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm

GIB = 1 << 30
TIB = 1 << 40


class GeometryTestCase(testtools.TestCase):
    def test_cases(self):
        for size, chunk_kib, metadata_mib in (
            (GIB, 64, 16),
            (8 * GIB, 64, 16),
            (100 * GIB, 64, 200),
            (TIB, 64, 2048),
            (2 * TIB, 128, 2048),
            (20 * TIB, 2048, 1280),
        ):
            self.assertEqual(
                (chunk_kib << 10, metadata_mib << 20),
                lvm_prepare.pool_geometry(size),
            )


class DevicesFileTestCase(testtools.TestCase):
    """A device with the volume group ``group``, which may be a disk's.

    LVM sees it only where a command names it. ``settings`` are LVM's.
    """

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.system = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.EnvironmentVariable('LVM_SYSTEM_DIR', self.system)
        )
        self.group = fake_lvm.GROUP
        self.settings = {
            'use_devicesfile': '1',
            'devicesfile': '"system.devices"',
        }
        self.done = []
        device = block.Device(
            fake_lvm.DEVICE, signatures=(('LVM2_member', '', 'x'),)
        )
        for target, name, value in (
            (block, 'inspect', lambda path: device),
            (commands, 'run', self.run_),
            (lvm_prepare, '_update_identity', mock.Mock()),
            (lvm_prepare, '_create_pool_or_zero', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def run_(self, command, *arguments):
        if command == 'lvmconfig':
            # of an older LVM
            if not self.settings:
                raise exception.DiskError('lvmconfig')
            return ''.join(
                f'{name}={value}\n'
                for name, value in self.settings.items()
                if f'devices/{name}' in arguments
            )
        if 'lvmdevices' in arguments:
            self.done.append((command, *arguments))
            return ''
        position = arguments.index('--devices')
        self.assertEqual(fake_lvm.DEVICE, arguments[position + 1])
        if command == 'pvs':
            found = {'pv': [{'vg_name': self.group}]}
            return json.dumps({'report': [found]})
        if command == 'lvm':
            found = json.loads(fake_lvm.FakeLVM().report())
            found['report'][0]['vg'][0]['vg_exported'] = '1'
            return json.dumps(found)
        self.done.append((command, *arguments[:position]))
        return ''

    def prepare(self):
        """Prepare the device; returns the commands that change something."""
        self.done.clear()
        lvm_prepare.prepare(
            self.root,
            fake_lvm.DEVICE,
            None,
            None,
            False,
            lvm_prepare.Options(),
        )
        os.unlink(os.path.join(self.root, fake_lvm.UUID))
        return self.done

    def make_file(self, name='system.devices'):
        os.makedirs(os.path.join(self.system, 'devices'), exist_ok=True)
        path = os.path.join(self.system, 'devices', name)
        with open(path, 'w', encoding='utf-8'):
            pass

    def test_a_device_of_others(self):
        self.make_file()
        for self.group in ('other', 'diskplacer-other'):
            self.assertRaises(exception.DiskError, self.prepare)
            self.assertEqual([], self.done)

    def test_a_disk_of_another_host(self):
        imported = [
            ('vgimport', fake_lvm.GROUP),
            ('vgchange', '--activate', 'y', fake_lvm.GROUP),
        ]
        added = ('lvm', 'lvmdevices', '--yes', '--adddev', fake_lvm.DEVICE)
        # a new file would hide the other disks
        self.assertEqual(imported, self.prepare())
        self.make_file()
        self.assertEqual([added, *imported], self.prepare())
        self.settings['use_devicesfile'] = '0'
        self.assertEqual(imported, self.prepare())
        self.settings.clear()
        self.assertEqual(imported, self.prepare())

    def test_a_file_with_another_name(self):
        self.settings['devicesfile'] = '"own.devices"'
        self.make_file()
        self.assertEqual('vgimport', self.prepare()[0][0])
        self.make_file('own.devices')
        self.assertIn('lvmdevices', self.prepare()[0])

    def test_release(self):
        lvm_prepare.release(self.root, fake_lvm.DEVICE)
        self.assertEqual([], self.done)
