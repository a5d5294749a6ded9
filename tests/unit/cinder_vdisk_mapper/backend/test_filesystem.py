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

"""The filesystem backend, on directories that stand for disks."""

import dataclasses
import os
import uuid
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk


class FilesystemTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        # the test's own files need no helper process
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        self.root = self.useFixture(fixtures.TempDir()).path
        self.uuid = self.add()
        self.path = os.path.join(self.root, self.uuid)
        patch = mock.patch.object(os.path, 'ismount', return_value=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.backend = filesystem.FilesystemBackend(self.root)

    def add(self):
        """Add a disk and return its UUID."""
        name = str(uuid.uuid4())
        path = os.path.join(self.root, name)
        os.mkdir(path)
        vdisks.make_directory(path)
        identity.write(path, identity.Identity(name, 'ssd', 400))
        return name

    def held(self):
        """Return the vdisks on the disk."""
        return self.backend.disk(self.uuid).vdisks

    def test_copy_at_a_rate(self):
        """It waits after each part."""
        waited = []
        self.useFixture(fixtures.MonkeyPatch('time.sleep', waited.append))
        self.useFixture(fixtures.MonkeyPatch('time.monotonic', lambda: 0.0))
        parts = [64 << 20, 128 << 20, None]
        for rate, expected in ((32, [0.0, 2.0, 4.0]), (0, [])):
            waited.clear()
            with mock.patch.object(self.backend, '_run', side_effect=parts):
                self.backend.copy(self.uuid, 'volume-1', 'other', rate)
            self.assertEqual(expected, waited)

    def test_life(self):
        self.backend.create(self.uuid, 'volume-1', '1', 'server', 1)
        self.assertEqual((VDisk('volume-1', '1', 'server', GIB),), self.held())
        (listed,) = self.backend.disks()
        disk = self.backend.disk(self.uuid)
        # what is free changes while others write
        self.assertEqual(
            dataclasses.replace(disk, free_bytes=0, total_gb=0),
            dataclasses.replace(listed, free_bytes=0, total_gb=0),
        )
        path = self.backend.device_path(self.uuid, 'volume-1')
        self.assertEqual(f'{self.path}/vdisks/volume-1', path)
        self.assertEqual(GIB, os.stat(path).st_size)
        self.backend.extend(self.uuid, 'volume-1', 2)
        self.assertEqual(2 * GIB, os.stat(path).st_size)
        self.backend.shrink(self.uuid, 'volume-1', 1)
        self.assertEqual(GIB, os.stat(path).st_size)
        self.backend.delete(self.uuid, 'volume-1')
        self.assertEqual((), self.held())

    def test_content(self):
        other = self.add()
        backend, disk = self.backend, self.uuid
        for uuid_ in (disk, other):
            vdisks.create(
                os.path.join(self.root, uuid_), 'volume-1', '1', None, 4096
            )
        with open(backend.device_path(disk, 'volume-1'), 'r+b') as stream:
            stream.write(b'copied')
        backend.copy(disk, 'volume-1', other)
        backend.rename(other, 'volume-1', 'volume-2', '2')
        with open(backend.device_path(other, 'volume-2'), 'rb') as stream:
            self.assertEqual(b'copied', stream.read(6))
        self.assertTrue(backend.written(disk, 'volume-1'))
        backend.clear(disk, 'volume-1')
        self.assertFalse(backend.written(disk, 'volume-1'))
        leftover = os.path.join(self.path, 'vdisks', '.unfinished.x')
        with open(leftover, 'wb'):
            pass
        backend.sweep(disk)
        self.assertFalse(os.path.exists(leftover))

    def test_invalid_disk_or_name(self):
        for call, arguments in (
            (self.backend.disk, ()),
            (self.backend.forgotten, ()),
            (self.backend.device_path, ('volume-1',)),
            (self.backend.delete, ('volume-1',)),
        ):
            for bad in ('', '..', f'../{self.uuid}', self.uuid.upper()):
                error = self.assertRaises(
                    exception.DiskError, call, bad, *arguments
                )
                self.assertIn('is not the UUID of a disk', str(error))
        error = self.assertRaises(
            exception.DiskError, self.backend.device_path, self.uuid, '../x'
        )
        self.assertIn('cannot be the name of a vdisk', str(error))

    def test_forgotten(self):
        gone = str(uuid.uuid4())
        self.assertFalse(self.backend.forgotten(self.uuid))
        # its mount may be invisible, or the whole of the disk root
        self.assertFalse(self.backend.forgotten(gone))
        discover.set_forgotten(self.root, gone, True)
        self.assertTrue(self.backend.forgotten(gone))
        self.assertFalse(self.backend.has_entry(gone))
        # or it was put back by hand
        os.symlink('/no/such', os.path.join(self.root, gone))
        self.assertFalse(self.backend.forgotten(gone))
        self.assertTrue(self.backend.has_entry(gone))
        elsewhere = filesystem.FilesystemBackend('/no/such')
        self.assertFalse(elsewhere.forgotten(gone))
