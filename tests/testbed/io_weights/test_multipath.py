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

"""An NVMe disk with native multipath, as most drives with two ports have it.

Its block device is virtual, and all that the kernel does is below it.
"""

import os
import re
import shutil
import tempfile

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import smart
from tests import shell
from tests.testbed import io_weights
from tools.testbed import machine
from tools.testbed import udev

INDEX = len(io_weights.DISKS) - 1
# Seconds that a disk may take to answer, in a guest on a busy machine.
PATIENCE = 300.0


class MultipathTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        for name in ('TIMEOUT', 'HUNG_AFTER'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_diskplacer.host.probes.{name}', PATIENCE
                )
            )
        path = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, path)
        self.root = os.path.join(path, 'disks')
        fstab = os.path.join(path, 'fstab')
        link = machine.link(INDEX, io_weights.DISKS[INDEX])
        udev.settle()
        self.disk = prepare.prepare(self.root, link, fstab=fstab)
        self.addCleanup(
            shell.run, 'wipefs', '--all', '--force', self.disk.device
        )
        self.addCleanup(udev.settle)
        self.addCleanup(prepare.forget, self.root, self.disk.uuid, fstab)

    def counters(self, device):
        return diskstats.read_disks([device])[device.number]

    def test_all_that_the_agent_reads(self):
        disk = discover.inspect(self.root, self.disk.uuid)
        self.assertEqual(
            (1, 'QEMU NVMe Ctrl', 'ssd'),
            (disk.numa_node, disk.model, disk.medium),
        )
        found, missing = sampler.find_devices([disk])
        self.assertEqual({}, missing)
        device = found[disk.uuid]
        head = os.path.basename(disk.device)
        self.assertEqual(head, device.name)
        (path,) = device.paths
        self.assertEqual(head, re.sub(r'c\d+', '', path))

        serial = machine.serial(INDEX, io_weights.DISKS[INDEX])
        self.assertEqual(serial, smart.read(head).serial)

        before = self.counters(device)
        shell.run(
            'dd', f'if={disk.device}', 'of=/dev/null', 'bs=1M', 'count=8',
            'iflag=direct',
        )  # fmt: skip
        done = self.counters(device).since(before)
        self.assertLessEqual(8 << 20, done.read_bytes)
        self.assertLess(0, done.busy_seconds)

        values = block_queue.read(head).values
        self.assertEqual({'max_sectors_kb', 'read_ahead_kb'}, values.keys())
        block_queue.write(head, 'read_ahead_kb', '256')
        self.addCleanup(
            block_queue.write, head, 'read_ahead_kb', values['read_ahead_kb']
        )
        self.assertEqual('256', block_queue.read(head).values['read_ahead_kb'])

        error = self.assertRaises(
            exception.ContentionError,
            controllers.active_controller,
            device,
            cgroups.hierarchy(),
            'auto',
        )
        self.assertIn('nvme_core.multipath=N', str(error))
