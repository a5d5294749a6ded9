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


import uuid

import requests
from keystoneauth1 import adapter
from keystoneauth1 import loading
from keystoneauth1 import noauth
from keystoneauth1 import session
from oslotest import base
from requests_mock.contrib import fixture

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.vendordata import nova_api
from tests import configured

NOVA = 'http://nova.test/v2.1'
GROUP = options.vendordata.GROUP.name
SERVER = str(uuid.uuid4())
SPECS = {'diskplacer:guest': 'kafka'}
ANSWER = {
    'server': {
        'id': SERVER,
        'tenant_id': 'p',
        'flavor': {'extra_specs': SPECS, 'vcpus': 1},
    }
}


class NovaClientTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.requests = self.useFixture(fixture.Fixture())
        self.client = nova_api.NovaClient(
            adapter.Adapter(
                session.Session(noauth.NoAuth(endpoint=NOVA)),
                service_type='compute',
            )
        )

    def answer(self, **arguments):
        self.requests.get(f'{NOVA}/servers/{SERVER}', **arguments)

    def test_server(self):
        self.answer(json=ANSWER)
        self.assertEqual(
            nova_server.Server(SERVER, 'p', SPECS), self.client.server(SERVER)
        )
        headers = self.requests.last_request.headers
        self.assertEqual('compute 2.47', headers['OpenStack-API-Version'])

    def test_no_such_server(self):
        self.answer(status_code=404)
        self.assertIsNone(self.client.server(SERVER))

    def refused(self):
        error = self.assertRaises(
            nova_server.NovaError, self.client.server, SERVER
        )
        return str(error)

    def test_no_answer(self):
        for error in (requests.ReadTimeout, requests.ConnectionError):
            self.answer(exc=error)
            self.assertIn('cannot be reached', self.refused())
        self.answer(status_code=503, text='no cell')
        self.assertIn('503: no cell', self.refused())

    def test_incomplete_answer(self):
        self.answer(
            json={'server': {**ANSWER['server'], 'flavor': {'vcpus': 1}}}
        )
        self.assertIn("does not show 'extra_specs'", self.refused())
        for text in ('', '[]', '{"server": null}'):
            self.answer(text=text)
            self.assertIn('[diskplacer_vendordata]', self.refused())


class FromConfTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        loading.register_auth_conf_options(self.conf, GROUP)
        loading.register_session_conf_options(self.conf, GROUP)

    def test_account(self):
        self.conf.set_override('auth_type', 'none', GROUP)
        mock = self.useFixture(fixture.Fixture())
        mock.get(f'{NOVA}/servers/{SERVER}', json=ANSWER)
        self.conf.register_opts(
            loading.get_auth_plugin_conf_options('none'), GROUP
        )
        self.conf.set_override('endpoint', NOVA, GROUP)
        for timeout in (3, 1):
            client = nova_api.NovaClient.from_conf(self.conf)
            self.assertEqual(SPECS, client.server(SERVER).extra_specs)
            self.assertAlmostEqual(timeout, mock.last_request.timeout, delta=1)
            self.conf.set_override('timeout', 1, GROUP)

    def test_without_an_account(self):
        error = self.assertRaises(
            exception.DiskPlacerError, nova_api.NovaClient.from_conf, self.conf
        )
        self.assertIn(f'[{GROUP}] auth_type is not set', str(error))

    def test_unknown_kind_of_account(self):
        self.conf.set_override('auth_type', 'pasword', GROUP)
        error = self.assertRaises(
            exception.DiskPlacerError, nova_api.NovaClient.from_conf, self.conf
        )
        self.assertIn(f'[{GROUP}] is invalid: ', str(error))
        self.assertIn('pasword', str(error))
