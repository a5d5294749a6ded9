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

import os
import uuid
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import vdisks

GIB = vdisks.GIB


class FilesystemTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        # the test's own files need no helper process
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        self.root = self.useFixture(fixtures.TempDir()).path
        self.uuid = str(uuid.uuid4())
        self.path = os.path.join(self.root, self.uuid)
        os.mkdir(self.path)
        vdisks.make_directory(self.path)
        identity.write(self.path, identity.Identity(self.uuid, 'ssd', 400))
        patch = mock.patch.object(os.path, 'ismount', return_value=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.backend = filesystem.FilesystemBackend(self.root)

    def held(self):
        """Return the vdisks on the disk."""
        return self.backend.disk(self.uuid).vdisks

    def test_life(self):
        self.backend.create(self.uuid, 'volume-1', '1', 'server', 1)
        self.assertEqual(
            (vdisks.VDisk('volume-1', '1', 'server', GIB),), self.held()
        )
        self.assertEqual([self.backend.disk(self.uuid)], self.backend.disks())
        path = self.backend.device_path(self.uuid, 'volume-1')
        self.assertEqual(f'{self.path}/vdisks/volume-1', path)
        self.assertEqual(GIB, os.stat(path).st_size)
        self.backend.extend(self.uuid, 'volume-1', 2)
        self.assertEqual(2 * GIB, os.stat(path).st_size)
        self.backend.shrink(self.uuid, 'volume-1', 1)
        self.assertEqual(GIB, os.stat(path).st_size)
        self.backend.delete(self.uuid, 'volume-1')
        self.assertEqual((), self.held())

    def test_forgotten(self):
        gone = str(uuid.uuid4())
        self.assertFalse(self.backend.forgotten(self.uuid))
        self.assertTrue(self.backend.forgotten(gone))
        os.symlink('/no/such', os.path.join(self.root, gone))
        self.assertFalse(self.backend.forgotten(gone))
        elsewhere = filesystem.FilesystemBackend('/no/such')
        self.assertFalse(elsewhere.forgotten(gone))


class SetupTestCase(testtools.TestCase):
    def test_the_helper_is_used_unless_it_is_root(self):
        self.addCleanup(privsep.context.set_client_mode, True)
        for user, helped in ((1000, True), (0, False)):
            privsep.context.set_client_mode(True)
            with mock.patch.object(os, 'geteuid', return_value=user):
                privsep.setup()
            self.assertEqual(helped, privsep.context.client_mode)
