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

import json
import os
import time

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import commands


class RunTestCase(testtools.TestCase):
    def test_errors_have_the_output_of_the_command(self):
        error = self.assertRaises(
            exception.DiskError, commands.run, 'ls', '/no/such'
        )
        self.assertIn('ls /no/such: ', str(error))
        self.assertIn('No such file', str(error))
        self.assertRaises(exception.DiskError, commands.run, 'no-such-command')

    def test_a_busy_device_is_retried(self):
        path = self.useFixture(fixtures.TempDir()).join('free')
        command = 'test -e "$0" || { touch "$0"; exit 1; }'
        self.assertRaises(
            exception.DiskError, commands.run, 'sh', '-c', command, path
        )
        os.unlink(path)
        commands.run('sh', '-c', command, path, attempts=2)

    def test_a_device_that_stays_busy(self):
        self.patch(time, 'sleep', lambda seconds: None)
        path = self.useFixture(fixtures.TempDir()).join('attempts')
        command = 'echo >> "$0"; false'
        self.assertRaises(
            exception.DiskError, commands.run, 'sh', '-c', command, path,
            attempts=3,
        )  # fmt: skip
        self.assertEqual(3, os.path.getsize(path))

    def test_environment(self):
        self.assertEqual(
            'b\n', commands.run('sh', '-c', 'echo $A', environment={'A': 'b'})
        )

    def test_locale(self):
        self.useFixture(fixtures.EnvironmentVariable('LC_ALL', 'xx'))
        for environment in (None, {'LC_ALL': 'yy'}):
            self.assertEqual(
                'C\n',
                commands.run(
                    'sh', '-c', 'echo $LC_ALL', environment=environment
                ),
            )


class ReportErrorsTestCase(testtools.TestCase):
    def test_whatever_a_report_has(self):
        text = 'lsblk: a message' + 200 * '.'

        def during(read):
            with commands.report_errors('lsblk', text):
                read()

        for read in (
            lambda: json.loads(text),
            lambda: json.loads('[' * 100000),
            lambda: {}['devices'],
            lambda: json.loads('[]')[0],
            lambda: json.loads('null')['devices'],
            lambda: ''.get('devices'),
            lambda: int('x'),
        ):
            error = self.assertRaises(exception.DiskError, during, read)
            self.assertIn(f'begins with {text[:80]!r} (', str(error))
