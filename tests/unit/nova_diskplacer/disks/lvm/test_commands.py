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
from unittest import mock

import fixtures
import testtools
from testtools import matchers

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from tests.unit.nova_diskplacer.disks.lvm.test_report import NAME
from tests.unit.nova_diskplacer.disks.lvm.test_report import UUID


class RunTestCase(testtools.TestCase):
    def test_errors_name_the_reason(self):
        for command, reason in (
            (('/no/such/command',), 'No such file'),
            (('sh', '-c', 'echo a >&2; echo b >&2; exit 5'), ': a b'),
        ):
            error = self.assertRaises(
                exception.DiskError, commands.run, *command
            )
            self.assertIn(reason, str(error))

    def test_retry_while_udev_has_it_open(self):
        path = self.useFixture(fixtures.TempDir()).path
        released = os.path.join(path, 'released')
        with open(os.path.join(path, 'udevadm'), 'w') as stream:
            stream.write(f'#!/bin/sh\ntest "$1" = settle && touch {released}')
        os.chmod(stream.name, 0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{path}:/usr/bin:/bin')
        )
        command = ('sh', '-c', f'echo in use >&2; test -e {released}')
        self.assertRaises(exception.DiskError, commands.run, *command)
        commands.run_retry_udev(*command)

    def test_another_process_has_it_open(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/bin'))
        error = self.assertRaises(
            exception.DiskError,
            commands.run_retry_udev,
            'sh',
            '-c',
            'echo in use >&2; exit 5',
        )
        self.assertIn('in use', str(error))

    def test_environment(self):
        self.useFixture(fixtures.EnvironmentVariable('LC_ALL', 'xx'))
        self.assertEqual('C\n', commands.run('sh', '-c', 'echo $LC_ALL'))
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._launcher', ('env', 'X=1')
            )
        )
        self.assertEqual('1\n', commands.run('sh', '-c', 'echo $X'))

    def test_variables_of_lvm(self):
        for name in ('LVM_COMMAND_PROFILE', 'LVM_OUT_FD', 'LVM_SYSTEM_DIR'):
            self.useFixture(fixtures.EnvironmentVariable(name, '/x'))
        self.assertEqual(
            {'LVM_SYSTEM_DIR=/x', 'LVM_SUPPRESS_FD_WARNINGS=1'},
            {
                line
                for line in commands.run('env').splitlines()
                if line.startswith('LVM_')
            },
        )

    def test_dmeventd_is_not_used(self):
        directory = self.useFixture(fixtures.TempDir()).path
        command = os.path.join(directory, 'lvchange')
        with open(command, 'w') as stream:
            stream.write('#!/bin/sh\necho "$@"\n')
        os.chmod(command, 0o755)
        self.useFixture(fixtures.EnvironmentVariable('PATH', directory))
        self.assertThat(
            commands.run('lvchange', '--activate', 'y'),
            matchers.StartsWith(
                '--activate y --config activation/monitoring=0 '
            ),
        )

    def test_only_devices_of_the_group_are_read(self):
        known = mock.Mock()
        known.get.return_value = ('/dev/sdx', '/dev/sdy')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands.KNOWN', known
            )
        )
        for argument in (NAME, f'{NAME}/volume-1'):
            self.assertEqual(
                f'{argument} --devices /dev/sdx,/dev/sdy\n',
                commands.run('echo', argument),
            )
            known.get.assert_called_with(NAME)
        # but those that the command names
        self.assertEqual(
            f'{NAME} --devices /dev/sdz\n',
            commands.run('echo', NAME, '--devices', '/dev/sdz'),
        )
        for arguments in (['/dev/sdz'], [f'/dev/{NAME}/volume-1'], [UUID]):
            self.assertEqual(
                ' '.join(arguments) + '\n',
                commands.run('echo', *arguments),
            )
