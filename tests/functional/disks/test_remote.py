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

"""The vdisk of another host is copied to the one of this host.

A loop device stands for that of the iSCSI session.
"""

import os
import subprocess
import sys
from unittest import mock

from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer import exception
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import vdisks
from tests import loops
from tests.functional.disks import base

MIB = base.MIB
NAME = 'volume-1'
HOLD = 'import os, sys; os.open(sys.argv[1], os.O_RDONLY); print(); input()'


class RemoteTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        remote_disk = loops.LoopDevice()
        remote_disk.size_bytes = 150 * MIB
        self.device = self.useFixture(remote_disk).device
        self.link = os.path.join(self.root, 'remote', NAME)
        os.mkdir(os.path.dirname(self.link))
        os.symlink(self.device, self.link)
        self.uuid = os.path.basename(self.disk)
        self.backend = filesystem.FilesystemBackend(self.root)

    def put(self, text, mib):
        with open(self.device, 'r+b') as stream:
            stream.seek(mib * MIB)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())

    def copy(self):
        starts, start = [], 0
        while start is not None:
            starts.append(start // MIB)
            start = self.backend.copy_remote(self.uuid, NAME, start)
        return starts

    def there(self):
        with open(self.device, 'rb') as stream:
            return stream.read()

    def test_copy(self):
        """Of a vdisk that has other content, from a copy before."""
        self.create(mib=160)
        self.write(NAME, os.urandom(160 * MIB))
        self.put(os.urandom(70 * MIB), 5)
        self.put(os.urandom(3 * MIB), 147)
        self.assertEqual([0, 64, 128], self.copy())
        self.assertEqual(self.there() + bytes(10 * MIB), self.content())
        self.assertAllocated()

    def test_zeros_are_not_written_where_there_are_none(self):
        self.create(mib=150)
        self.put(b'x' * MIB, 8)
        self.copy()
        with open(self.path(), 'rb') as stream:
            self.assertLessEqual(
                [*files.data_ranges(stream.fileno(), 0, 150 * MIB)][-1][1],
                12 * MIB,
            )
        self.assertEqual(self.there(), self.content())

    def test_killed_and_repeated(self):
        self.create(mib=150)
        self.put(os.urandom(90 * MIB), 0)
        with (
            mock.patch.object(os, 'fsync', side_effect=base.Killed),
            mock.patch.object(
                self.backend,
                '_run',
                lambda _, *arguments: copies.copy_remote(
                    self.disk, NAME, self.device, arguments[-1]
                ),
            ),
        ):
            self.assertRaises(base.Killed, self.copy)
        self.copy()
        self.assertEqual(self.there(), self.content())

    def test_refused(self):
        for mib, text in (
            (149, 'are fewer than'),
            (None, 'there is no vdisk'),
        ):
            vdisks.delete(self.disk, NAME)
            if mib:
                self.create(mib=mib)
            error = self.assertRaises(exception.DiskError, self.copy)
            self.assertIn(text, str(error))
        self.create(mib=150)
        for start in (-1, 150 * MIB):
            self.assertRaises(
                exception.DiskError,
                self.backend.copy_remote,
                self.uuid,
                NAME,
                start,
            )
        with open(self.path()) as _:
            error = self.assertRaises(exception.DiskError, self.copy)
            self.assertIn('in use', str(error))
        os.unlink(self.link)
        error = self.assertRaises(exception.DiskError, self.copy)
        self.assertIn('not attached to this one', str(error))

    def test_a_file_is_no_session(self):
        self.create(mib=150)
        os.unlink(self.link)
        os.symlink('/etc/passwd', self.link)
        self.assertRaises(exception.DiskError, self.copy)
        self.assertEqual(bytes(150 * MIB), self.content())

    def test_away(self):
        self.create(mib=150)
        with mock.patch.object(remote, '_THERE', ('running',)):
            self.assertRaises(remote.Away, self.copy)
        os.unlink(self.link)
        os.symlink('/dev/disk/by-path/ip-192.0.2.1:3260-none', self.link)
        self.assertRaises(remote.Away, self.copy)
        self.assertFalse(remote.in_use(remote.path(self.root, NAME)))

    def test_in_use(self):
        self.assertFalse(remote.in_use(self.link))
        with subprocess.Popen(
            [sys.executable, '-c', HOLD, self.link],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            process.stdout.readline()
            self.assertTrue(remote.in_use(self.link))
            process.communicate(b'\n')
        self.assertFalse(remote.in_use(self.link))

    def test_writes(self):
        before = remote.writes(self.link)
        self.assertEqual(before, remote.writes(self.link))
        self.put(b'x', 1)
        self.assertNotEqual(before, remote.writes(self.link))
        self.assertEqual(150 * MIB, remote.size_bytes(self.link))
