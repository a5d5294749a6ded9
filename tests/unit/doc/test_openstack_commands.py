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

"""The documentation's commands of OpenStack's own clients parse.

Commands of osc-placement are left out, which the tests do not install, and
those of this project, which test_commands parses.
"""

import argparse
import importlib.metadata
import re
import unittest.mock

import testtools
from cinderclient import api_versions
from cinderclient import shell

from tests.unit.doc import test_commands

_PROMPT = r'^ *(?:compute-?\w*|controller)?[#$] '
_OPENSTACK = re.compile(rf'{_PROMPT}openstack ((?:.*\\\n)*.*)$', re.MULTILINE)
_CINDER = re.compile(rf'{_PROMPT}cinder ((?:.*\\\n)*.*)$', re.MULTILINE)
_VARIABLE = re.compile(r'^ *\$ (\w+)=(.+)$', re.MULTILINE)
_GROUPS = re.compile(r'openstack\.(\w+\.v\d\w*|common|cli)')
_VERSION = re.compile('--os-[a-z]+-api-version')
_NOT_INSTALLED = ['resource', 'provider']

# What a text leaves out of a command.
_LEFT_OUT = '…'
_REQUIRED = 'arguments are required: '


def openstack_commands():
    """Return the entry points of all installed commands, by their words."""
    found = {}
    for group in importlib.metadata.entry_points().groups:
        if _GROUPS.fullmatch(group):
            for point in importlib.metadata.entry_points(group=group):
                words = tuple(point.name.split('_'))
                found.setdefault(words, []).append(point)
    return found


def without_version(words):
    """Return the version of an API that a command asks for, and the rest."""
    if words and _VERSION.fullmatch(words[0]):
        return words[1], words[2:]
    return '', words


def openstack_problem(words, commands):
    """Return what is wrong with a command of openstack."""
    _, words = without_version(words)
    words = words[: words.index('--help')] if '--help' in words else words
    if not words or words[0] == 'vdisk' or words[:2] == _NOT_INSTALLED:
        return ''
    is_whole = _LEFT_OUT not in words
    words = words[: None if is_whole else words.index(_LEFT_OUT)]
    for length in range(len(words), 0, -1):
        points = commands.get(tuple(words[:length]), [])
        problems = [
            _parse(point.load(), words[length:], is_whole) for point in points
        ]
        if problems:
            return '' if '' in problems else problems[0]
    return 'no such command'


def _parse(command, arguments, is_whole):
    parser = command(
        unittest.mock.MagicMock(), argparse.Namespace()
    ).get_parser('openstack')
    found = test_commands.complaint(lambda: parser.parse_args(arguments))
    return '' if not is_whole and _REQUIRED in found else found


def cinder_problem(words):
    """Return what is wrong with a command of cinder."""
    version, words = without_version(words)
    parser = shell.OpenStackCinderShell().get_subcommand_parser(
        api_versions.APIVersion(version or '3.0'), input_args=words
    )
    return test_commands.complaint(lambda: parser.parse_args(words))


class OpenStackCommandsTest(testtools.TestCase):
    def test_openstack(self):
        commands = openstack_commands()
        used = 0
        for page in test_commands.pages():
            variables = {
                f'${name}': value
                for name, value in _VARIABLE.findall(page.read_text())
            }
            for text in _OPENSTACK.findall(page.read_text()):
                words = [
                    variables.get(word, word)
                    for word in test_commands.words_of(text)
                ]
                self.assertEqual(
                    '',
                    openstack_problem(words, commands),
                    f'{page.name}: {text}',
                )
                used += 1
        self.assertGreater(used, 100)

    def test_what_is_wrong_with_openstack(self):
        commands = openstack_commands()
        for text, expected in (
            ('server migrate --live-migration SERVER', ''),
            ('--os-compute-api-version 2.67 server list', ''),
            ('server create …', ''),
            ('server create one', 'arguments are required: --flavor'),
            ('server list --bogus', 'unrecognized arguments: --bogus'),
            ('server nonsense', 'no such command'),
        ):
            found = openstack_problem(text.split(), commands)
            self.assertIn(expected, found, text)
            self.assertEqual(bool(expected), bool(found), text)

    def test_cinder(self):
        used = 0
        for page in test_commands.pages():
            for text in _CINDER.findall(page.read_text()):
                self.assertEqual(
                    '',
                    cinder_problem(test_commands.words_of(text)),
                    f'{page.name}: {text}',
                )
                used += 1
        self.assertGreater(used, 3)

    def test_what_is_wrong_with_cinder(self):
        for text, expected in (
            ('snapshot-manage VOLUME DISK/NAME', ''),
            ('--os-volume-api-version 3.62 default-type-list', ''),
            ('default-type-list', "Try 'cinder help "),
            ('snapshot-manage VOLUME', "Try 'cinder help snapshot-manage'"),
        ):
            found = cinder_problem(text.split())
            self.assertIn(expected, found, text)
            self.assertEqual(bool(expected), bool(found), text)
