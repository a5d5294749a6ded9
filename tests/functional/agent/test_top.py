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

"""``diskplacer-manage top`` as a process: on a terminal, and into a pipe."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

from oslotest import base

from nova_diskplacer import exit_status
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example

BIN = os.path.dirname(sys.executable)

# Seconds until something must have happened.
PATIENCE = 200

# What moves the cursor and colours, rather than is read.
CONTROL = re.compile(r'\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])')


class TopTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        # one that others may enter
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.chmod(directory.name, 0o755)
        self.state_dir = os.path.join(directory.name, 'state')
        self.config = os.path.join(directory.name, 'test.conf')
        with open(self.config, 'w', encoding='utf-8') as stream:
            stream.write(f'[diskplacer_agent]\nstate_dir={self.state_dir}\n')
        self.provider = example.status_provider(time=time.time() + PATIENCE)

    def serve(self):
        server = status_socket.serve(self.state_dir, lambda: self.provider())
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def command(self, *words):
        return [
            os.path.join(BIN, 'diskplacer-manage'),
            '--config-file',
            self.config,
            'top',
            *words,
        ]

    def start(self, *words, **arguments):
        process = subprocess.Popen(self.command(*words), **arguments)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_on_terminal(self, rows, columns, term='xterm'):
        """Start it; the terminal is ``self.slave``, we are ``self.master``."""
        self.master, self.slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, self.slave)
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.written = ''
        return self.start(
            '--interval',
            '0.2',
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, 'TERM': term, 'LC_ALL': 'C.UTF-8'},
        )

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.slave, (rows, columns))

    def wait_for(self, text):
        """Wait until it is written, and forget all until then."""
        end = time.monotonic() + PATIENCE
        while text not in CONTROL.sub('', self.written):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                self.fail(f'{text!r} is not in {self.written!r}')
            self.written += os.read(self.master, 65536).decode()
        seen, self.written = self.written, ''
        return seen

    def assert_ends_well(self, process):
        # what it writes at the end must find room
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.written += os.read(self.master, 65536).decode()
        self.assertEqual(0, process.returncode)
        self.assertEqual('', process.stderr.read())
        self.assertEqual(self.before, termios.tcgetattr(self.slave))

    def test_it_lives_on_a_terminal(self):
        server = self.serve()
        process = self.start_on_terminal(24, 80)
        first = self.wait_for('exempt')
        self.assertIn('compute-3', first)
        self.assertNotIn(example.LONG, first)
        self.provider = example.status_provider(
            time=time.time() + PATIENCE, cpu_seconds=0.1234
        )
        self.wait_for('123.4')
        for rows, columns, text in ((1, 1, 'c'), (50, 170, example.LONG)):
            self.resize(rows, columns)
            process.send_signal(signal.SIGWINCH)
            self.wait_for(text)
        server.shutdown()
        server.server_close()
        self.wait_for('no agent answers')
        self.serve()
        self.wait_for(example.LONG)
        os.write(self.master, b'q')
        self.assert_ends_well(process)

    def test_it_ends_when_interrupted(self):
        self.serve()
        process = self.start_on_terminal(24, 80)
        self.wait_for('exempt')
        process.send_signal(signal.SIGINT)
        self.assert_ends_well(process)

    def test_a_terminal_that_cannot_be_drawn_on(self):
        self.serve()
        process = self.start_on_terminal(24, 80, term='dumb')
        self.assertEqual(1, process.wait(PATIENCE))
        error = process.stderr.read()
        self.assertIn('TERM=dumb', error)
        self.assertIn('--once', error)
        self.assertNotIn('Traceback', error)

    def test_it_goes_on_in_a_pipe_until_nobody_reads(self):
        self.serve()
        process = self.start(
            '--interval',
            '0.1',
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        heads = 0
        while heads < 3:
            heads += 'CLASS' in process.stdout.readline()
        process.stdout.close()
        self.assertEqual(exit_status.CLOSED, process.wait(PATIENCE))
        self.assertEqual('', process.stderr.read())

    def test_only_root_may_ask(self):
        if os.geteuid() != 0:
            self.skipTest('only root can become somebody else')
        self.serve()
        script = (
            'import sys\n'
            'from nova_diskplacer import exception\n'
            'from nova_diskplacer.monitor import status_socket\n'
            'try:\n'
            '    status_socket.fetch(sys.argv[1])\n'
            'except exception.AgentError as error:\n'
            '    print(error)\n'
        )
        done = subprocess.run(
            [sys.executable, '-c', script, self.state_dir],
            user=65534,
            capture_output=True,
            text=True,
        )
        self.assertIn('only root', done.stdout, done.stderr)
