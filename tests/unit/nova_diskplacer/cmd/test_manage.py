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

"""The commands of diskplacer-manage, those of other packages among them."""

import os
import subprocess
import sys
from importlib import metadata

import testtools

from nova_diskplacer.cmd import manage

# Runs the command where modules are missing.
_WITHOUT = """
import sys
missing, *words = sys.argv[1:]
sys.modules[missing] = None
from nova_diskplacer.cmd import manage
sys.exit(manage.main(words))
"""


def run(missing, *words):
    """Run diskplacer-manage in a process without a module."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', _WITHOUT, missing, *words],
        # the help is one line
        env={**os.environ, 'COLUMNS': '1000'},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


class FurtherCommandsTest(testtools.TestCase):
    def test_other_packages_have_commands(self):
        names = metadata.entry_points(group=manage.COMMANDS).names
        self.assertEqual({'host', 'settle', 'sizing', 'sweep'}, names)
        text = manage.make_parser().format_help()
        for name in names:
            self.assertIn(f'\n    {name} ', text)

    def test_only_what_is_asked_for_is_imported(self):
        done = run('diskplacer_measure', 'profile', 'list')
        self.assertEqual((0, ''), (done.returncode, done.stderr))


class MissingTest(testtools.TestCase):
    """NumPy is not there, as where only the extra manage is installed."""

    def assert_says_what_to_install(self, text, part='measure'):
        self.assertIn('numpy', text)
        self.assertIn(f'nova-diskplacer[{part}]', text)
        self.assertIn(f'package nova-diskplacer-{part}', text)

    def test_commands_of_the_driver(self):
        for words in (('disk', 'audit'), ('elastic', 'run')):
            done = run('oslo_db', *words)
            self.assertEqual((1, ''), (done.returncode, done.stdout))
            self.assertIn('oslo_db', done.stderr)
            self.assertIn('nova-diskplacer[driver]', done.stderr)
            self.assertIn('package cinder-vdisk-mapper', done.stderr)
        done = run('oslo_db', 'disk', '--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))

    def test_command(self):
        words = ('sweep', 'run', 'UUID', '--results', 'x', '--help')
        done = run('numpy', *words)
        self.assertEqual((1, ''), (done.returncode, done.stdout))
        (line,) = done.stderr.splitlines()
        self.assert_says_what_to_install(line)

    def test_help_of_the_command(self):
        done = run('numpy', 'sizing', '--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assert_says_what_to_install(done.stdout)

    def test_command_of_hosts_with_the_agent(self):
        done = run('numpy', 'weights', 'check')
        self.assertEqual(1, done.returncode)
        self.assert_says_what_to_install(done.stderr, 'agent')

    def test_help_of_all(self):
        done = run('numpy', '--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        for name in ('sizing', 'sweep', 'weights'):
            self.assertRegex(done.stdout, rf'\n    {name} +not installed\n')
        self.assertNotRegex(done.stdout, 'profile +not')

    def test_a_value_of_another_command_is_named_so(self):
        done = run('numpy', 'profile', 'show', 'sweep')
        self.assertEqual(1, done.returncode)
        self.assertIn('no profile sweep', done.stderr)
