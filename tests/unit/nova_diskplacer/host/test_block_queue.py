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
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue


class Sysfs(fixtures.Fixture):
    """Block devices in a tree like that of sysfs."""

    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        for directory in ('class/block', 'dev/block', 'devices'):
            os.makedirs(os.path.join(self.path, directory))
        # of a machine whose root filesystem is elsewhere
        status = os.stat('/')
        self.root_link = os.path.join(
            self.path,
            'dev/block',
            f'{os.major(status.st_dev)}:{os.minor(status.st_dev)}',
        )

    def disk(self, name, *partitions, slaves=(), holders=(), **values):
        """Add a whole device, on others if it has slaves."""
        path = self._add(name, f'devices/{name}', slaves, holders)
        os.makedirs(f'{path}/queue')
        self.write(path, 'dev', '8:0')
        self.write(path, 'diskseq', '7')
        values = {'scheduler': '[none] bfq', 'nr_requests': '64'} | values
        for setting, value in values.items():
            self.write(path, f'queue/{setting}', value)
        for part in partitions:
            self._add(part, f'devices/{name}/{part}', (), ())
            self.write(f'{path}/{part}', 'partition', '1')
        return path

    def root(self, name):
        """Have the root filesystem on a device."""
        os.symlink(
            os.path.realpath(f'{self.path}/class/block/{name}'),
            self.root_link,
        )

    def link(self, number, name):
        """Have a device be found by its number, major:minor."""
        path = os.path.realpath(f'{self.path}/class/block/{name}')
        os.symlink(path, f'{self.path}/dev/block/{number}')

    def hold(self, lower, upper):
        """Have one device made of another."""
        for name, directory, other in (
            (lower, 'holders', upper),
            (upper, 'slaves', lower),
        ):
            path = os.path.realpath(f'{self.path}/class/block/{name}')
            self.write(path, f'{directory}/{other}', '')

    def head(self, name='nvme7n1', paths=('nvme7c0n1', 'nvme7c1n1')):
        """Add an NVMe disk with native multipath."""
        subsystem = f'{self.path}/devices/subsystem'
        path = self._add(name, f'devices/subsystem/{name}', (), ())
        os.makedirs(f'{path}/queue')
        for setting, value in (
            ('dev', '259:7'),
            ('queue/rotational', '0'),
            ('queue/scheduler', 'none'),
            ('queue/nr_requests', '128'),
            ('queue/read_ahead_kb', '128'),
        ):
            self.write(path, setting, value)
        for number, one in enumerate(paths):
            controller = f'{self.path}/devices/nvme{number}'
            os.makedirs(f'{controller}/{one}')
            os.symlink(controller, f'{subsystem}/nvme{number}')
        return path

    def _add(self, name, where, slaves, holders):
        path = os.path.join(self.path, where)
        for directory in ('slaves', 'holders'):
            os.makedirs(f'{path}/{directory}')
        os.symlink(path, f'{self.path}/class/block/{name}')
        for lower in slaves:
            self.hold(lower, name)
        return path

    def write(self, path, name, text):
        with open(f'{path}/{name}', 'w', encoding='utf-8') as stream:
            stream.write(text + '\n')


class ServingTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.sysfs = self.useFixture(Sysfs())

    def serving(self, device):
        return block_queue.exclusive_device(device, self.sysfs.path)

    def refuse(self, device, *words):
        error = self.assertRaises(exception.DiskError, self.serving, device)
        for word in words:
            self.assertIn(word, str(error))

    def test_a_whole_disk(self):
        self.sysfs.disk('sda')
        self.sysfs.disk('sdb')
        self.assertEqual('sdb', self.serving('/dev/sdb'))

    def test_the_only_partition(self):
        self.sysfs.disk('nvme0n1', 'nvme0n1p1')
        self.assertEqual('nvme0n1', self.serving('/dev/nvme0n1p1'))

    def test_one_of_several_partitions(self):
        self.sysfs.disk('sda', 'sda1', 'sda2', 'sda3')
        self.refuse('/dev/sda3', '/dev/sda3 shares', 'sda with', 'sda1, sda2')

    def test_a_disk_that_has_partitions(self):
        self.sysfs.disk('sda', 'sda1')
        self.refuse('/dev/sda', 'partitions', 'sda1')

    def test_encrypted(self):
        self.sysfs.disk('sda')
        self.sysfs.disk('dm-0', slaves=['sda'])
        self.assertEqual('sda', self.serving('/dev/dm-0'))

    def test_encrypted_partition(self):
        self.sysfs.disk('sda', 'sda1')
        self.sysfs.disk('dm-0', slaves=['sda1'])
        self.assertEqual('sda', self.serving('/dev/dm-0'))
        self.sysfs.disk('sdb', 'sdb1', 'sdb2')
        self.sysfs.disk('dm-1', slaves=['sdb1'])
        self.refuse('/dev/dm-1', 'sdb2')

    def test_a_logical_volume_among_others(self):
        self.sysfs.disk('sda')
        self.sysfs.disk('dm-0', slaves=['sda'])
        self.sysfs.disk('dm-1', slaves=['sda'])
        self.refuse('/dev/dm-0', 'holders', 'dm-1')

    def test_a_physical_volume_and_its_volumes(self):
        # they are the vdisks
        self.sysfs.disk('sda')
        self.sysfs.disk('dm-0', slaves=['sda'])
        self.sysfs.disk('dm-1', slaves=['sda'])
        self.assertEqual('sda', self.serving('/dev/sda'))

    def test_a_physical_volume_on_a_partition_whose_disk_is_held(self):
        path = self.sysfs.disk('sda', 'sda1')
        self.sysfs.disk('dm-0')
        self.sysfs.write(path, 'holders/dm-0', '')
        self.refuse('/dev/sda1', 'holders', 'dm-0')

    def test_several_devices(self):
        self.sysfs.disk('sda')
        self.sysfs.disk('sdb')
        self.sysfs.disk('md0', slaves=['sda', 'sdb'])
        self.refuse('/dev/md0', 'several devices: sda, sdb')

    def test_nvme_multipath(self):
        self.sysfs.head()
        self.assertEqual('nvme7n1', self.serving('/dev/nvme7n1'))
        self.sysfs.disk('dm-0', slaves=['nvme7n1'])
        self.assertEqual('nvme7n1', self.serving('/dev/dm-0'))
        self.sysfs.disk('dm-1', slaves=['nvme7n1'])
        self.refuse('/dev/dm-0', 'holders', 'dm-1')

    def test_the_root_disk(self):
        self.sysfs.disk('sda')
        self.sysfs.root('sda')
        self.refuse('/dev/sda', 'root filesystem')

    def test_the_disk_below_the_root(self):
        self.sysfs.disk('sda', 'sda1')
        self.sysfs.disk('dm-0', slaves=['sda1'])
        self.sysfs.root('dm-0')
        self.refuse('/dev/sda1', 'root filesystem')

    def test_no_device(self):
        self.refuse('/dev/sdx', 'does not exist')
        self.refuse('', 'not known')

    def test_no_queue(self):
        path = self.sysfs.disk(
            'sda',
        )
        for name in os.listdir(f'{path}/queue'):
            os.unlink(f'{path}/queue/{name}')
        os.rmdir(f'{path}/queue')
        self.refuse('/dev/sda', 'no queue')


class ReadTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.sysfs = self.useFixture(Sysfs())

    def test_read(self):
        path = self.sysfs.disk(
            'sda', scheduler='none [mq-deadline] bfq', read_ahead_kb='128'
        )
        os.makedirs(f'{path}/mq/0')
        self.sysfs.write(path, 'mq/0/nr_tags', '62')
        self.assertEqual(
            block_queue.Queue(
                'sda',
                '7',
                ('none', 'mq-deadline', 'bfq'),
                62,
                {
                    'scheduler': 'mq-deadline',
                    'nr_requests': '64',
                    'read_ahead_kb': '128',
                },
            ),
            block_queue.read('sda', self.sysfs.path),
        )

    def test_no_scheduler_can_be_chosen(self):
        path = self.sysfs.disk('sda', scheduler='none')
        os.unlink(f'{path}/diskseq')
        self.assertEqual(
            block_queue.Queue('sda', '', (), None, {'nr_requests': '64'}),
            block_queue.read('sda', self.sysfs.path),
        )

    def test_nvme_multipath(self):
        """The head has no requests of its own."""
        self.sysfs.head()
        self.assertEqual(
            {'read_ahead_kb': '128'},
            block_queue.read('nvme7n1', self.sysfs.path).values,
        )

    def test_sequence(self):
        path = self.sysfs.disk('sda')
        self.assertEqual('7', block_queue.diskseq('sda', self.sysfs.path))
        os.unlink(f'{path}/diskseq')
        self.assertEqual('', block_queue.diskseq('sda', self.sysfs.path))

    def test_no_device(self):
        for call in (block_queue.read, block_queue.diskseq):
            self.assertRaises(OSError, call, 'sda', self.sysfs.path)

    def test_write(self):
        path = self.sysfs.disk('sda')
        block_queue.write('sda', 'nr_requests', '99', self.sysfs.path)
        with open(f'{path}/queue/nr_requests', encoding='utf-8') as stream:
            self.assertEqual('99\n', stream.read())
        # nothing that is not there is made
        self.assertRaises(
            OSError, block_queue.write, 'sda', 'nomerges', '1', self.sysfs.path
        )
