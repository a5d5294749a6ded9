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

"""Booting the guest of the testbed."""

import contextlib
import io
import pathlib
import sys
from unittest import mock

import fixtures
import testtools

from tools.testbed import accel
from tools.testbed import bed
from tools.testbed import commands

# Stands in for QEMU. It panics so many times; then it answers as the agent in
# the guest and QEMU do.
QEMU = """
import os, socket, sys, time
panics, agent, monitor, starts = sys.argv[1:]
with open(starts, 'a') as opened:
    opened.write('x')
    opened.flush()
    number = os.stat(starts).st_size
print('booting\\n' * 99 + f'Kernel panic {number}', flush=True)
if number <= int(panics):
    sys.exit(3)
os.write(int(agent), b'{"ready": true}\\n')
stream = socket.socket(fileno=int(monitor)).makefile('rw')
stream.write('{"QMP": {}}\\n')
stream.flush()
stream.readline()
stream.write('{"return": {}}\\n')
stream.flush()
time.sleep(600)
"""


class BootTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.starts = directory / 'starts'
        for target, attribute, value in (
            (bed.image, 'build', mock.Mock()),
            (bed.packages, 'build', mock.Mock()),
            (bed.compileall, 'compile_dir', mock.Mock()),
            (bed.machine, 'arguments', self.arguments),
            (accel, 'candidates', lambda: [accel.ALWAYS]),
        ):
            self.useFixture(fixtures.MockPatchObject(target, attribute, value))

    def arguments(self, name, path, shares, installed, disks, ends, *rest):
        self.assertEqual(accel.ALWAYS, name)
        return [
            sys.executable,
            '-c',
            QEMU,
            str(self.panics),
            *map(str, ends),
            str(self.starts),
        ]

    def boot(self, panics):
        """Boot; return what was printed."""
        self.panics = panics
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            with bed.Testbed(disks=()):
                pass
        return printed.getvalue().splitlines()

    def test_at_once(self):
        self.assertEqual([], self.boot(0))

    def test_again_after_a_panic(self):
        printed = self.boot(1)
        self.assertEqual('QEMU ended with 3:', printed[0])
        lines = ['booting'] * (bed.CONSOLE_LINES - 1)
        self.assertEqual([*lines, 'Kernel panic 1'], printed[1:-1])

    def test_not_after_two_panics(self):
        error = self.assertRaises(commands.CommandError, self.boot, 2)
        self.assertIn('QEMU ended with 3:', str(error))
        self.assertIn('Kernel panic 2', str(error))
        self.assertEqual('xx', self.starts.read_text())
