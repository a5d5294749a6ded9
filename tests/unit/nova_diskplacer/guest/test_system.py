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


import os
import stat
from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer.guest import system


class ReplaceTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.directory, 'file')

    def test_new(self):
        system.replace(self.path, 'é\r\n')
        self.assertEqual('é\r\n', system.read(self.path))
        self.assertEqual(0o644, stat.S_IMODE(os.stat(self.path).st_mode))

    def test_keeps_mode_and_link(self):
        system.replace(self.path, 'old')
        os.chmod(self.path, 0o640)
        link = os.path.join(self.directory, 'link')
        os.symlink('file', link)
        system.replace(link, 'new')
        self.assertTrue(os.path.islink(link))
        self.assertEqual('new', system.read(self.path))
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.path).st_mode))

    def test_failure_leaves_the_old(self):
        system.replace(self.path, 'old')
        with mock.patch.object(os, 'rename', side_effect=OSError):
            self.assertRaises(OSError, system.replace, self.path, 'new')
        self.assertEqual(['file'], os.listdir(self.directory))
        self.assertEqual('old', system.read(self.path))


class IdentityTest(base.BaseTestCase):
    def test_never_changes(self):
        # it is on disks
        self.assertEqual(
            '919c9f09-d839-5168-9df8-651b5c2a0d1e',
            system.filesystem_uuid('53d1f9d2-0c4e-4a52-0'),
        )


class RunTest(base.BaseTestCase):
    def test_problems_say_what_failed(self):
        for command, said in (
            (('sh', '-c', 'echo no >&2; exit 3'), ': no'),
            (('/nonexistent',), '/nonexistent: No such file'),
        ):
            error = self.assertRaises(system.Problem, system.run, *command)
            self.assertIn(said, str(error))
        self.assertEqual(
            'x\n', system.run('sh', '-c', 'echo x; exit 2', allowed=(0, 2))
        )
