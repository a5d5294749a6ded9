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

import fixtures
import testtools

from nova_diskplacer.host import processes


class HaveOpenTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.proc = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.MockPatchObject(processes, 'PROC', self.proc))

    def process(self, pid, *files):
        directory = os.path.join(self.proc, str(pid), 'fd')
        os.makedirs(directory)
        for number, file in enumerate(files):
            os.symlink(file, os.path.join(directory, str(number)))

    def test_files_of_other_kinds(self):
        number = os.stat('/dev/null').st_rdev
        # a closed one, a file, and a character device
        self.process(7, '/no/such', '/etc/passwd', '/dev/null')
        os.makedirs(os.path.join(self.proc, '2'))
        self.assertFalse(processes.have_open(number))

    def test_holders(self):
        self.process(7, '/etc/passwd')
        self.process(8, '/dev/null', '/etc/passwd')
        self.process(9, '/dev/null')
        for pid, text in ((7, 'Name:\tx\nNSpid:\t7\t3\n'), (8, 'Name:\n')):
            with open(f'{self.proc}/{pid}/status', 'w') as stream:
                stream.write(text)
        self.assertEqual([3, 8], sorted(processes.holders('/etc/passwd')))
        self.assertEqual([], processes.holders('/etc/hosts'))
        self.assertRaises(FileNotFoundError, processes.holders, '/no/such')

    def test_a_process_of_which_it_is_not_known(self):
        self.process(7)
        directory = os.path.join(self.proc, '7', 'fd')

        def listdir(path):
            raise PermissionError(13, 'Permission denied', directory)

        self.useFixture(fixtures.MockPatchObject(os, 'listdir', listdir))
        self.assertRaises(PermissionError, processes.have_open, 1)

    def test_sees_all(self):
        # a file of this inode would be one of the kernel
        os.makedirs(os.path.join(self.proc, 'self', 'ns'))
        place = os.path.join(self.proc, 'self', 'ns', 'pid')
        with open(place, 'w'):
            pass
        self.assertFalse(processes.sees_all())
        self.useFixture(
            fixtures.MockPatchObject(
                processes, '_HOST_PID_NAMESPACE', os.stat(place).st_ino
            )
        )
        self.assertTrue(processes.sees_all())
