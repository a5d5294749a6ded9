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

"""Vdisks that are copied from disk to disk, and renamed."""

import os

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import VDisk
from tests.functional.disks import base

MIB = base.MIB


class CopyTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        self.target = self.prepared()
        self.parts = []
        self.create(mib=100)
        self.write('volume-1', os.urandom(90 * MIB), 5)
        self.punch('volume-1', 20, 10)

    def make_target(self, mib=100, volume_id='1'):
        vdisks.create(self.target, 'volume-1', volume_id, None, mib * MIB)

    def copy(self):
        start = 0
        while start is not None:
            self.parts.append(start)
            start = copies.copy(self.disk, 'volume-1', self.target, start)

    def assertCopied(self, mib=100):
        self.assertEqual(
            self.content() + bytes((mib - 100) * MIB),
            self.content(disk=self.target),
        )
        self.assertAllocated(disk=self.target)

    def test_copy(self):
        self.make_target(110)
        self.copy()
        # 64 MiB of data at a time
        self.assertEqual([0, 79 * MIB], self.parts)
        # where the source has none, nothing was written; to have been read
        # counts as data
        with open(self.path(disk=self.target), 'rb') as stream:
            *regions, (start, end) = files.data_ranges(
                stream.fileno(), 0, 110 * MIB
            )
        self.assertEqual([(5 * MIB, 20 * MIB)], regions)
        self.assertEqual(30 * MIB, start)
        # some of what follows may have been read ahead
        self.assertTrue(95 * MIB <= end < 100 * MIB, end)
        self.assertCopied(110)

    def test_again_after_the_source_has_changed(self):
        self.make_target(110)
        self.copy()
        self.punch('volume-1', 40, 20)
        self.write('volume-1', b'new', 97)
        for _ in range(2):
            self.copy()
            self.assertCopied(110)

    def test_killed(self):
        self.make_target()
        for step in ('sendfile', 'fsync'):
            with base.killed_before(self, os, step):
                self.copy()
        self.copy()
        self.assertCopied()

    def test_of_a_snapshot(self):
        copies.snapshot(self.disk, 'volume-1', 'snapshot-1', '1s')
        vdisks.create(self.target, 'snapshot-1', '1s', None, 100 * MIB)
        start = copies.copy(self.disk, 'snapshot-1', self.target, 0)
        self.assertIsNone(
            copies.copy(self.disk, 'snapshot-1', self.target, start)
        )
        self.assertEqual(
            self.content(), self.content('snapshot-1', self.target)
        )

    def test_refused(self):
        error = self.assertRaises(exception.DiskError, self.copy)
        self.assertIn(f'volume-1 on {self.target}', str(error))
        for mib, volume_id, reason in (
            (99, '1', 'are fewer than'),
            (100, '2', "belongs to volume '2'"),
        ):
            self.make_target(mib, volume_id)
            error = self.assertRaises(exception.DiskError, self.copy)
            self.assertIn(reason, str(error))
            vdisks.delete(self.target, 'volume-1')


class RenameTestCase(base.VDiskTestCase):
    def rename(self, name='stray', new_name='volume-1', volume_id='1'):
        vdisks.rename(self.disk, name, new_name, volume_id)

    def stray(self, name='stray'):
        with open(self.path(name), 'wb') as stream:
            stream.write(b'stray')
        os.chown(self.path(name), 65534, 65533)
        os.chmod(self.path(name), 0o666)

    def assertManaged(self, name='volume-1', volume_id='1', mode=0o600):
        self.assertEqual(
            (VDisk(name, volume_id, None, 5),), vdisks.scan(self.disk)
        )
        self.assertEqual(b'stray', self.content(name))
        status = os.stat(self.path(name))
        self.assertEqual(
            (mode, 0, 0),
            (status.st_mode & 0o7777, status.st_uid, status.st_gid),
        )

    def test_manage_and_unmanage(self):
        self.stray()
        for _ in range(2):
            self.rename()
            self.assertManaged()
        for _ in range(2):
            self.rename('volume-1', 'unmanaged-1', '')
            self.assertManaged('unmanaged-1', '')
        self.rename('unmanaged-1', 'snapshot-1', '1s')
        self.assertManaged('snapshot-1', '1s', 0o400)

    def test_the_server_is_forgotten(self):
        self.create(mib=1)
        self.rename('volume-1', 'volume-2', '2')
        self.assertEqual(
            (VDisk('volume-2', '2', None, MIB),),
            vdisks.scan(self.disk),
        )

    def test_killed_at_any_step(self):
        for step in ('fchown', 'fchmod', 'setxattr', 'rename'):
            self.stray()
            with base.killed_before(self, os, step):
                self.rename()
            self.assertEqual(['stray'], self.names())
            self.rename()
            self.assertManaged()
            vdisks.delete(self.disk, 'volume-1')

    def test_refused(self):
        error = self.assertRaises(exception.DiskError, self.rename)
        self.assertIn('there is no vdisk stray', str(error))
        self.stray()
        self.create()
        error = self.assertRaises(exception.DiskError, self.rename)
        self.assertIn('volume-1 exists', str(error))
        self.assertEqual(['stray', 'volume-1'], self.names())
        self.assertRaises(
            exception.DiskError, self.rename, 'gone', 'volume-1', '2'
        )


class NameTestCase(base.VDiskTestCase):
    def test_names_that_would_leave_the_directory(self):
        self.create()
        disk = self.disk
        for bad in (
            '',
            '.',
            '..',
            '../x',
            'a/b',
            '-x',
            '.x',
            'x\n',
            'x' * 201,
        ):
            for change, arguments in (
                (vdisks.create, (bad, '1', None, MIB)),
                (vdisks.extend, (bad, MIB)),
                (vdisks.shrink, (bad, MIB)),
                (vdisks.delete, (bad,)),
                (vdisks.rename, (bad, 'volume-2', '2')),
                (vdisks.rename, ('volume-1', bad, '2')),
                (copies.snapshot, ('volume-1', bad, '1')),
                (copies.snapshot, (bad, 'snapshot-1', '1')),
                (copies.clone, (bad, 'volume-2', '2', MIB)),
                (copies.clone, ('volume-1', bad, '2', 8 * MIB)),
                (copies.revert, (bad, 'volume-1')),
                (copies.revert, ('volume-1', bad)),
                (copies.clear, (bad,)),
                (copies.copy, (bad, disk, 0)),
            ):
                error = self.assertRaises(
                    exception.DiskError, change, disk, *arguments
                )
                self.assertIn('cannot be the name of a vdisk', str(error))
        self.assertEqual(['volume-1'], self.entries())
