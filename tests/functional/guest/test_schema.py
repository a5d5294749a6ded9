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


"""User data for guests, checked by cloud-init itself."""

import pathlib
import shutil
import subprocess
import unittest
import uuid

import fixtures
import testtools
import yaml

from nova_diskplacer.guest import config
from nova_diskplacer.guest import frameworks
from nova_diskplacer.profiles import definitions

CLOUD_INIT = shutil.which('cloud-init')


@unittest.skipUnless(CLOUD_INIT, 'bindep.txt names the package')
class SchemaTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def check(self, text):
        """Return the exit status and the output of the check."""
        path = self.path / 'user-data'
        path.write_text(text)
        done = subprocess.run(
            [CLOUD_INIT, 'schema', '--config-file', path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def assert_valid(self, framework, **values):
        text = config.user_data(config.settings(framework, **values))
        status, said = self.check(text)
        self.assertEqual(0, status, said)
        self.assertIn('Valid', said)
        self.assertNotIn('deprecat', said)
        return text

    def test_valid(self):
        volumes = tuple(str(uuid.uuid4()) for _ in range(64))
        for framework in frameworks.FRAMEWORKS:
            self.assert_valid(framework, count=4, gib=100)
            self.assert_valid(
                framework,
                volumes=volumes,
                advice=definitions.Guest(
                    'ext4', ('inode64', 'data=ordered'), 'none', 4096
                ),
                mount_root='/srv/vdisks',
                conf_dir='/opt/framework/conf',
                owner='one:two',
            )

    def test_the_check_finds_what_is_wrong(self):
        text = self.assert_valid('hadoop', count=4, gib=100)
        for key in ('write_files', 'bootcmd', 'runcmd'):
            document = yaml.safe_load(text)
            document[key] = 3
            status, said = self.check(
                '#cloud-config\n' + yaml.safe_dump(document)
            )
            self.assertEqual(1, status)
            self.assertIn(key, said)
