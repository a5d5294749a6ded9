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

"""Tests of waiting for services, with a real service on the loopback."""

import json
import pathlib
import tempfile
import threading
import time
import unittest

# eventlet, on which Nova 31 runs, puts a module of its own into ``http``
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from unittest import mock

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import http_retries
from nova_diskplacer import service_account
from nova_diskplacer.placement import client as placement_client

DISK = 'd1'
PROVIDER = {
    'uuid': DISK,
    'name': 'host_disk_d1',
    'generation': 7,
    'parent_provider_uuid': 'root',
    'root_provider_uuid': 'root',
}
TOKEN = {
    'token': {
        'expires_at': '2999-01-01T00:00:00Z',
        'issued_at': '2000-01-01T00:00:00Z',
        'methods': ['password'],
        'user': {'id': 'u', 'name': 'u', 'domain': {'id': 'd', 'name': 'd'}},
        'catalog': [],
    }
}


class Service:
    """A service that answers as it is told, and may be away.

    ``script`` holds what it does with the next requests: a status, or a time
    in seconds before it answers 200. Later requests get 200.
    """

    def __init__(self):
        self.script = []
        self.asked = []
        self.changed = 0
        self._thread = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                size = int(self.headers.get('Content-Length') or 0)
                self.rfile.read(size)
                status, body = service.answer(self.command, self.path)
                self.send_response(status)
                for name, value in service.headers(self.path).items():
                    self.send_header(name, value)
                text = json.dumps(body).encode()
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = _answer  # noqa: N815 the base's names

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(
            ('127.0.0.1', 0), Handler, bind_and_activate=False
        )
        # a client that has given up is no error of the service
        self._server.handle_error = lambda *args: None
        # a request that hangs does not keep the test
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.server_bind()
        self.url = f'http://127.0.0.1:{self._server.server_port}'

    def start(self):
        # before that, connections are refused
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self):
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def headers(self, path):
        return {'X-Subject-Token': 'token'} if 'tokens' in path else {}

    def answer(self, method, path):
        self.asked.append((method, path))
        step = self.script.pop(0) if self.script else 200
        if isinstance(step, float):
            if method == 'PUT':
                self.changed += 1
            time.sleep(step)
            step = 200
        if step != 200:
            return step, {'errors': []}
        if method == 'PUT' and self.changed:
            return 409, {'errors': ['generation']}
        if path.endswith('tokens'):
            return 201, TOKEN
        return 200, PROVIDER


class AwayTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(http_retries, 'SECONDS', 20.0)
        patch.start()
        self.addCleanup(patch.stop)
        self.service = self._service()

    def _service(self):
        service = Service()
        self.addCleanup(service.stop)
        return service

    def _conf(self, **options):
        lines = [f'{name} = {value}' for name, value in options.items()]
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = pathlib.Path(directory.name) / 'diskplacer.conf'
        file.write_text('\n'.join(['[placement]', *lines]))
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(file)])
        return conf

    def _client(self, patient=True, **options):
        conf = self._conf(
            auth_type='none', endpoint=self.service.url, **options
        )
        return placement_client.PlacementClient.from_conf(conf, patient)

    def _start_later(self, service):
        timer = threading.Timer(1.2, service.start)
        timer.start()
        self.addCleanup(timer.join)

    def test_connections_are_refused_for_seconds(self):
        self._start_later(self.service)
        self.assertEqual(DISK, self._client().provider(DISK).uuid)
        self.assertEqual(1, len(self.service.asked))

    def test_a_proxy_answers_while_the_service_is_away(self):
        self.service.start()
        for status in (502, 503, 504):
            self.service.script = [status]
            self.assertEqual(DISK, self._client().provider(DISK).uuid)
        self.assertEqual(6, len(self.service.asked))

    def test_other_errors_are_answers(self):
        self.service.start()
        for status in (400, 401, 403, 409, 500):
            self.service.script = [status]
            with self.assertRaises(exception.PlacementError):
                self._client().provider(DISK)
        self.assertEqual(5, len(self.service.asked))

    def test_all_attempts_together_take_no_longer_than_one(self):
        begun = time.monotonic()
        with self.assertRaisesRegex(
            exception.PlacementError, 'cannot be reached'
        ):
            self._client(timeout=2).provider(DISK)
        # far from 20 s, on a busy machine too
        self.assertLess(time.monotonic() - begun, 10)
        # one that hangs
        self.service.start()
        self.service.script = [503, 9.0, 9.0, 9.0]
        begun = time.monotonic()
        with self.assertRaises(exception.PlacementError):
            self._client(timeout=2).provider(DISK)
        self.assertLess(time.monotonic() - begun, 8)
        self.assertEqual(2, len(self.service.asked))

    def test_a_limit_that_is_shorter_than_the_timeout(self):
        with (
            mock.patch.object(http_retries, 'SECONDS', 1.0),
            self.assertRaises(exception.PlacementError),
        ):
            self._client(timeout=600).provider(DISK)

    def test_the_last_answer_is_returned(self):
        self.service.start()
        self.service.script = [503] * 9
        with self.assertRaisesRegex(exception.PlacementError, '503'):
            self._client(timeout=2).provider(DISK)

    def test_commands_do_not_wait(self):
        self.service.start()
        self.service.script = [503]
        with self.assertRaises(exception.PlacementError):
            self._client(patient=False).provider(DISK)
        self.assertEqual(1, len(self.service.asked))

    def test_a_change_whose_answer_is_lost_is_a_conflict(self):
        self.service.start()
        # it is made, the answer comes too late, and a proxy times out
        self.service.script = [504]
        self.service.changed = 1
        with self.assertRaises(exception.Conflict):
            self._client().set_traits(DISK, 7, set())
        self.assertEqual(['PUT'] * 2, [one for one, _ in self.service.asked])

    def test_keystone_is_away(self):
        self.service.start()
        for refused in (True, False):
            keystone = self._service()
            if refused:
                self._start_later(keystone)
            else:
                keystone.script = [503]
                keystone.start()
            client = placement_client.PlacementClient.from_conf(
                self._conf(
                    auth_type='v3password',
                    auth_url=f'{keystone.url}/v3',
                    username='u',
                    password='p',
                    user_domain_id='default',
                    endpoint_override=self.service.url,
                )
            )
            self.assertEqual(DISK, client.provider(DISK).uuid)
            self.assertIn(('POST', '/v3/auth/tokens'), keystone.asked)

    def test_an_adapter_without_patience_has_no_limit_of_its_own(self):
        adapter = service_account.load_adapter(
            self._conf(auth_type='none', endpoint=self.service.url),
            'placement',
            'placement',
            30,
            patient=False,
        )
        self.assertNotIsInstance(adapter, http_retries.Adapter)
