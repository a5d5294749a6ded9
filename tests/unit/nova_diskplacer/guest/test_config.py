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


import ast
import os
import shutil
import subprocess
import sys
import uuid

import fixtures
import yaml
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.guest import config
from nova_diskplacer.guest import frameworks
from nova_diskplacer.profiles import definitions

FOUR = {'count': 4, 'gib': 100}
VOLUME = '53d1f9d2-0c4e-4a52-9a4f-3f0f6f1f7a10'

PATHS = st.from_regex(
    r'(/[A-Za-z0-9_+][A-Za-z0-9._+-]*){1,3}', fullmatch=True
) | st.text(max_size=8)
WORDS = st.from_regex('[A-Za-z_][A-Za-z0-9_-]*', fullmatch=True) | st.text(
    max_size=8
)


def literal(script):
    """Return the settings that a script has, and nothing but them."""
    call = ast.parse(script).body[-1].value.args[0]
    return ast.literal_eval(call.args[0])


class SettingsTest(base.BaseTestCase):
    def refused(self, *words, **values):
        error = self.assertRaises(
            exception.DiskPlacerError, config.settings, 'hadoop', **values
        )
        for word in words:
            self.assertIn(word, str(error))

    def test_what_is_refused(self):
        for path in ('data', '/data/', '/', '/a,b', '/a b', '/a/../b', '/%41'):
            self.refused('mount root', repr(path), mount_root=path)
            self.refused('configuration directory', path, conf_dir=path)
        self.refused("owner 'a:b:c'", 'USER or USER:GROUP', owner='a:b:c')
        self.refused(
            "mount option 'a b'",
            advice=definitions.Guest(mount_options=('a b',)),
        )
        self.refused("volume '53'", 'UUID', volumes=('53',))

    def test_directories(self):
        found = config.settings(
            'hadoop', conf_dir='/opt/hadoop', owner='hadoop'
        )['directories']
        self.assertEqual(
            [
                ('/opt/hadoop/hdfs-site.xml', 'hadoop'),
                ('/opt/hadoop/yarn-site.xml', 'hadoop'),
            ],
            [(one['file'], one['owner']) for one in found],
        )
        found = config.settings('cassandra', **FOUR)
        self.assertEqual(
            '/etc/cassandra/cassandra.yaml', found['directories'][0]['file']
        )

    def test_a_stripe_takes_two_vdisks(self):
        for vdisks in ({'count': 1, 'gib': 1}, {'volumes': (VOLUME,)}):
            self.refused('layout stripe', 'not 1', layout='stripe', **vdisks)
            config.settings('hadoop', **vdisks)

    def test_plain_has_none(self):
        found = config.settings('plain', **FOUR)
        self.assertEqual([], found['directories'])
        self.assertEqual(
            (None, 4, 100 << 30),
            (found['volumes'], found['count'], found['bytes']),
        )

    def test_volumes_as_the_guest_sees_them(self):
        found = config.settings('plain', volumes=(VOLUME,))
        self.assertEqual(['53d1f9d2-0c4e-4a52-9'], found['volumes'])

    def test_mount_options(self):
        found = config.settings(
            'plain',
            advice=definitions.Guest(mount_options=('noatime', 'inode64')),
        )
        self.assertEqual('noatime,nofail,inode64', found['options'])


