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
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import hwdb
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import sysfs
from tests.fakes import disks as fake_disks

# of the project iocost-benchmarks
PROPERTIES = """\
DEVNAME=/dev/nvme0n1
ID_MODEL=HFS256GD9TNG-62A0A
IOCOST_SOLUTIONS=isolation isolated-bandwidth bandwidth naive
IOCOST_MODEL_ISOLATION=rbps=1 rseqiops=1 rrandiops=1 wbps=1 wseqiops=1 \
wrandiops=1
IOCOST_QOS_ISOLATION=rpct=0.00 rlat=8807 wpct=0.00 wlat=59023 min=100.00 \
max=100.00
IOCOST_MODEL_NAIVE=rbps=1091439492 rseqiops=52286 rrandiops=63784 \
wbps=192329466 wseqiops=12309 wrandiops=16119
IOCOST_QOS_NAIVE=rpct=99.00 rlat=8807 wpct=99.00 wlat=59023 min=75.00 \
max=100.00
"""


class HardwareDatabaseTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path
        self.exclusive = self.patch(
            block_queue, 'exclusive_device', return_value='nvme0n1'
        )
        self.patch(sysfs, 'device_path', side_effect='/sys/of/{}'.format)
        self.disk = fake_disks.make_disk(
            'a', device='/dev/nvme0n1p1', model='HFS256GD9TNG'
        )

    def patch(self, *args, **kwargs):
        patch = mock.patch.object(*args, **kwargs)
        self.addCleanup(patch.stop)
        return patch.start()

    def udevadm(self, script):
        """Have a script of a shell in the place of ``udevadm``."""
        with open(os.path.join(self.path, 'udevadm'), 'w') as stream:
            stream.write(f'#!/bin/sh\n{script}\n')
        os.chmod(stream.name, 0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{self.path}:/usr/bin:/bin')
        )

    def properties(self, text):
        path = os.path.join(self.path, 'properties')
        with open(path, 'w') as stream:
            stream.write(text)
        wanted = 'info --query=property --path=/sys/of/nvme0n1'
        self.udevadm(f'test "$*" = "{wanted}" && cat {path}')

    def refused(self):
        return str(
            self.assertRaises(exception.DiskError, hwdb.read_model, self.disk)
        )

    def test_naive_solution(self):
        self.properties(PROPERTIES)
        self.assertEqual(
            io_model.Model(
                rbps=1091439492,
                rseqiops=52286,
                rrandiops=63784,
                wbps=192329466,
                wseqiops=12309,
                wrandiops=16119,
                latency=15,
                source='hwdb',
            ),
            hwdb.read_model(self.disk),
        )
        self.exclusive.assert_called_once_with('/dev/nvme0n1p1')

    def test_no_solution(self):
        self.properties('DEVNAME=/dev/nvme0n1\nID_MODEL=HFS256GD9TNG\n')
        said = self.refused()
        self.assertIn('no iocost solution for disk a', said)
        self.assertIn("model 'HFS256GD9TNG'", said)
        self.assertIn('measure the disk', said)

    def test_malformed(self):
        self.properties('IOCOST_MODEL_NAIVE=rbps=fast\n')
        self.assertEqual(
            "IOCOST_MODEL_NAIVE of nvme0n1: rbps 'fast' is not an integer "
            'from 1 to 1073741823000000',
            self.refused(),
        )

    def test_no_drive_of_its_own(self):
        self.exclusive.side_effect = exception.DiskError('of several devices')
        self.assertEqual('of several devices', self.refused())

    def test_udev_does_not_know_the_device(self):
        self.udevadm('echo Unknown device >&2; exit 1')
        self.assertIn('Unknown device', self.refused())

    def test_no_udevadm(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.path))
        self.assertIn('udevadm: ', self.refused())
