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
import queue
import socket
import stat
import threading

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import agent_socket


class AgentSocketTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).join('state')
        self.path = os.path.join(self.dir, 'agent.sock')
        self.log = self.useFixture(fixtures.FakeLogger())
        self.calls = 0

    def provide(self):
        self.calls += 1
        return 'answer'

    def serve(self, answer=None):
        server = agent_socket.serve(self.path, answer or self.provide)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(self.path)
        return client

    def test_whoever_asks_is_told_what_holds_then(self):
        self.serve()
        self.assertEqual(0, self.calls)
        self.assertEqual('answer', agent_socket.fetch(self.path))
        self.assertEqual(1, self.calls)

    def test_only_the_owner_may_ask(self):
        self.serve()
        mode = os.stat(self.path).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(0o600, stat.S_IMODE(mode))
        self.assertEqual(['agent.sock'], os.listdir(self.dir))

    def test_the_socket_of_a_dead_agent_is_replaced(self):
        os.mkdir(self.dir)
        for name in ('agent.sock', 'agent.sock.new'):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(os.path.join(self.dir, name))
        self.assertRaises(exception.AgentError, agent_socket.fetch, self.path)
        self.serve()
        self.assertEqual('answer', agent_socket.fetch(self.path))

    def test_who_is_slow_keeps_nobody_waiting(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.agent_socket._SEND_TIMEOUT', 3600
            )
        )
        large = 'x' * 10**6
        self.serve(lambda: large)
        # they never read what no socket's buffer holds
        for _ in range(20):
            self.connect()
        self.assertEqual(large, agent_socket.fetch(self.path, timeout=120))

    def test_who_is_slow_is_given_up(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.agent_socket._SEND_TIMEOUT', 0.05
            )
        )
        threads = queue.Queue()

        def provide():
            threads.put(threading.current_thread())
            return 'x' * 10**6

        self.serve(provide)
        client = self.connect()
        thread = threads.get(timeout=120)
        thread.join(120)
        self.assertFalse(thread.is_alive())
        # the end of the answer never comes
        received = 0
        while chunk := client.recv(65536):
            received += len(chunk)
        self.assertLess(received, 10**6)
        self.assertEqual('', self.log.output)

    def test_who_goes_away_is_no_trouble(self):
        self.serve()
        for _ in range(5):
            self.connect().close()
        self.assertEqual('answer', agent_socket.fetch(self.path))
        self.assertEqual('', self.log.output)

    def test_an_answer_that_fails_is_logged_and_told(self):
        def fail():
            raise ZeroDivisionError('in a test')

        self.serve(fail)
        error = self.assertRaises(
            exception.AgentError, agent_socket.fetch, self.path
        )
        self.assertIn('see its log', str(error))
        self.assertIn('ZeroDivisionError', self.log.output)

    def test_no_agent(self):
        error = self.assertRaises(
            exception.AgentError, agent_socket.fetch, self.path
        )
        self.assertIn('start diskplacer-agent', str(error))
        self.assertIn('[diskplacer_agent] state_dir', str(error))

    def test_an_agent_that_does_not_answer(self):
        os.mkdir(self.dir)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(self.path)
            silent.listen()
            error = self.assertRaises(
                exception.AgentError, agent_socket.fetch, self.path, 0.05
            )
        self.assertIn('timed out', str(error))

    def test_a_directory_that_cannot_be_there(self):
        open(self.dir, 'w').close()
        for directory in (self.dir, '/tmp/' + 'x' * 120):
            error = self.assertRaises(
                exception.AgentError,
                agent_socket.serve,
                os.path.join(directory, 'agent.sock'),
                self.provide,
            )
            self.assertIn('[diskplacer_agent] state_dir', str(error))
