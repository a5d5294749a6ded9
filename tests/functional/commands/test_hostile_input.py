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

"""No command ends in a traceback, whatever it is given.

The commands are those of the entry points, their arguments those of their
parsers. Each command line runs in a forked process with standard streams of
its own.
"""

import argparse
import itertools
import os
from importlib import metadata

from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import manage
from tests.functional.commands import base

PREFIX = 'diskplacer-'

STATUSES = {
    exit_status.OK,
    exit_status.ERROR,
    exit_status.USAGE,
    exit_status.FINDINGS,
    exit_status.CLOSED,
    base.UNCHECKED,
}

CONF = """
[diskplacer]
disk_root = {top}/disks
lock_dir = {top}/locks
profile_dirs = {top}/profiles
[diskplacer_agent]
state_dir = {top}/state
[placement]
auth_type = none
endpoint = http://127.0.0.1:1
"""

NUMBERS = ('inf', 'nan', '-1', '1e999', str(1 << 70), '9' * 5000)
WORDS = ('', 'é\n→', '\udcff', '../..', 'a:b,c=1-2')

# They change this machine, or wait for something.
UNSAFE = {('install-units',), ('elastic', 'run')}


def openstack_commands():
    """Yield the commands ``openstack vdisk``: (words, parser) of each."""
    for one in metadata.distribution('nova-diskplacer').entry_points:
        if one.group == 'openstack.vdisk.v1':
            parser = argparse.ArgumentParser()
            one.load()(None, None).add_arguments(parser)
            yield tuple(one.name.split('_')), parser


def leaves(parser, words=()):
    """Return the commands below a parser, (words, parser) of each."""
    below = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    if not below:
        return [(words, parser)]
    return [
        leaf
        for action in below
        for name, child in action.choices.items()
        for leaf in leaves(child, (*words, name))
    ]


def plain(action):
    """Return values that an argument may well be given."""
    if action.nargs == 0:
        return []
    if action.choices:
        return [str(next(iter(action.choices)))]
    value = '1'
    if action.type is None:
        value = 'x'
    return [value] * (action.nargs if isinstance(action.nargs, int) else 1)


_taken = itertools.count()


def take(values):
    """Return the next of the values, or all if DISKPLACER_HOSTILE=all."""
    if os.environ.get('DISKPLACER_HOSTILE') == 'all':
        return values
    return [values[next(_taken) % len(values)]]


def lines(words, parser, files):
    """Return the command lines with one hostile argument each."""
    required = [
        action
        for action in parser._actions
        if action.required and not isinstance(action, argparse._HelpAction)
    ]
    yield [*words, *whole(required)]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.nargs == 0:
            continue
        hostile = WORDS if action.type is None else NUMBERS
        others = [one for one in required if one is not action]
        for value in take((*hostile, *files)):
            if action.option_strings:
                given = [f'{action.option_strings[-1]}={value}']
            else:
                given = ['--', value]
            if others and not action.option_strings:
                given = [*whole(others), *given]
            else:
                given = [*given, *whole(others)]
            yield [*words, *given]


def whole(actions):
    """Return arguments for actions, options first."""
    given = []
    for action in sorted(actions, key=lambda one: not one.option_strings):
        given += [*action.option_strings[-1:], *plain(action)]
    return given


class HostileInputTest(base.CommandTestCase):
    def setUp(self):
        super().setUp()
        for name in ('disks', 'locks', 'profiles', 'state'):
            (self.top / name).mkdir()
        self.conf = self._file('nova.conf', CONF.format(top=self.top).encode())
        self.files = [
            self._file('latin1', '[DEFAULT]\nhost = \xe9\n'.encode('latin1')),
            self._file('deep', b'[' * 100_000 + b'\n'),
            self._file('zeros', bytes(5000)),
            str(self.top),
            '/dev/full',
        ]
        self.tried = 0
        self.failures = []

    def _file(self, name, content):
        path = self.top / name
        path.write_bytes(content)
        return str(path)

    def _try(self, main, words, statuses=STATUSES, **streams):
        self.tried += 1
        status, said = self.run_command(main, words, **streams)
        if status not in statuses or 'Traceback' in said:
            self.failures.append(
                f'{words} {streams}: {status}\n{said[-1500:]}'
            )
        return status

    def _judge(self, least):
        self.assertEqual([], self.failures, '\n'.join(self.failures))
        self.assertGreaterEqual(self.tried, least)

    def _manage(self):
        for words, parser in leaves(manage.make_parser()):
            if words not in UNSAFE:
                yield words, parser

    def test_arguments_and_files(self):
        main = self.mains['diskplacer-manage']
        for words, parser in self._manage():
            tried = lines(words, parser, self.files)
            if parser.get_default('configure') is cinder_conf.configure:
                # importing Cinder takes seconds
                tried = take(tuple(tried))
            for line in tried:
                self._try(main, ['--config-file', self.conf, *line])
        self._judge(150)

    def test_configuration_files(self):
        for name, main in self.mains.items():
            words = ()
            if name == 'diskplacer-manage':
                words = ('disk', 'list')
            elif name == 'diskplacer-status':
                words = ('upgrade', 'check')
            bad = {exit_status.ERROR, base.UNCHECKED}
            for path in (*self.files, '/missing', f'{self.conf}/x'):
                self._try(main, ['--config-file', path, *words], bad)
        for words, _ in self._manage():
            for path in self.files[:3]:
                self._try(
                    self.mains['diskplacer-manage'],
                    ['--config-file', path, *words, '--help'],
                )
        self._judge(40)

    def test_output(self):
        main = self.mains['diskplacer-manage']
        for words, _ in self._manage():
            self._outputs(main, [*words, '--help'])
        for name, one in self.mains.items():
            self._outputs(one, ['--help'], argv=name)
        self._outputs(main, ['--config-file', self.conf, 'profile', 'list'])
        self._judge(150)

    def test_openstack(self):
        self.tried, self.failures = self.in_process(self._try_openstack)
        self._judge(50)

    def _try_openstack(self):
        main = base.openstack()
        for words, parser in openstack_commands():
            for line in lines(words, parser, self.files):
                self._try(main, [*base.CLOUD, *line])
        for words in ('list', 'show batch'):
            line = f'vdisk profile {words}'.split()
            # its formatters know no closed output
            self._outputs(main, line, closed={exit_status.ERROR})
        return self.tried, self.failures

    def _outputs(self, main, words, closed=None, **streams):
        pipe = {exit_status.CLOSED}
        full = {exit_status.ERROR, base.UNCHECKED}
        self._try(main, words, pipe, stdout='pipe', **streams)
        self._try(main, words, full, stdout='/dev/full', **streams)
        good = {exit_status.OK}
        self._try(main, words, closed or good, stdout='closed', **streams)
        for encoding in ('ascii', 'latin-1'):
            self._try(main, words, good, encoding=encoding, **streams)
