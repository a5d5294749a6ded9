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

"""vdisks as files; the filesystem of the temporary directory must do."""

import os
import resource
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import files
from nova_diskplacer.disks import vdisks

MIB = 1 << 20


class VDisksTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.disk = self.useFixture(fixtures.TempDir()).path
        vdisks.make_directory(self.disk)

    def create(self, name='volume-1', volume_id='1', server_id='s', mib=2):
        vdisks.create(self.disk, name, volume_id, server_id, mib * MIB)

    def let_fail(self):
        """Have a file that grows beyond 32 MiB fail; fills no disk."""
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
                vdisks.VDisk('volume-1', '1', 's', 2 * MIB),
                vdisks.VDisk('volume-2', '2', None, 2 * MIB),
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
        for step in ('posix_fallocate', 'setxattr', 'fsync', 'link'):
            with mock.patch.object(os, step, side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, self.create)
            self.assertEqual((), vdisks.scan(self.disk))
        self.create()

    def test_no_space(self):
        self.let_fail()
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

    def test_extend_allocates_what_a_copy_has_left_out(self):
        self.create()
        path = vdisks.path(self.disk, 'volume-1')
        with open(path, 'wb') as stream:
            stream.truncate(3 * MIB)
        vdisks.extend(self.disk, 'volume-1', 3 * MIB)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 3 * MIB)

    def test_extend_that_fails_changes_nothing(self):
        self.create()
        self.let_fail()
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
        vdisks.shrink(self.disk, 'volume-1', 2 * MIB)
        self.assertEqual(2 * MIB, vdisks.scan(self.disk)[0].size_bytes)

    def test_delete(self):
        self.create()
        for _ in range(2):
            vdisks.delete(self.disk, 'volume-1')
            self.assertEqual((), vdisks.scan(self.disk))

    def test_disk_away(self):
        os.rmdir(os.path.join(self.disk, 'vdisks'))
        self.assertRaises(exception.DiskError, self.create)
        self.assertRaises(
            exception.DiskError, vdisks.delete, self.disk, 'volume-1'
        )

    def test_files_of_others_count(self):
        with open(vdisks.path(self.disk, 'stray'), 'wb') as stream:
            stream.truncate(MIB)
        os.symlink('stray', vdisks.path(self.disk, 'link'))
        self.assertEqual(
            (vdisks.VDisk('stray', '', None, MIB),), vdisks.scan(self.disk)
        )

    def test_filesystem_that_lacks_something(self):
        with mock.patch.object(os, 'setxattr', side_effect=OSError(95, 'no')):
            self.assertRaises(
                exception.DiskError, vdisks.make_directory, self.disk
            )
