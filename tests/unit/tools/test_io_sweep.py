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

import json
import os
import pathlib
from unittest import mock

import fixtures
import testtools

from tools import io_sweep


class QueueTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disk = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.disk / 'queue').mkdir()
        self.file = self.disk / 'queue' / 'scheduler'
        self.file.write_text('[none] mq-deadline\n')
        self.queue = io_sweep.Queue(self.disk)
        # the kernel's answers to what is written
        self.has = ['none', 'mq-deadline']
        self.useFixture(
            fixtures.MockPatchObject(pathlib.Path, 'write_text', self.written)
        )

    def written(self, name):
        if name not in self.has:
            raise OSError(22, 'Invalid argument')
        with open(self.file, 'w') as stream:
            stream.write(
                ' '.join(
                    f'[{one}]' if one == name else one for one in self.has
                )
            )

    def test_get(self):
        self.assertEqual('none', self.queue.get())
        with open(self.file, 'w') as stream:
            stream.write('none\n')
        self.assertEqual('none', self.queue.get())

    def test_usable(self):
        self.has.append('bfq')
        self.assertEqual(
            ['none', 'mq-deadline', 'bfq'],
            self.queue.usable(io_sweep.SCHEDULERS),
        )

    def test_only_the_one_in_use_needs_no_change(self):
        self.has.clear()
        self.assertEqual(['none'], self.queue.usable(['none']))

    def test_restored(self):
        with (
            testtools.ExpectedException(KeyboardInterrupt),
            self.queue.restored(),
        ):
            self.assertTrue(self.queue.set('mq-deadline'))
            raise KeyboardInterrupt
        self.assertEqual('none', self.queue.get())

    def test_not_allowed(self):
        with mock.patch.object(
            pathlib.Path, 'write_text', side_effect=PermissionError
        ):
            error = self.assertRaises(
                io_sweep.SweepError, self.queue.set, 'bfq'
            )
        self.assertIn('--scheduler none measures', str(error))


class DiskOfTest(testtools.TestCase):
    """A directory's device is whatever number its filesystem has."""

    def setUp(self):
        super().setUp()
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sys = top / 'sys'
        self.directory = top / 'data'
        self.directory.mkdir()
        number = os.stat(self.directory).st_dev
        self.link = self.sys / (
            f'dev/block/{os.major(number)}:{os.minor(number)}'
        )
        self.link.parent.mkdir(parents=True)

    def block(self, path, slaves=()):
        made = self.sys / 'devices' / path
        (made / 'slaves').mkdir(parents=True)
        for slave in slaves:
            (made / 'slaves' / slave.name).symlink_to(slave)
        return made

    def assertOn(self, disk):
        self.assertEqual(disk, io_sweep.disk_of(self.directory, self.sys))

    def test_disk(self):
        disk = self.block('sda')
        self.link.symlink_to(disk)
        self.assertOn(disk)

    def test_partition(self):
        disk = self.block('sda')
        part = self.block('sda/sda1')
        (part / 'partition').touch()
        self.link.symlink_to(part)
        self.assertOn(disk)

    def test_logical_volume_of_a_thin_pool(self):
        disk = self.block('sda')
        part = self.block('sda/sda1')
        (part / 'partition').touch()
        data, meta = (self.block(name, [part]) for name in ('dm-0', 'dm-1'))
        pool = self.block('dm-2', [data, meta])
        self.link.symlink_to(self.block('dm-3', [pool]))
        self.assertOn(disk)

    def test_several_disks(self):
        disks = [self.block(name) for name in ('sda', 'sdb')]
        self.link.symlink_to(self.block('md0', disks))
        error = self.assertRaises(
            io_sweep.SweepError, io_sweep.disk_of, self.directory, self.sys
        )
        self.assertIn('is on sda, sdb: must be on one disk', str(error))

    def test_no_disk(self):
        error = self.assertRaises(
            io_sweep.SweepError, io_sweep.disk_of, self.directory, self.sys
        )
        self.assertIn('is on no block device', str(error))


class SizesTest(testtools.TestCase):
    def test_each_load_has_its_size_in_its_files(self):
        jobs, size, block = [1, 2, 3, 16], 10 << 20, 4096
        files = io_sweep.sizes(size, jobs, block)
        self.assertEqual(16, len(files))
        for count in jobs:
            each = io_sweep.share(size, count, block)
            self.assertEqual(0, each % block)
            self.assertGreater((each + block) * count, size)
            for content in files[:count]:
                self.assertGreaterEqual(content, each)


class FiguresTest(testtools.TestCase):
    def job(self, size, ms, error=0):
        return {
            'error': error,
            'read': {'io_bytes': size, 'runtime': ms},
            'write': {'io_bytes': 0, 'runtime': 0},
        }

    def test_the_slowest_job_ends_it(self):
        printed = json.dumps(
            {'jobs': [self.job(20_000_000, 1000), self.job(20_000_000, 2000)]}
        )
        self.assertEqual((20, [20, 10]), io_sweep.figures(printed, 'read'))

    def test_nothing_done(self):
        good = self.job(1000, 10)
        for bad in (self.job(0, 0), self.job(1000, 10, error=5)):
            self.assertRaises(
                io_sweep.SweepError,
                io_sweep.figures,
                json.dumps({'jobs': [good, bad]}),
                'read',
            )


class LayTest(testtools.TestCase):
    def test_not_more_than_half_of_what_is_free(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        state = os.statvfs(directory)
        error = self.assertRaises(
            io_sweep.SweepError,
            io_sweep.lay,
            directory,
            [state.f_bavail * state.f_frsize // 3 * 2],
            4096,
        )
        self.assertIn('must be at most half of it', str(error))
        self.assertEqual([], list(directory.iterdir()))
