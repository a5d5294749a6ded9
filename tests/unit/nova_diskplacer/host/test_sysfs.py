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

"""What a made-up /sys says."""

import os
import threading
import time
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import sysfs


class SysfsTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.sys = self.useFixture(fixtures.TempDir()).path

    def add(self, number, path, **files):
        """Add a device; ``files`` are relative, with __ for /."""
        directory = os.path.join(self.sys, 'devices', path)
        self.write(directory, **files)
        os.makedirs(os.path.join(self.sys, 'dev/block'), exist_ok=True)
        os.symlink(directory, os.path.join(self.sys, 'dev/block', number))

    def write(self, directory, **files):
        """Write files into a directory."""
        os.makedirs(directory, exist_ok=True)
        for name, text in files.items():
            file = os.path.join(directory, name.replace('__', '/'))
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, 'w') as stream:
                stream.write(text + '\n')

    def look(self, number):
        major, minor = number.split(':')
        return sysfs.find_by_number(
            os.makedev(int(major), int(minor)), self.sys
        )

    def test_scsi_partition(self):
        pci = 'pci0000:00/0000:00:1f.2'
        self.write(os.path.join(self.sys, 'devices', pci), numa_node='1')
        disk = f'{pci}/ata1/host0/target0:0:0/0:0:0:0/block/sda'
        self.add(
            '8:0', disk, queue__rotational='1', device__model='ST2000NM  '
        )
        self.add('8:1', f'{disk}/sda1', partition='1')
        whole = sysfs.Block('/dev/sda', 'ST2000NM', True, 1)
        self.assertEqual(whole, self.look('8:0'))
        self.assertEqual(
            sysfs.Block('/dev/sda1', 'ST2000NM', True, 1), self.look('8:1')
        )

    def test_nvme(self):
        self.add(
            '259:0',
            'pci0000:80/0000:80:01.0/nvme/nvme0/nvme0n1',
            queue__rotational='0',
            device__model='Fast',
        )
        self.write(
            os.path.join(self.sys, 'devices/pci0000:80/0000:80:01.0'),
            numa_node='0',
        )
        block = self.look('259:0')
        self.assertEqual(sysfs.Block('/dev/nvme0n1', 'Fast', False, 0), block)

    def nvme(self, subsystem, *nodes):
        """Add a head, with a path by a controller for each node.

        As before Linux 6.15, which links to the paths below the head.
        """
        top = f'virtual/nvme-subsystem/nvme-subsys{subsystem}'
        name = f'nvme{subsystem}n1'
        self.add(
            f'259:{subsystem}',
            f'{top}/{name}',
            queue__rotational='0',
            device__model='Dual',
        )
        for number, node in enumerate(nodes):
            controller = os.path.join(
                self.sys, f'devices/pci{number}/nvme/nvme{number}'
            )
            self.write(controller, numa_node=node)
            path = f'{controller}/nvme{subsystem}c{number}n1'
            self.write(path, queue__scheduler='[none]')
            os.symlink(controller, f'{self.sys}/devices/{top}/nvme{number}')
        return os.path.join(self.sys, 'devices', top, name)

    def hold(self, lower, upper):
        """Have a virtual device be built on another device."""
        name = os.path.basename(lower)
        block = os.path.join(self.sys, 'class/block')
        os.makedirs(block, exist_ok=True)
        if not os.path.lexists(f'{block}/{name}'):
            os.symlink(lower, f'{block}/{name}')
        self.write(os.path.join(self.sys, 'devices', upper, 'slaves', name))

    def test_logical_block_size(self):
        disk = os.path.join(self.sys, 'devices/sda')
        self.write(disk, queue__logical_block_size='4096')
        self.write(f'{disk}/sda1', partition='1')
        block = os.path.join(self.sys, 'class/block')
        os.makedirs(block)
        os.symlink(disk, f'{block}/sda')
        os.symlink(f'{disk}/sda1', f'{block}/sda1')
        for name, size in (('sda', 4096), ('sda1', 4096), ('sdx', 512)):
            self.assertEqual(
                size, sysfs.logical_block_size(f'/dev/{name}', self.sys)
            )

    def test_what_a_device_is_built_on(self):
        devices = os.path.join(self.sys, 'devices')
        for lower, upper in (
            ('sda', 'dm-0'),
            ('sda', 'dm-1'),
            # a thin volume on its pool
            ('dm-0', 'dm-2'),
            ('dm-1', 'dm-2'),
            ('dm-2', 'dm-3'),
            # a volume on two disks
            ('sda', 'dm-4'),
            ('sdb', 'dm-4'),
        ):
            self.hold(os.path.join(devices, lower), upper)
            self.hold(os.path.join(devices, upper), 'virtual')
        for name in ('sda', 'sdb', 'sdc', 'dm-5'):
            self.hold(os.path.join(devices, name), 'virtual')
            os.makedirs(os.path.join(devices, name))
        for name, below, expected in (
            ('dm-3', ['/dev/sda'], True),
            ('dm-3', ['/dev/sda', '/dev/sdc'], True),
            # it has come back under another name
            ('dm-3', ['/dev/sdc'], False),
            ('dm-4', ['/dev/sda'], False),
            ('dm-4', ['/dev/sda', '/dev/sdb'], True),
            # the disk is a virtual device itself
            ('dm-3', ['/dev/dm-0', '/dev/dm-1'], True),
            # its table is empty
            ('dm-5', ['/dev/sda'], False),
            # sysfs does not show it
            ('dm-6', ['/dev/sda'], True),
        ):
            self.assertEqual(
                expected, sysfs.is_built_on(f'/dev/{name}', below, self.sys)
            )

    def test_nvme_multipath(self):
        for number, nodes, expected in (
            (0, ['1'], 1),
            (1, ['0'], 0),
            (2, ['1', '1'], 1),
            (3, ['0', '1'], None),
            (4, ['1', '-1'], None),
            (5, [], None),
        ):
            self.sys = self.useFixture(fixtures.TempDir()).path
            head = self.nvme(number, *nodes)
            self.assertEqual(
                sysfs.Block(f'/dev/nvme{number}n1', 'Dual', False, expected),
                self.look(f'259:{number}'),
            )
            self.assertEqual(
                [f'nvme{number}c{one}n1' for one in range(len(nodes))],
                [os.path.basename(one) for one in sysfs.nvme_paths(head)],
            )

    def test_encrypted_partition_of_nvme_multipath(self):
        head = self.nvme(0, '1')
        self.add(
            '259:9',
            'virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p1',
            partition='1',
        )
        self.hold(f'{head}/nvme0n1p1', 'virtual/block/dm-0')
        self.add('253:0', 'virtual/block/dm-0', queue__rotational='0')
        for number, name in (('259:9', 'nvme0n1p1'), ('253:0', 'dm-0')):
            self.assertEqual(
                sysfs.Block(f'/dev/{name}', 'Dual', False, 1),
                self.look(number),
            )

    def test_several_devices_below(self):
        """RAID, or several paths that device-mapper joins."""
        for nodes, models, expected in (
            (('1', '1'), ('A', 'A'), ('A', 1)),
            (('0', '0'), ('A', 'B'), ('', 0)),
            (('0', '1'), ('A', 'A'), ('A', None)),
            (('1', '-1'), ('', 'A'), ('', None)),
        ):
            self.sys = self.useFixture(fixtures.TempDir()).path
            for name, node, model in zip('ab', nodes, models, strict=True):
                disk = os.path.join(self.sys, f'devices/pci{name}/sd{name}')
                self.write(disk, numa_node=node, device__model=model)
                self.hold(disk, 'virtual/block/md0')
            self.add('9:0', 'virtual/block/md0', queue__rotational='1')
            self.hold(
                os.path.join(self.sys, 'devices/virtual/block/md0'),
                'virtual/block/dm-0',
            )
            self.add('253:0', 'virtual/block/dm-0', queue__rotational='1')
            for number in ('9:0', '253:0'):
                block = self.look(number)
                self.assertEqual(expected, (block.model, block.numa_node))

    def test_no_node(self):
        self.add('7:0', 'virtual/block/loop0', queue__rotational='1')
        self.assertEqual(
            sysfs.Block('/dev/loop0', '', True, None), self.look('7:0')
        )
        self.add('8:16', 'pci/sdb', numa_node='-1', queue__rotational='0')
        self.assertIsNone(self.look('8:16').numa_node)

    def test_no_device(self):
        block = self.look('0:42')
        self.assertEqual(sysfs.Block(), block)


