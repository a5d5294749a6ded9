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

from diskplacer_measure.sweep.measure import measured_disk
from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks
from tests.unit.diskplacer_measure.sweep import samples
from tests.unit.diskplacer_measure.sweep import world
from tests.unit.nova_diskplacer.agent import test_queue_tuner


class MeasuredDiskTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.world = self.useFixture(world.World())
        self.queue = self.world.kernel.queues[world.DEVICE]
        self.state = self.useFixture(fixtures.TempDir()).path
        borrowed = plain_queue.borrowed(self.state, samples.DISK, world.DEVICE)
        self.change = borrowed.__enter__()
        self.addCleanup(borrowed.__exit__, None, None, None)
        self.disk = measured_disk.MeasuredDisk.borrow(
            '/disks', samples.DISK, world.DEVICE, self.change
        )

    def test_servers_measure_with_the_disk_s_own_read_ahead(self):
        cell = samples.make_cell(1, host_scheduler='bfq', read_ahead_kb=4096)
        self.disk.prepare(cell)
        self.assertEqual('bfq', self.queue['scheduler'])
        self.assertEqual('128', self.queue['read_ahead_kb'])

    def test_bare_metal_has_that_of_the_cell(self):
        path = os.path.join(self.state, 'file')
        with open(path, 'w'):
            pass
        cell = samples.make_cell(read_ahead_kb=4096)
        self.disk.prepare(cell, path)
        self.assertEqual('4096', self.queue['read_ahead_kb'])
        self.disk.prepare(samples.make_cell(1))
        self.assertEqual('128', self.queue['read_ahead_kb'])

    def test_a_volume_has_a_queue_of_its_own(self):
        self.world.kernel.add('dm-3')
        path = os.path.join(self.state, 'volume')
        with open(os.path.join(self.state, 'dm-3'), 'w'):
            pass
        os.symlink('dm-3', path)
        self.useFixture(
            fixtures.MonkeyPatch('stat.S_ISBLK', lambda mode: True)
        )
        self.disk.prepare(samples.make_cell(read_ahead_kb=4096), path)
        volume = self.world.kernel.queues['dm-3']
        self.assertEqual('4096', volume['read_ahead_kb'])

    def test_another_scheduler(self):
        cell = samples.make_cell(host_scheduler='bfq')
        error = self.assertRaises(exception.DiskError, self.disk.check, cell)
        self.assertEqual(
            'sdx has the I/O scheduler none, not bfq: something else changed '
            'it',
            str(error),
        )

    def test_caches_of_vdisks_are_dropped(self):
        dropped = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'os.posix_fadvise',
                lambda file, *rest: dropped.append(
                    (os.readlink(f'/proc/self/fd/{file}'), rest)
                ),
            )
        )
        self.world.vdisks[samples.DISK] = [
            fake_disks.make_vdisk('1', 'a-server', 1)
        ]
        directory = os.path.join(self.world.path, samples.DISK, 'vdisks')
        os.makedirs(directory)
        path = os.path.join(directory, 'volume-1')
        with open(path, 'w'):
            pass
        self.disk.drop_caches()
        self.assertEqual([(path, (0, 0, os.POSIX_FADV_DONTNEED))], dropped)

    def test_where_vdisks_are(self):
        ours = fake_disks.make_vdisk('1', 'a-server', 1)
        self.world.vdisks[samples.DISK] = [ours]
        self.disk.require_servers(['a-server'])
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.disk.require_servers,
            ['a-server', 'other'],
        )
        self.assertIn('server other is on disk None', str(error))

    def test_the_queue_is_restored(self):
        with fixtures.MonkeyPatch(
            'nova_diskplacer.disks.measure.plain_queue.lock',
            lambda uuid, wait: fixtures.TempDir(),
        ):
            with plain_queue.borrowed(
                self.state, world.OTHER, world.DEVICE
            ) as change:
                change({'scheduler': 'bfq', 'read_ahead_kb': '0'})
                self.assertEqual('bfq', self.queue['scheduler'])
        self.assertEqual(test_queue_tuner.DEFAULTS, self.queue)


class RequireEmptyTest(testtools.TestCase):
    def test_vdisks(self):
        disk = fake_disks.make_disk(
            samples.DISK, held=[fake_disks.make_vdisk('1', None, 1)]
        )
        error = self.assertRaises(
            exception.DiskError, measured_disk.require_empty, disk
        )
        self.assertIn('has vdisks, volume-1: only a disk', str(error))

    def test_the_space_of_a_measurement(self):
        space = VDisk(volumes.TEMPORARY, '', None, 1 << 30, usable=False)
        measured_disk.require_empty(
            fake_disks.make_disk(samples.DISK, held=[space])
        )
