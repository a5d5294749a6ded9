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

"""The commands as processes, with everything that they talk to away."""

import os
import signal
import socket
import subprocess
import sys
import time

import fixtures
from oslotest import base

BIN = os.path.dirname(sys.executable)

# Seconds until something must have happened.
PATIENCE = 200

CONF = """
[DEFAULT]
host = compute-1
transport_url = rabbit://guest:guest@127.0.0.1:{bus}/

[diskplacer]
disk_root = {disk_root}
compute_node = compute-1

[diskplacer_agent]
watch_interval = 1

[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:{placement}
token = token
"""


class CommandsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        # it takes connections and says nothing
        silent = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(silent.close)
        self.silent = silent.getsockname()[1]
        # nobody else gets it, but nobody listens
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(('127.0.0.1', 0))
        self.closed = closed.getsockname()[1]

    def write(self, text=CONF, **values):
        path = os.path.join(self.directory, 'test.conf')
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(text.format(disk_root=self.directory, **values))
        return path

    def start(self, program, *arguments):
        self.errors = os.path.join(self.directory, 'stderr')
        with open(self.errors, 'w') as stream:
            process = subprocess.Popen(
                [os.path.join(BIN, program), *arguments],
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def said(self):
        with open(self.errors, encoding='utf-8') as stream:
            return stream.read()

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.said():
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.1)

    def refused(self, program, *arguments):
        """Run a command that must fail; returns what it says."""
        process = self.start(program, *arguments)
        self.assertNotEqual(0, process.wait(PATIENCE))
        self.assertNotIn('Traceback', self.said())
        return self.said()

    def check_the_agent_stops(self, number):
        self.agent.send_signal(number)
        # it does not wait for what never answers
        self.assertEqual(0, self.agent.wait(60))
        self.assertNotIn('Traceback', self.said())

    def test_the_agent_stops_while_all_is_away(self):
        path = self.write(bus=self.closed, placement=self.closed)
        self.agent = self.start('diskplacer-agent', '--config-file', path)
        self.wait_for('Placement is not up to date')
        self.check_the_agent_stops(signal.SIGTERM)

    def test_the_agent_stops_while_it_waits_for_answers(self):
        path = self.write(bus=self.silent, placement=self.silent)
        self.agent = self.start('diskplacer-agent', '--config-file', path)
        self.wait_for('watches')
        time.sleep(3)
        self.assertIsNone(self.agent.poll())
        self.check_the_agent_stops(signal.SIGINT)

    def test_a_file_that_is_not_there(self):
        for command in (['diskplacer-agent'], ['diskplacer-manage']):
            said = self.refused(
                *command,
                '--config-file',
                '/nonexistent/nova.conf',
                *(['map'] if command == ['diskplacer-manage'] else []),
            )
            self.assertIn('/nonexistent/nova.conf', said)

    def test_no_credentials(self):
        path = self.write('[DEFAULT]\ntransport_url = fake:/\n')
        said = self.refused('diskplacer-agent', '--config-file', path)
        self.assertIn('[placement] auth_type is not set', said)

    def test_credentials_are_not_complete(self):
        path = self.write('[placement]\nauth_type = nonsense\n')
        said = self.refused('diskplacer-agent', '--config-file', path)
        self.assertIn('[placement]', said)
        self.assertIn('nonsense', said)

    def test_a_message_bus_of_no_known_kind(self):
        path = self.write(
            CONF.replace('rabbit:', 'pigeon:'), bus=1, placement=1
        )
        said = self.refused('diskplacer-agent', '--config-file', path)
        self.assertIn('transport_url', said)

    def test_an_option_out_of_range(self):
        path = self.write(
            CONF.replace('watch_interval = 1', 'watch_interval = 0'),
            bus=1,
            placement=1,
        )
        said = self.refused('diskplacer-agent', '--config-file', path)
        self.assertIn('watch_interval', said)

    def test_the_map_while_placement_is_away(self):
        path = self.write(bus=self.closed, placement=self.closed)
        said = self.refused('diskplacer-manage', '--config-file', path, 'map')
        self.assertIn('Placement cannot be reached', said)
