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
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example


class InquiryTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).join('state')
        self.log = self.useFixture(fixtures.FakeLogger())
        self.calls = 0

    def provide(self):
        self.calls += 1
        return example.status_provider()()

    def serve(self, provider=None):
        server = status_socket.serve(self.dir, provider or self.provide)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(status_socket.path(self.dir))
        return client

    def test_whoever_asks_is_told_the_snapshot_of_then(self):
        self.serve()
        self.assertEqual(0, self.calls)
        self.assertEqual(
            example.status_provider()(), status_socket.fetch(self.dir)
        )
        self.assertEqual(1, self.calls)

    def test_before_the_first_round_there_is_none(self):
        self.serve(lambda: None)
        self.assertIsNone(status_socket.fetch(self.dir))

    def test_only_the_owner_may_ask(self):
        self.serve()
        mode = os.stat(status_socket.path(self.dir)).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(0o600, stat.S_IMODE(mode))
        self.assertEqual(['agent.sock'], os.listdir(self.dir))

    def test_the_socket_of_a_dead_agent_is_replaced(self):
        os.mkdir(self.dir)
        for name in ('agent.sock', 'agent.sock.new'):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(os.path.join(self.dir, name))
        self.assertRaises(
            exception.ContentionError, status_socket.fetch, self.dir
        )
        self.serve()
        self.assertIsNotNone(status_socket.fetch(self.dir))

    def test_who_is_slow_keeps_nobody_waiting(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.monitor.status_socket._SEND_TIMEOUT', 3600
            )
        )
        large = example.status_provider(
            example.make_sample(unwatched={'disk': 'x' * 10**6})
        )
        self.serve(large)
        # they never read what no socket's buffer holds
        for _ in range(20):
            self.connect()
        self.assertEqual(large(), status_socket.fetch(self.dir, timeout=120))

    def test_who_is_slow_is_given_up(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.monitor.status_socket._SEND_TIMEOUT', 0.05
            )
        )
        threads = queue.Queue()

        def provide():
            threads.put(threading.current_thread())
            return example.status_provider(
                example.make_sample(unwatched={'disk': 'x' * 10**6})
            )()

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
        self.assertIsNotNone(status_socket.fetch(self.dir))
        self.assertEqual('', self.log.output)

    def test_an_answer_that_fails_is_logged_and_told(self):
        def fail():
            raise ZeroDivisionError('in a test')

        self.serve(fail)
        error = self.assertRaises(
            exception.ContentionError, status_socket.fetch, self.dir
        )
        self.assertIn('see its log', str(error))
        self.assertIn('ZeroDivisionError', self.log.output)

    def test_no_agent(self):
        error = self.assertRaises(
            exception.ContentionError, status_socket.fetch, self.dir
        )
        self.assertIn('start diskplacer-agent', str(error))
        self.assertIn('[diskplacer_agent] state_dir', str(error))

    def test_an_agent_that_does_not_answer(self):
        os.mkdir(self.dir)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(status_socket.path(self.dir))
            silent.listen()
            error = self.assertRaises(
                exception.ContentionError, status_socket.fetch, self.dir, 0.05
            )
        self.assertIn('timed out', str(error))

    def test_a_directory_that_cannot_be_there(self):
        open(self.dir, 'w').close()
        for directory in (self.dir, '/tmp/' + 'x' * 120):
            error = self.assertRaises(
                exception.ContentionError,
                status_socket.serve,
                directory,
                self.provide,
            )
            self.assertIn('[diskplacer_agent] state_dir', str(error))
