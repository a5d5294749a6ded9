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

"""The bound of copies by the kernel, in a file of its own."""

import json
import os

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.host import files


class ThrottleTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(directory, 'raid1_resync_throttle')
        self.lock_directory = self.useFixture(fixtures.TempDir()).path
        for module, name, value in (
            (resync_throttle, '_PARAMETERS', directory),
            (files, '_lock_directory', self.lock_directory),
        ):
            self.useFixture(fixtures.MockPatchObject(module, name, value))
        self.write('80')

    def write(self, text):
        with open(self.path, 'w', encoding='ascii') as stream:
            stream.write(text + '\n')

    def read(self):
        with open(self.path, encoding='ascii') as stream:
            return stream.read().strip()

    def test_saved_and_restored(self):
        resync_throttle.release_throttle()
        self.assertEqual('80', self.read())
        # the second one is that of a process after a kill
        for percent in (10, 25):
            resync_throttle.limit_copies(percent)
            self.assertEqual(str(percent), self.read())
        resync_throttle.release_throttle()
        self.assertEqual('80', self.read())
        self.write('70')
        resync_throttle.release_throttle()
        self.assertEqual('70', self.read())

    def test_percent(self):
        for percent in (-1, 0, 101, 1 << 70):
            error = self.assertRaises(
                exception.DiskError, resync_throttle.limit_copies, percent
            )
            self.assertIn(str(percent), str(error))
            self.assertIn('1 to 100', str(error))
        self.assertEqual('80', self.read())
        for percent in (1, 100):
            self.write('')
            resync_throttle.limit_copies(percent)
            self.assertEqual(str(percent), self.read())

    def test_settings_that_it_has_not_saved(self):
        """Whoever names the directory of the locks writes no other file."""
        victim = os.path.join(self.lock_directory, 'victim')
        resync_throttle.limit_copies(10)
        saved = os.path.join(self.lock_directory, 'saved', 'mirrors.json')
        with open(saved, encoding='utf-8') as stream:
            fields = json.load(stream)
        for values in (
            {victim: '1'},
            {'raid1_resync_throttle': '80', '../victim': '1'},
            {'raid1_resync_throttle/../other': '1'},
            {'raid1_resync_throttle': '80; 1'},
            {'raid1_resync_throttle': ''},
            {'other': '1'},
        ):
            with open(saved, 'w', encoding='utf-8') as stream:
                json.dump(fields | {'values': values}, stream)
            error = self.assertRaises(
                exception.DiskError, resync_throttle.release_throttle
            )
            self.assertIn(saved, str(error))
            self.assertFalse(os.path.exists(victim))
            self.assertEqual('10', self.read())

    def test_no_such_setting(self):
        os.unlink(self.path)
        self.assertRaises(
            exception.DiskError, resync_throttle.limit_copies, 10
        )
        resync_throttle.release_throttle()
