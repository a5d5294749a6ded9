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

"""Test vdisks as files, on the filesystem of the temporary directory."""

import fcntl
import os
import resource
import time
from unittest import mock

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import VDisk
from tests import shell
from tests.unit.nova_diskplacer.disks.filesystem import base

MIB = base.MIB


class VDisksTestCase(base.DiskTestCase):
    def limit_file_size(self):
        """Make writes and allocations beyond 32 MiB of a file fail."""
        self.useFixture(fixtures.MonkeyPatch(f'{files.__name__}._STEP', MIB))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = resource.setrlimit
        limit(resource.RLIMIT_FSIZE, (32 * MIB, hard))
        self.addCleanup(limit, resource.RLIMIT_FSIZE, (soft, hard))

    def test_create(self):
        self.create()
        self.create('volume-2', '2', None)
        self.assertEqual(
            (
                VDisk('volume-1', '1', 's', 2 * MIB),
                VDisk('volume-2', '2', None, 2 * MIB),
            ),
            vdisks.scan(self.disk),
        )
        status = os.stat(vdisks.path(self.disk, 'volume-1'))
        self.assertGreaterEqual(status.st_blocks * 512, 2 * MIB)
        self.assertEqual(0o600, status.st_mode & 0o777)

    def test_create_again(self):
        self.create()
        inode = os.stat(vdisks.path(self.disk, 'volume-1')).st_ino
        self.create()
        self.assertEqual(
            inode, os.stat(vdisks.path(self.disk, 'volume-1')).st_ino
        )
        error = self.assertRaises(
            exception.DiskError, self.create, volume_id='2'
        )
        self.assertIn("belongs to volume '1'", str(error))

    def test_killed_at_any_step_leaves_nothing(self):
        for step in ('posix_fallocate', 'setxattr', 'link'):
            with mock.patch.object(os, step, side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, self.create)
            self.assertEqual((), vdisks.scan(self.disk))
        self.create()

    def test_no_space(self):
        self.limit_file_size()
        error = self.assertRaises(exception.DiskError, self.create, mib=40)
        self.assertIn('vdisk volume-1 on ' + self.disk, str(error))
        self.assertEqual((), vdisks.scan(self.disk))

    def test_extend(self):
        self.create()
        path = vdisks.path(self.disk, 'volume-1')
        with open(path, 'r+b') as stream:
            stream.write(b'kept')
        vdisks.extend(self.disk, 'volume-1', 40 * MIB)
        vdisks.extend(self.disk, 'volume-1', 3 * MIB)
        (vdisk,) = vdisks.scan(self.disk)
        self.assertEqual(('s', 40 * MIB), (vdisk.server_id, vdisk.size_bytes))
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 40 * MIB)
        with open(path, 'rb') as stream:
            self.assertEqual(b'kept\0', stream.read(5))

    def test_extend_allocates_holes(self):
        self.create()
        path = vdisks.path(self.disk, 'volume-1')
        with open(path, 'wb') as stream:
            stream.truncate(3 * MIB)
        vdisks.extend(self.disk, 'volume-1', 3 * MIB)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 3 * MIB)

    def test_failed_extend_changes_nothing(self):
        self.create()
        self.limit_file_size()
        self.assertRaises(
            exception.DiskError,
            vdisks.extend,
            self.disk,
            'volume-1',
            40 * MIB,
        )
        self.assertEqual(2 * MIB, vdisks.scan(self.disk)[0].size_bytes)
        self.assertRaises(
            exception.DiskError, vdisks.extend, self.disk, 'volume-2', MIB
        )

    def test_shrink(self):
        self.create(mib=4)
        for _ in range(2):
            vdisks.shrink(self.disk, 'volume-1', 2 * MIB)
            self.assertEqual(2 * MIB, vdisks.scan(self.disk)[0].size_bytes)

    def test_invalid_sizes(self):
        self.create()
        for size, reason in (
            (0, 'cannot have a size of 0 bytes'),
            (-MIB, f'cannot have a size of {-MIB} bytes'),
            (1 << 60, f'cannot be shrunk to {1 << 60}'),
        ):
            error = self.assertRaises(
                exception.DiskError,
                vdisks.shrink,
                self.disk,
                'volume-1',
                size,
            )
            self.assertIn(reason, str(error))
        for size in (0, -1):
            for work, *arguments in (
                (vdisks.create, 'volume-2', '2', None),
                (vdisks.extend, 'volume-1'),
            ):
                self.assertRaises(
                    exception.DiskError, work, self.disk, *arguments, size
                )
        (vdisk,) = vdisks.scan(self.disk)
        self.assertEqual(2 * MIB, vdisk.size_bytes)

    def test_vdisk_in_use_does_not_change(self):
        self.create()
        self.useFixture(
            fixtures.MonkeyPatch(f'{files.__name__}._LEASE_TIMEOUT', 0.1)
        )
        path = vdisks.path(self.disk, 'volume-1')
        for mode in ('rb', 'r+b'):
            with open(path, mode):
                for work, *arguments in (
                    (vdisks.delete,),
                    (vdisks.shrink, MIB),
                    (copies.clear,),
                ):
                    error = self.assertRaises(
                        exception.DiskError,
                        work,
                        self.disk,
                        'volume-1',
                        *arguments,
                    )
                    self.assertIn('it is in use', str(error))
        (vdisk,) = vdisks.scan(self.disk)
        self.assertEqual(2 * MIB, vdisk.size_bytes)
        self.assertEqual(['volume-1'], os.listdir(os.path.dirname(path)))
        vdisks.delete(self.disk, 'volume-1')

    def test_copy_refuses_vdisk_in_use(self):
        """Writes during a copy would be lost."""
        self.create()
        other = self.useFixture(fixtures.TempDir()).path
        vdisks.make_directory(other)
        vdisks.create(other, 'volume-1', '1', None, 2 * MIB)
        self.useFixture(
            fixtures.MonkeyPatch(f'{files.__name__}._LEASE_TIMEOUT', 0.1)
        )
        copy = self.disk, 'volume-1', other
        for disk in (self.disk, other):
            with open(vdisks.path(disk, 'volume-1'), 'rb'):
                error = self.assertRaises(
                    exception.DiskError, copies.copy, *copy, 0
                )
                self.assertIn('it is in use', str(error))
        for start in (-1, 2 * MIB):
            error = self.assertRaises(
                exception.DiskError, copies.copy, *copy, start
            )
            self.assertIn(f'offset {start} is not within', str(error))
        self.assertIsNone(copies.copy(*copy, 0))

    def test_delete_waits_for_short_use(self):
        self.create()
        stream = open(vdisks.path(self.disk, 'volume-1'), 'rb')
        self.addCleanup(stream.close)

        def close(seconds):
            stream.close()

        with mock.patch.object(time, 'sleep', close):
            vdisks.delete(self.disk, 'volume-1')
        self.assertEqual((), vdisks.scan(self.disk))

    def test_open_during_delete_does_not_kill(self):
        """The kernel signals a broken lease, by default with SIGIO."""
        self.create()

        def break_lease(descriptor, size):
            self.assertRaises(
                BlockingIOError,
                os.open,
                f'/proc/self/fd/{descriptor}',
                os.O_RDONLY | os.O_NONBLOCK,
            )

        with mock.patch.object(
            os, 'ftruncate', side_effect=break_lease
        ) as called:
            vdisks.delete(self.disk, 'volume-1')
        called.assert_called_once()
        self.assertEqual((), vdisks.scan(self.disk))

    def test_delete(self):
        self.create()
        for _ in range(2):
            vdisks.delete(self.disk, 'volume-1')
            self.assertEqual((), vdisks.scan(self.disk))

    def test_missing_directory(self):
        os.rmdir(os.path.join(self.disk, 'vdisks'))
        self.assertRaises(exception.DiskError, self.create)
        self.assertRaises(
            exception.DiskError, vdisks.delete, self.disk, 'volume-1'
        )

    def test_foreign_files_count(self):
        with open(vdisks.path(self.disk, 'stray'), 'wb') as stream:
            stream.truncate(MIB)
        os.symlink('stray', vdisks.path(self.disk, 'link'))
        self.assertEqual(
            (VDisk('stray', '', None, MIB),), vdisks.scan(self.disk)
        )

    def test_links_are_not_followed(self):
        """A link on a disk could make root change another file."""
        self.create()
        outside = vdisks.path(
            self.useFixture(fixtures.TempDir()).path, 'secret'
        )
        os.mkdir(os.path.dirname(outside))
        with open(outside, 'wb') as stream:
            stream.write(b'secret' * 1000)
        for attribute in (files.VOLUME_XATTR, files.SERVER_XATTR):
            os.setxattr(outside, attribute, b'1')
        os.symlink(outside, vdisks.path(self.disk, 'link'))
        other = self.useFixture(fixtures.TempDir()).path
        vdisks.make_directory(other)
        vdisks.create(other, 'link', '1', None, 2 * MIB)
        before = os.stat(outside)
        for work, *arguments in (
            (vdisks.extend, self.disk, 'link', MIB),
            (vdisks.shrink, self.disk, 'link', 1),
            (vdisks.delete, self.disk, 'link'),
            (vdisks.rename, self.disk, 'link', 'volume-2', '2'),
            (copies.snapshot, self.disk, 'link', 'snapshot-1', 's'),
            (copies.clone, self.disk, 'link', 'volume-2', '2', MIB),
            (copies.revert, self.disk, 'volume-1', 'link'),
            (copies.clear, self.disk, 'link'),
            (copies.copy, self.disk, 'link', other, 0),
            (copies.copy, other, 'link', self.disk, 0),
        ):
            error = self.assertRaises(exception.DiskError, work, *arguments)
            self.assertIn('symbolic links', str(error))
        after = os.stat(outside)
        self.assertEqual(
            (before.st_size, before.st_mtime_ns, before.st_ctime_ns),
            (after.st_size, after.st_mtime_ns, after.st_ctime_ns),
        )

    def test_blocks_beyond_the_end(self):
        """A file that is truncated has all of them for a while."""
        directory = f'{self.disk}/vdisks'
        self.create()
        for name, more in (('stray', 0), ('.unfinished.x', 40 * MIB)):
            before = space.allocated_bytes(directory)
            open(f'{directory}/{name}', 'w').close()
            shell.run(
                'fallocate', '--keep-size', '--length', '40MiB',
                f'{directory}/{name}',
            )  # fmt: skip
            self.assertEqual(before + more, space.allocated_bytes(directory))

    def test_snapshot_is_made_by_another_process(self):
        self.create()

        def clone(new, request, source):
            with open(f'{self.disk}/vdisks/snapshot-1', 'wb') as stream:
                files.set_owners(stream.fileno(), 's', None)

        with mock.patch.object(fcntl, 'ioctl', clone):
            copies.snapshot(self.disk, 'volume-1', 'snapshot-1', 's')
        self.assertEqual(0, os.path.getsize(f'{self.disk}/vdisks/snapshot-1'))

    def test_filesystem_lacks_a_feature(self):
        with mock.patch.object(os, 'setxattr', side_effect=OSError(95, 'no')):
            self.assertRaises(
                exception.DiskError, vdisks.make_directory, self.disk
            )