class ScriptTest(base.BaseTestCase):
    def test_for_old_python(self):
        for framework in frameworks.FRAMEWORKS:
            for layout in config.LAYOUTS:
                text = config.script(
                    config.settings(framework, layout=layout, **FOUR)
                )
                ast.parse(text, feature_version=(3, 6))
                self.assertNotIn('nova_diskplacer', text)

    def test_run_where_there_are_no_vdisks(self):
        """Each layout's script is complete."""
        directory = self.useFixture(fixtures.TempDir()).path
        udevadm = os.path.join(directory, 'udevadm')
        with open(udevadm, 'w') as stream:
            stream.write('#!/bin/sh\n')
        os.chmod(udevadm, 0o755)
        for layout, said in (
            ('separate', '0 of 4 vdisks are in use'),
            ('stripe', 'stripe: 0 of 4 vdisks are blank'),
        ):
            text = config.script(
                config.settings('plain', layout=layout, **FOUR)
            )
            for path in ('/etc/fstab', '/run/diskplacer-guest.lock'):
                self.assertEqual(1, text.count(repr(path)))
                text = text.replace(path, directory + '/file')
            text = text.replace('/sys/block', directory)
            done = subprocess.run(
                [sys.executable, '-c', text, 'early'],
                env={'PATH': directory},
                capture_output=True,
                text=True,
            )
            self.assertEqual((1, ''), (done.returncode, done.stdout))
            self.assertIn(f'vdisks: {said}', done.stderr)

    @given(
        st.sampled_from(sorted(frameworks.FRAMEWORKS)),
        st.lists(st.uuids().map(str) | st.text(max_size=8)) | st.none(),
        PATHS,
        PATHS,
        WORDS,
        st.lists(WORDS),
        st.tuples(st.none() | st.text(), st.none() | st.integers()),
    )
    def test_any_settings_arrive(
        self, framework, volumes, root, conf_dir, owner, options, queue
    ):
        try:
            wanted = config.settings(
                framework,
                volumes=None if volumes is None else tuple(volumes),
                advice=definitions.Guest(None, tuple(options), *queue),
                mount_root=root,
                conf_dir=conf_dir,
                owner=owner,
            )
        except exception.DiskPlacerError:
            return
        text = config.script(wanted)
        self.assertEqual(wanted, literal(text))
        loaded = yaml.safe_load(config.user_data(wanted))
        self.assertEqual(text, loaded['write_files'][0]['content'])
        self.assertEqual([text, 'early'], loaded['bootcmd'][0][-2:])
        # a line of fstab, a list of directories
        for name in (root, *wanted['options'].split(',')):
            self.assertNotRegex(name, r'[\s,#\\]')


class UserDataTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.text = config.user_data(config.settings('hadoop', **FOUR))

    def test_fits(self):
        self.assertTrue(self.text.startswith('#cloud-config\n'))
        self.assertLess(len(self.text), config.MAX_BYTES / 2)
        self.assertEqual(1, self.text.count('def main('))
        self.assertNotIn('mdadm', self.text)
        stripe = config.user_data(
            config.settings('hadoop', layout='stripe', **FOUR)
        )
        self.assertLess(len(stripe), config.MAX_BYTES * 2 / 3)

    def test_too_large(self):
        many = tuple(str(uuid.uuid4()) for _ in range(2000))
        wanted = config.settings('plain', volumes=many)
        error = self.assertRaises(
            exception.DiskPlacerError, config.user_data, wanted
        )
        self.assertIn(str(config.MAX_BYTES), str(error))

    def launched(self, path, *arguments):
        """Return what the launcher's Python prints with a PATH."""
        command = yaml.safe_load(self.text)['runcmd'][0][:-1]
        return subprocess.check_output(
            [*command, *arguments], env={'PATH': path}, text=True
        )

    def test_launched_by_python3(self):
        code = 'import sys; print(sys.argv)'
        self.assertEqual(
            "['-c', \"a 'b' $c\"]\n",
            self.launched(os.environ['PATH'], '-c', code, "a 'b' $c"),
        )

    def test_launched_by_the_python_of_cloud_init(self):
        directory = self.useFixture(fixtures.TempDir()).path
        for name in ('sh', 'sed'):
            os.symlink(shutil.which(name), os.path.join(directory, name))
        path = os.path.join(directory, 'cloud-init')
        with open(path, 'w') as stream:
            stream.write(f'#! {sys.executable} -s\nnonsense\n')
        os.chmod(path, 0o755)
        self.assertEqual(
            f'{sys.executable} 1\n',
            self.launched(
                directory,
                '-c',
                'import sys; print(sys.executable, sys.flags.no_user_site)',
            ),
        )
