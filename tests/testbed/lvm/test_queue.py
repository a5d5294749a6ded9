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

"""Whose queue is set where the device mapper is in between."""

import os

import fixtures
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import libvirt_servers
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

GROUP = 'others'


def kernel_name(path):
    return os.path.basename(os.path.realpath(path))


class QueueTest(base.LVMTestCase):
    def settings(self):
        """Return the settings of all queues that there are."""
        return {
            name: dict(block_queue.read(name).values)
            for name in os.listdir('/sys/block')
        }

    def test_the_vdisks_of_a_volume_group(self):
        device = self.spare[0]
        uuid = self.prepared(device, zeroed=False).uuid
        self.addCleanup(base.purge, uuid)
        for name in ('volume-1', 'volume-2'):
            volumes.create(uuid, name, name, 's', 16 * base.MIB)
        disk = discover.inspect(self.root, uuid)
        conf = cfg.ConfigOpts()
        options.register_opts(conf)
        conf([], default_config_files=[])
        state = self.useFixture(fixtures.TempDir()).path
        conf.set_override('state_dir', state, 'diskplacer_agent')
        server = libvirt_servers.Server(
            's',
            's',
            {'diskplacer:profile': 'hadoop'},
            (naming.device_path(uuid, 'volume-1'),),
            {},
            True,
            False,
            '',
        )
        before = self.settings()
        # not the profile's
        block_queue.write(kernel_name(device), 'scheduler', 'none')
        block_queue.write(kernel_name(device), 'read_ahead_kb', '64')
        own = self.settings()[kernel_name(device)]
        queue_tuner.QueueTuner(conf).apply([server], [disk])
        after = self.settings()
        now = after.pop(kernel_name(device))
        self.assertEqual('mq-deadline', now['scheduler'])
        self.assertEqual('1024', now['read_ahead_kb'])
        before.pop(kernel_name(device))
        self.assertEqual(before, after)
        queue_tuner.QueueTuner(conf).apply([], [disk])
        self.assertEqual(own, self.settings()[kernel_name(device)])

    def test_a_logical_volume_that_is_not_alone(self):
        device = self.spare[1]
        base.erase(device)
        shell.run('vgcreate', GROUP, device)
        shell.run('lvcreate', '-n', 'one', '-L', '100M', GROUP)
        one = kernel_name(f'/dev/{GROUP}/one')
        self.assertEqual(
            kernel_name(device), block_queue.exclusive_device(f'/dev/{one}')
        )
        shell.run('lvcreate', '-n', 'two', '-L', '100M', GROUP)
        two = kernel_name(f'/dev/{GROUP}/two')
        error = self.assertRaises(
            exception.DiskError, block_queue.exclusive_device, f'/dev/{one}'
        )
        self.assertIn(two, str(error))

    def test_several_devices(self):
        for device in self.spare:
            base.erase(device)
        shell.run('vgcreate', GROUP, *self.spare)
        self.addCleanup(shell.run, 'vgremove', '--force', '--yes', GROUP)
        self.addCleanup(udev.settle)
        shell.run('lvcreate', '-n', 'one', '-i', '2', '-L', '100M', GROUP)
        one = kernel_name(f'/dev/{GROUP}/one')
        error = self.assertRaises(
            exception.DiskError, block_queue.exclusive_device, f'/dev/{one}'
        )
        self.assertIn('several devices', str(error))

    def test_an_encrypted_device(self):
        device = self.spare[1]
        base.erase(device)
        key = os.path.join(self.useFixture(fixtures.TempDir()).path, 'key')
        with open(key, 'wb') as stream:
            stream.write(bytes(32))
        shell.run(
            'cryptsetup', 'open', '--type', 'plain', '--cipher',
            'aes-xts-plain64', '--key-size', '256', '--key-file', key,
            device, GROUP,
        )  # fmt: skip
        self.addCleanup(shell.run, 'cryptsetup', 'close', GROUP)
        mapped = kernel_name(f'/dev/mapper/{GROUP}')
        self.assertEqual(
            kernel_name(device), block_queue.exclusive_device(f'/dev/{mapped}')
        )
