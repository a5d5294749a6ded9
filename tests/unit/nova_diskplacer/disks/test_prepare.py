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

"""Marks of disks; tests/functional/disks has the rest, on devices."""

import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class MarksTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.disk = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('_check_directory', mock.Mock(return_value=UUID)),
            ('_write_identity', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(prepare, name, value))

    def prepare(self):
        return prepare.prepare(self.root, self.disk)

    def test_after_a_killed_forget(self):
        class Killed(BaseException):
            pass

        self.prepare()
        path = os.path.join(self.root, UUID)
        for before in (False, True):
            discover.set_draining(self.root, UUID, before)
            for entry in (True, False):
                with mock.patch.object(
                    prepare, '_remove_entry', side_effect=Killed
                ):
                    self.assertRaises(Killed, prepare.forget, self.root, UUID)
                if not entry:
                    os.unlink(path)
                self.assertFalse(self.prepare().draining)
                self.assertEqual([UUID], os.listdir(self.root))

    def test_of_a_disk_that_is_drained(self):
        self.prepare()
        discover.set_draining(self.root, UUID, True)
        self.assertTrue(self.prepare().draining)
