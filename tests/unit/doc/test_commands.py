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

"""The commands ``openstack vdisk`` of the documentation."""

import argparse
import contextlib
import importlib
import io
import pathlib
import re
import shlex
import tomllib

import testtools

ROOT = pathlib.Path(__file__).parents[3]

# A command with its continued lines, in a code block or quoted in the text.
_COMMAND = re.compile(r'^ *\$ openstack (vdisk (?:.*\\\n)*.*)$', re.MULTILINE)
_QUOTED = re.compile(r'``openstack (vdisk [^`]+)``')


def commands():
    """Return the classes of the commands by their words."""
    with open(ROOT / 'pyproject.toml', 'rb') as file:
        points = tomllib.load(file)['project']['entry-points']
    found = {}
    for name, target in points['openstack.vdisk.v1'].items():
        module, _, attribute = target.partition(':')
        found[tuple(name.split('_'))] = getattr(
            importlib.import_module(module), attribute
        )
    return found


def words_of(text):
    """Return the words of a command line, without a pipe behind it."""
    words = shlex.split(text.replace('\\\n', ' '))
    for end in ('|', '>', '&&'):
        if end in words:
            words = words[: words.index(end)]
    return words


def problem(words, classes):
    """Return what is wrong with a command, '' if nothing is."""
    for length in range(len(words), 1, -1):
        command = classes.get(tuple(words[:length]))
        if command is None:
            continue
        parser = command(None, argparse.Namespace()).get_parser('openstack')
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                parser.parse_args(words[length:])
        except SystemExit:
            return errors.getvalue().splitlines()[-1]
        return ''
    return 'no such command'


class CommandsTest(testtools.TestCase):
    def test_pages(self):
        classes = commands()
        used = set()
        pages = [ROOT / 'README.rst', *(ROOT / 'doc').rglob('*.rst')]
        for page in pages:
            for text in _COMMAND.findall(page.read_text()):
                words = words_of(text)
                self.assertEqual(
                    '', problem(words, classes), f'{page.name}: {text}'
                )
                used |= {
                    name
                    for name in classes
                    if tuple(words[: len(name)]) == name
                }
        self.assertGreater(len(used), 5)

    def test_quoted(self):
        """A command that a text names exists; arguments may be missing."""
        classes = commands()
        for page in (ROOT / 'doc').rglob('*.rst'):
            for text in _QUOTED.findall(page.read_text()):
                words = text.split()
                self.assertTrue(
                    any(tuple(words[: len(name)]) == name for name in classes),
                    f'{page.name}: {text}',
                )

    def test_what_is_wrong(self):
        classes = commands()
        for text, expected in (
            ('vdisk host empty compute-1 --plan', ''),
            ('vdisk list --bogus', 'unrecognized arguments: --bogus'),
            ('vdisk host empty', 'arguments are required: HOST'),
            ('vdisk nonsense', 'no such command'),
        ):
            found = problem(text.split(), classes)
            self.assertEqual(bool(expected), bool(found))
            self.assertIn(expected, found)
