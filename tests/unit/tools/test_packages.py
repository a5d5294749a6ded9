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
import pathlib
import subprocess
from unittest import mock

import fixtures
import testtools

from tools.testbed import image
from tools.testbed import packages


class BuildTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        parent = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.cache = parent / 'cache'
        self.useFixture(fixtures.MockPatchObject(image, 'CACHE', self.cache))
        self.directory = parent / 'packages'
        self.directory.mkdir()
        self.module = self.directory / 'module.py'
        self.module.write_text('x = 1')
        (self.directory / 'other.py').symlink_to('module.py')
        self.made = []
        self.statuses = [0] * 9
        self.useFixture(
            fixtures.MockPatchObject(subprocess, 'run', self.make_image)
        )

    def make_image(self, argv, **kwargs):
        self.made.append(argv)
        pathlib.Path(argv[-2]).write_text('image')
        return mock.Mock(returncode=self.statuses.pop(0), stderr='no room\n')

    def kept(self):
        return sorted(path.name for path in self.cache.glob('*.*'))

    def test_made_once(self):
        path = packages.build(self.directory)
        self.assertEqual('image', path.read_text())
        self.assertEqual(path, packages.build(self.directory))
        (argv,) = self.made
        self.assertIn(str(self.directory), argv)
        self.assertEqual([path.name], self.kept())

    def test_made_again_when_a_file_has_changed(self):
        known = {packages.build(self.directory)}
        status = self.module.stat()
        os.utime(self.module, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        known.add(packages.build(self.directory))
        (self.directory / 'empty.py').touch()
        known.add(last := packages.build(self.directory))
        self.assertEqual(3, len(known))
        self.assertEqual([last.name], self.kept())

    def test_kept_when_something_is_compiled(self):
        path = packages.build(self.directory)
        cache = self.directory / '__pycache__'
        cache.mkdir()
        (cache / 'module.cpython-311.pyc').touch()
        self.assertEqual(path, packages.build(self.directory))

    def test_replaced_while_it_is_copied(self):
        self.statuses = [1, 0]
        path = packages.build(self.directory)
        self.assertEqual(2, len(self.made))
        self.assertEqual([path.name], self.kept())

    def test_it_cannot_be_made(self):
        self.statuses = [1] * 9
        error = self.assertRaises(
            image.ImageError, packages.build, self.directory
        )
        self.assertIn(f'{self.directory} cannot be made: no room', str(error))
        self.assertEqual([], self.kept())

    def test_room(self):
        """There is room for each file in blocks of its own."""
        (self.directory / 'large').write_bytes(bytes(5000))
        packages.build(self.directory)
        blocks = int(self.made[0][-1])
        self.assertGreaterEqual(
            blocks * packages.BLOCK, 4 * packages.BLOCK + packages.SPARE
        )