class ChangeTestCase(testtools.TestCase):
    """A device hangs: the kernel makes whoever changes its queue wait."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.probes.TIMEOUT', 0.01)
        )
        self.written = []
        self.answers = threading.Event()
        self.addCleanup(self.answers.set)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.sysfs.write', self.write
            )
        )

    def write(self, path, text):
        if path == 'hanging':
            self.answers.wait()
        self.written.append((path, text))

    def test_others_are_changed(self):
        for _ in range(3):
            self.assertRaises(
                TimeoutError, sysfs.write_to_device, 'sda', 'hanging', '1'
            )
        # one write waits, and no other about that device is begun
        self.assertRaises(
            TimeoutError, sysfs.write_to_device, 'sda', 'other', '1'
        )
        self.assertEqual([], self.written)
        self.until('sdb', 'other', '2')
        self.answers.set()
        self.until('sda', 'other', '3')
        self.assertEqual(
            [('other', '2'), ('hanging', '1'), ('other', '3')], self.written
        )

    def until(self, device, path, text):
        """Change it as soon as that takes no longer than it may."""
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.probes.TIMEOUT', 60)
        )
        for _ in range(1000):
            try:
                sysfs.write_to_device(device, path, text)
            except TimeoutError:
                sysfs._pending[device][0].wait(60)
            else:
                return
        self.fail('it is not changed')

    def test_a_queue_is_not_read_while_it_is_written(self):
        """The kernel would have it wait for the write."""
        sys = self.useFixture(fixtures.TempDir()).path
        os.makedirs(f'{sys}/class/block/sda/queue')
        self.assertRaises(
            TimeoutError, sysfs.write_to_device, 'sda', 'hanging', '1'
        )
        for read in (
            lambda: block_queue.read('sda', sys),
            lambda: block_queue.read_setting('sda', 'scheduler', sys),
        ):
            with mock.patch.object(sysfs, 'read') as mock_read:
                self.assertRaises(TimeoutError, read)
            mock_read.assert_not_called()
        self.answers.set()
        self.until('sda', 'other', '3')
        self.assertEqual({}, block_queue.read('sda', sys).values)

    def test_work_of_another_thread_is_waited_for(self):
        """It is no sign of a device that hangs."""
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.probes.TIMEOUT', 60)
        )
        thread = threading.Thread(
            target=sysfs.write_to_device, args=('sda', 'hanging', '1')
        )
        thread.start()
        self.addCleanup(thread.join)
        while 'sda' not in sysfs._pending:
            time.sleep(0.001)
        threading.Timer(0.1, self.answers.set).start()
        sysfs.write_to_device('sda', 'other', '2')
        self.assertEqual([('hanging', '1'), ('other', '2')], self.written)

    def test_errors(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.probes.TIMEOUT', 60)
        )

        def refuse(path, text):
            raise PermissionError(path)

        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.host.sysfs.write', refuse)
        )
        for _ in range(2):
            self.assertRaises(
                PermissionError, sysfs.write_to_device, 'sda', 'path', '1'
            )
