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

"""Snapshots, clones, reverts and clears of vdisks on real XFS."""

import os
import threading

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import VDisk
from tests import loops
from tests import shell
from tests.functional.disks import base

MIB = base.MIB


class SnapshotTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.fill('volume-1', b'a')

    def snapshot(self, name='snapshot-1', snapshot_id='1s'):
        copies.snapshot(self.disk, 'volume-1', name, snapshot_id)

    def test_frozen(self):
        self.snapshot()
        self.fill('volume-1', b'b')
        self.assertEqual(b'a' * 8 * MIB, self.content('snapshot-1'))
        self.assertEqual(b'b' * 8 * MIB, self.content())
        self.assertEqual(
            VDisk('snapshot-1', '1s', None, 8 * MIB),
            vdisks.scan(self.disk)[0],
        )
        vdisks.delete(self.disk, 'snapshot-1')
        self.assertEqual(b'b' * 8 * MIB, self.content())
        self.assertEqual(['volume-1'], self.names())

    def test_modes(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.snapshot()
        copies.clone(self.disk, 'volume-1', 'volume-2', '2', 8 * MIB)
        for name, mode in (
            ('volume-1', 0o600),
            ('volume-2', 0o600),
            ('snapshot-1', 0o400),
        ):
            status = os.stat(self.path(name))
            self.assertEqual(
                (mode, 0, 0),
                (status.st_mode & 0o7777, status.st_uid, status.st_gid),
            )

    def test_again(self):
        self.snapshot()
        self.fill('volume-1', b'b')
        self.snapshot()
        self.assertEqual(b'a' * 8 * MIB, self.content('snapshot-1'))
        error = self.assertRaises(
            exception.DiskError, self.snapshot, snapshot_id='2s'
        )
        self.assertIn("belongs to volume '1s'", str(error))

    def test_one_moment_while_it_is_written(self):
        """Two blocks that are written in turn never differ by two writes."""
        stop = threading.Event()

        def write():
            with open(self.path(), 'r+b', buffering=0) as stream:
                number = 0
                while not stop.is_set():
                    number += 1
                    for offset in (0, 5 * MIB):
                        text = b'%08d' % number
                        os.pwrite(stream.fileno(), text, offset)

        self.write('volume-1', b'%08d' % 0)
        self.write('volume-1', b'%08d' % 0, 5)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(30):
                self.snapshot(f'snapshot-{number}', f'{number}s')
        finally:
            stop.set()
            writer.join()
        seen = []
        for number in range(30):
            content = self.content(f'snapshot-{number}')
            first, second = (
                int(content[offset : offset + 8]) for offset in (0, 5 * MIB)
            )
            self.assertIn(first - second, (0, 1))
            seen.append(first)
        self.assertEqual(sorted(seen), seen)
        self.assertGreater(seen[-1], seen[0])

    def test_killed_at_any_step_leaves_nothing(self):
        for module, step in (
            (os, 'setxattr'),
            (copies.fcntl, 'ioctl'),
            (os, 'link'),
        ):
            with base.killed_before(self, module, step):
                self.snapshot()
            self.assertEqual(['volume-1'], self.entries())
        self.snapshot()

    def test_of_nothing(self):
        error = self.assertRaises(
            exception.DiskError,
            copies.snapshot,
            self.disk,
            'volume-9',
            'snapshot-1',
            '1s',
        )
        self.assertIn('there is no vdisk volume-9', str(error))

    def test_filesystem_without_reflinks(self):
        device = self.useFixture(loops.LoopDevice(1)).device
        shell.run('mkfs.xfs', '-q', '-m', 'reflink=0', device)
        target = self.useFixture(fixtures.TempDir()).path
        shell.run('mount', device, target)
        self.disk = prepare.prepare(self.root, target).path
        self.create()
        error = self.assertRaises(exception.DiskError, self.snapshot)
        self.assertIn('cannot share blocks', str(error))
        self.assertEqual(['volume-1'], self.entries())


class CloneTestCase(base.VDiskTestCase):
    def clone(self, source='volume-1', mib=8, volume_id='2'):
        copies.clone(self.disk, source, 'volume-2', volume_id, mib * MIB)

    def setUp(self):
        super().setUp()
        self.create()
        self.fill('volume-1', b'a')

    def test_larger(self):
        self.clone(mib=50)
        self.assertEqual(
            b'a' * 8 * MIB + bytes(42 * MIB), self.content('volume-2')
        )
        self.assertAllocated('volume-2')
        self.assertEqual(
            VDisk('volume-2', '2', None, 50 * MIB),
            vdisks.scan(self.disk)[1],
        )

    def test_of_a_snapshot(self):
        copies.snapshot(self.disk, 'volume-1', 'snapshot-1', '1s')
        self.fill('volume-1', b'b')
        self.clone('snapshot-1')
        self.fill('volume-2', b'c')
        for name, byte in (
            ('volume-1', b'b'),
            ('volume-2', b'c'),
            ('snapshot-1', b'a'),
        ):
            self.assertEqual(byte * 8 * MIB, self.content(name))

    def test_what_the_source_lacks_is_allocated(self):
        self.punch('volume-1', 2, 3)
        vdisks.extend(self.disk, 'volume-1', 8 * MIB)
        self.clone()
        self.assertEqual(
            b'a' * 2 * MIB + bytes(3 * MIB) + b'a' * 3 * MIB,
            self.content('volume-2'),
        )
        self.assertAllocated('volume-2')

    def test_again(self):
        self.clone()
        self.write('volume-2', b'mine')
        self.clone()
        self.assertEqual(b'mine', self.content('volume-2')[:4])
        self.assertRaises(exception.DiskError, self.clone, volume_id='3')

    def test_smaller(self):
        error = self.assertRaises(exception.DiskError, self.clone, mib=7)
        self.assertIn('not enough for a copy of volume-1', str(error))
        self.assertEqual(['volume-1'], self.entries())

    def test_no_space(self):
        error = self.assertRaises(exception.DiskError, self.clone, mib=2000)
        self.assertIn('No space left', str(error))
        self.assertEqual(['volume-1'], self.entries())

    def test_killed_at_any_step_leaves_nothing(self):
        for module, step in (
            (copies.fcntl, 'ioctl'),
            (os, 'posix_fallocate'),
            (os, 'setxattr'),
            (os, 'link'),
        ):
            with base.killed_before(self, module, step):
                self.clone(mib=9)
            self.assertEqual(['volume-1'], self.entries())
        self.clone(mib=9)


class RevertTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.fill('volume-1', b'a')
        copies.snapshot(self.disk, 'volume-1', 'snapshot-1', '1s')
        vdisks.extend(self.disk, 'volume-1', 10 * MIB)
        self.fill('volume-1', b'b')
        self.before = b'b' * 10 * MIB
        self.after = b'a' * 8 * MIB + bytes(2 * MIB)

    def revert(self):
        copies.revert(self.disk, 'volume-1', 'snapshot-1')

    def test_revert(self):
        os.chown(self.path(), 65534, 65533)
        os.chmod(self.path(), 0o640)
        known = vdisks.scan(self.disk)
        for _ in range(2):
            self.revert()
            self.assertEqual(self.after, self.content())
            self.assertEqual(known, vdisks.scan(self.disk))
            self.assertAllocated()
            status = os.stat(self.path())
            self.assertEqual(
                (0o640, 65534, 65533),
                (status.st_mode & 0o7777, status.st_uid, status.st_gid),
            )
            self.fill('volume-1', b'c')
        self.assertEqual(b'a' * 8 * MIB, self.content('snapshot-1'))

    def test_clear(self):
        known = vdisks.scan(self.disk)
        for _ in range(2):
            copies.clear(self.disk, 'volume-1')
            self.assertEqual(bytes(10 * MIB), self.content())
            self.assertEqual(known, vdisks.scan(self.disk))
            self.assertAllocated()
            self.fill('volume-1', b'c')
        self.assertEqual(b'a' * 8 * MIB, self.content('snapshot-1'))

    def test_killed_at_any_step(self):
        for module, step, expected in (
            (copies.fcntl, 'ioctl', self.before),
            (os, 'setxattr', self.before),
            (os, 'link', self.before),
            (os, 'rename', self.before),
            (files, 'truncate_unlinked', self.after),
            (files, 'allocate', self.after),
        ):
            with base.killed_before(self, module, step):
                self.revert()
            self.assertEqual(expected, self.content(), step)
            self.assertEqual(['snapshot-1', 'volume-1'], self.names())
            # whatever is done next removes what was left
            vdisks.delete(self.disk, 'volume-9')
            self.assertEqual(['snapshot-1', 'volume-1'], self.entries())
            self.revert()
            self.assertEqual(self.after, self.content(), step)
            self.assertAllocated()
            self.fill('volume-1', b'b')

    def test_of_nothing(self):
        for names in (('volume-9', 'snapshot-1'), ('volume-1', 'snapshot-9')):
            self.assertRaises(
                exception.DiskError, copies.revert, self.disk, *names
            )
        self.assertRaises(
            exception.DiskError, copies.clear, self.disk, 'volume-9'
        )
        self.assertEqual(self.before, self.content())
        self.assertEqual(['snapshot-1', 'volume-1'], self.entries())
