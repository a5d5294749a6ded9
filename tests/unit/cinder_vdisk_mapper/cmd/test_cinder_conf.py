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

"""What commands with cinder.conf take from it."""

import argparse
import os
from unittest import mock

import fixtures
import testtools
from cinder import objects
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import exception
from nova_diskplacer.host import files


class ConfigureTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.root, 'cinder.conf')
        # other tests have options of Cinder in CONF
        self.conf = cfg.ConfigOpts()
        logging.register_options(self.conf)
        for target, name, value in (
            (cfg, 'CONF', self.conf),
            (files, '_lock_directory', ''),
            (objects, 'register_all', mock.Mock()),
            (logging, 'setup', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def configure(self, text):
        with open(self.path, 'w') as stream:
            stream.write(text)
        cinder_conf.configure(
            argparse.Namespace(cinder_config_file=[self.path])
        )

    def test_locks_are_where_the_option_says(self):
        locks = os.path.join(self.root, 'locks')
        self.configure(f'[diskplacer]\nlock_dir = {locks}\n')
        self.assertEqual(locks, files.lock_directory())

    def test_named_files_go_before_the_directory(self):
        """As in cinder-volume, which reads both."""
        directory = self.useFixture(fixtures.TempDir())
        with open(directory.join('own.conf'), 'w') as stream:
            stream.write('[diskplacer]\nlock_dir = /of-directory\n')
        self.useFixture(
            fixtures.MockPatchObject(
                cfg, 'find_config_dirs', return_value=[directory.path]
            )
        )
        for text, expected in (
            ('[diskplacer]\nlock_dir = /named\n', '/named'),
            ('', '/of-directory'),
        ):
            self.conf.reset()
            self.configure(text)
            self.assertEqual(expected, files._lock_directory)

    def test_locks_without_the_option(self):
        self.configure('[DEFAULT]\n')
        self.assertEqual('/run/diskplacer', files._lock_directory)

    def test_invalid_option(self):
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.configure,
            '[diskplacer]\nlock_dir = $missing\n',
        )
        self.assertIn('no such option missing', str(error))
