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


"""The application behind the real ``auth_token`` of keystonemiddleware."""

import json
import pathlib
import uuid

import fixtures
import webob
from keystonemiddleware import fixture as ks_fixture
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import conf as options
from nova_diskplacer import nova_server
from nova_diskplacer.vendordata import application
from nova_diskplacer.vendordata import nova_api

CONF = """
[keystone_authtoken]
www_authenticate_uri = http://keystone.test
# the application must not see who is nobody
delay_auth_decision = true
[diskplacer_vendordata]
roles = service,nova
"""
SERVER = str(uuid.uuid4())
PROJECT = uuid.uuid4().hex
SPECS = {
    'diskplacer:guest': 'kafka',
    'diskplacer:vdisks': '4',
    'diskplacer:vdisk_gb': '10',
}


class ApplicationTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('nova_diskplacer'))
        self.tokens = self.useFixture(ks_fixture.AuthTokenFixture())
        self.servers = {SERVER: nova_server.Server(SERVER, PROJECT, SPECS)}
        self.asked = []
        self.useFixture(
            fixtures.MockPatchObject(
                nova_api.NovaClient, 'from_conf', lambda conf: self
            )
        )
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'conf')
        path.write_text(CONF)
        conf = cfg.ConfigOpts()
        options.register_opts(conf)
        conf([f'--config-file={path}'], default_config_files=[])
        self.conf = conf
        self.start()

    def start(self):
        self.application = application.from_conf(self.conf)

    def server(self, server):
        """Take the place of Nova."""
        self.asked.append(server)
        found = self.servers.get(server)
        if isinstance(found, Exception):
            raise found
        return found

    def token(self, *roles):
        token = uuid.uuid4().hex
        self.tokens.add_token_data(
            token_id=token, project_id='service', role_list=list(roles)
        )
        return token

    def ask(
        self,
        body=None,
        token=None,
        method='POST',
        sized=True,
        content_type='application/json',
        **headers,
    ):
        """Return the response to a request, by default as Nova sends it."""
        request = webob.Request.blank('/', method=method)
        if body is None:
            body = {
                'project-id': PROJECT,
                'instance-id': SERVER,
                'image-id': str(uuid.uuid4()),
                'user-data': 'c2VjcmV0',
                'hostname': 'worker-1',
                'metadata': {},
                'boot-roles': 'member',
            }
        request.body = (
            body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        if not sized:
            request.content_length = None
        request.content_type = content_type
        request.headers.update(headers)
        request.headers['X-Auth-Token'] = token or self.token('service')
        return request.get_response(self.application)

    def answer(self, **arguments):
        response = self.ask(**arguments)
        self.assertEqual(200, response.status_int, response.text)
        self.assertEqual('application/json', response.content_type)
        return response.json

    def test_vendor_data(self):
        self.assertIn('server.properties', self.answer())
        for roles in (('member', 'nova'), ('service',)):
            self.assertNotEqual('', self.answer(token=self.token(*roles)))

    def test_any_content_type(self):
        """Whatever it says of the encoding, JSON says it better."""
        for content_type in (
            'application/json; charset=zz',
            'application/json; charset=utf-16',
            'text/plain; charset=latin-1',
            '',
            ';;=',
        ):
            self.assertNotEqual('', self.answer(content_type=content_type))

    def test_nothing_for_a_flavor_without_a_framework(self):
        self.servers[SERVER] = nova_server.Server(SERVER, PROJECT, {})
        self.assertEqual('', self.answer())
        self.assertEqual('', self.log.output)

    def test_who_may_ask(self):
        refused = [
            self.ask(token=self.token('admin', 'member')),
            self.ask(token=self.token()),
            # auth_token removes what a client says of itself
            self.ask(token=self.token('member'), **{'X-Roles': 'service'}),
        ]
        self.assertEqual([403] * 3, [one.status_int for one in refused])
        unknown = self.ask(token='unknown', **{'X-Roles': 'service'})
        self.assertEqual(401, unknown.status_int)
        self.assertEqual([], self.asked)

    def test_nothing_of_a_server_in_another_project(self):
        self.servers[SERVER] = nova_server.Server(
            SERVER, uuid.uuid4().hex, SPECS
        )
        self.assertEqual('', self.answer())
        self.assertIn(f'no such server in project {PROJECT}', self.log.output)

    def test_repeated_requests_ask_nova_once(self):
        """Nova asks several times when it makes a config drive."""
        for found in (self.servers[SERVER], None):
            self.servers[SERVER] = found
            self.asked = []
            self.start()
            answers = {self.answer() for _ in range(6)}
            self.assertEqual(1, len(answers))
            self.assertEqual([SERVER], self.asked)
        self.assertEqual({''}, answers)

    def test_answers_are_kept_for_seconds_only(self):
        self.useFixture(fixtures.MockPatchObject(application, '_SECONDS', 0))
        self.start()
        self.assertNotEqual('', self.answer())
        self.servers[SERVER] = nova_server.Server(SERVER, PROJECT, {})
        self.assertEqual('', self.answer())

    def test_answers_are_kept_for_one_project_only(self):
        self.assertNotEqual('', self.answer())
        body = {'instance-id': SERVER, 'project-id': uuid.uuid4().hex}
        self.assertEqual('', self.answer(body=body))

    def test_failures_are_logged_and_answered_with_nothing(self):
        for failure, words in (
            (nova_server.NovaError('Nova cannot be reached'), 'be reached'),
            (None, 'no such server'),
            (
                nova_server.Server(
                    SERVER, PROJECT, {'diskplacer:vdisks': '4'}
                ),
                'diskplacer:vdisk_gb is required',
            ),
            (
                nova_server.Server(
                    SERVER, PROJECT, {'diskplacer:profile': 'x'}
                ),
                'diskplacer:profile=x',
            ),
        ):
            self.servers[SERVER] = failure
            self.start()
            self.assertEqual('', self.answer())
            self.assertIn(words, self.log.output)
        self.assertEqual(4, self.log.output.count(SERVER))
        self.assertNotIn('c2VjcmV0', self.log.output)

    def test_bad_requests(self):
        self.assertEqual(405, self.ask(b'', method='GET').status_int)
        for body in (
            b'',
            b'{',
            [],
            'text',
            {'instance-id': SERVER},
            {'project-id': PROJECT},
            {'project-id': PROJECT, 'instance-id': None},
            {'project-id': [], 'instance-id': SERVER},
            {'project-id': PROJECT, 'instance-id': f'../flavors/{SERVER}'},
            {'project-id': PROJECT, 'instance-id': f'{SERVER}/action'},
            {'project-id': PROJECT, 'instance-id': f'{SERVER}\n'},
            {'project-id': PROJECT, 'instance-id': [SERVER]},
            b'[' * 5000,
            b'{"instance-id":' * 5000,
            b'\xff\xfe',
            b'9' * 5000,
        ):
            self.assertEqual(400, self.ask(body).status_int, body)
        for length in ('many', '-1', ''):
            response = self.ask(**{'Content-Length': length})
            self.assertEqual(411, response.status_int, length)
        self.assertEqual(411, self.ask(sized=False).status_int)
        self.assertEqual(413, self.ask(b' ' * (1 << 20) + b'1').status_int)
        self.assertEqual([], self.asked)
