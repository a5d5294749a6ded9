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

"""The commands of the documentation: each is one that its parser takes."""

import argparse
import contextlib
import functools
import importlib
import io
import pathlib
import re
import shlex
import tomllib

import testtools

from nova_diskplacer.cmd import manage

ROOT = pathlib.Path(__file__).parents[3]

# A command with its continued lines, in a code block or quoted in the text.
_COMMAND = re.compile(r'^ *\$ openstack (vdisk (?:.*\\\n)*.*)$', re.MULTILINE)
_MANAGE = re.compile(
    r'^ *(?:compute-?\w*|controller)?[#$] diskplacer-manage '
    r'((?:.*\\\n)*.*)$',
    re.MULTILINE,
)
_QUOTED = re.compile(r'``openstack (vdisk [^`]+)``')
_QUOTED_MANAGE = re.compile(r'``diskplacer-manage\s+([^`]+)``')

# argparse says so only of a command that exists.
_MISSING = re.compile('arguments are required: |one of the arguments ')


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
    # a shell shows > before a continued line
    words = shlex.split(re.sub(r'\\\n *(?:> )?', ' ', text))
    for end in ('|', '>', '&&'):
        if end in words:
            words = words[: words.index(end)]
    return words


def complaint(parse):
    """Return the last line of what a parser prints, '' if it parses."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parse()
    except SystemExit:
        return errors.getvalue().splitlines()[-1]
    return ''


def problem(words, classes):
    """Return what is wrong with a command, '' if nothing is."""
    for length in range(len(words), 1, -1):
        command = classes.get(tuple(words[:length]))
        if command is None:
            continue
        parser = command(None, argparse.Namespace()).get_parser('openstack')
        rest = words[length:]
        return complaint(lambda: parser.parse_args(rest))  # noqa: B023
    return 'no such command'


def manage_problem(text):
    """Return what is wrong with a command of diskplacer-manage."""
    # a number stands for any placeholder, such as UUID
    words = [re.sub('^[A-Z_]+$', '1', word) for word in words_of(text)]
    return complaint(lambda: manage_parser(words[0]).parse_args(words))


def quoted_problem(text):
    """Return the same of a command that a text names, without arguments."""
    found = manage_problem(text)
    return '' if _MISSING.search(found) else found


@functools.cache
def manage_parser(command):
    """Return a parser: that of all commands takes long."""
    return manage.make_parser([command])


def pages():
    """Return README.rst and all pages of the documentation."""
    return [ROOT / 'README.rst', *(ROOT / 'doc').rglob('*.rst')]


class CommandsTest(testtools.TestCase):
    def test_pages(self):
        classes = commands()
        used = set()
        for page in pages():
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

    def test_pages_of_manage(self):
        used = set()
        for page in pages():
            for text in _MANAGE.findall(page.read_text()):
                self.assertEqual(
                    '', manage_problem(text), f'{page.name}: {text}'
                )
                used.add(tuple(words_of(text)[:2]))
        self.assertGreater(len(used), 20)

    def test_what_is_wrong_with_manage(self):
        for text, expected in (
            ('disk drain --plan UUID', ''),
            ('disk list | head', ''),
            ('disk drain --bogus UUID', 'unrecognized arguments: --bogus'),
            ('disk nonsense', "invalid choice: 'nonsense'"),
            ('nonsense', "invalid choice: 'nonsense'"),
        ):
            self.assertIn(expected, manage_problem(text), text)
            self.assertEqual(bool(expected), bool(manage_problem(text)), text)

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

    def test_quoted_of_manage(self):
        """The same of diskplacer-manage."""
        used = set()
        for page in pages():
            for text in _QUOTED_MANAGE.findall(page.read_text()):
                self.assertEqual(
                    '', quoted_problem(text), f'{page.name}: {text}'
                )
                used.add(tuple(words_of(text)[:2]))
        self.assertGreater(len(used), 20)

    def test_what_is_wrong_with_what_is_quoted(self):
        for text, expected in (
            ('disk drain', ''),
            ('elastic move', ''),
            ('--config-file FILE weights\n   check', ''),
            ('audit', "invalid choice: 'audit'"),
            ('disk nonsense', "invalid choice: 'nonsense'"),
            ('disk drain --bogus UUID', 'unrecognized arguments: --bogus'),
        ):
            self.assertIn(expected, quoted_problem(text), text)
            self.assertEqual(bool(expected), bool(quoted_problem(text)), text)

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
