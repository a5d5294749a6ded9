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

import fixtures
import requests
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client

DISK = 'd1'

PROVIDER = {
    'uuid': DISK,
    'name': 'compute-1_disk_d1',
    'generation': 7,
    'parent_provider_uuid': 'root',
    'root_provider_uuid': 'root',
}


class Adapter:
    """Answers each request with the next of the answers given."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    def __getattr__(self, method):
        def call(url, **arguments):
            self.asked.append((method, url, arguments))
            answer = self._answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            response = requests.Response()
            response.status_code, body = answer
            response._content = (
                body if isinstance(body, bytes) else json.dumps(body).encode()
            )
            return response

        return call


def answers(*found):
    adapter = Adapter(*found)
    return placement_client.PlacementClient(adapter), adapter


class CallTest(base.BaseTestCase):
    def test_asks_for_one_microversion_and_judges_by_itself(self):
        client, adapter = answers((200, PROVIDER))
        client.provider(DISK)
        self.assertEqual(
            [
                (
                    'get',
                    '/resource_providers/d1',
                    {'microversion': '1.39', 'raise_exc': False},
                )
            ],
            adapter.asked,
        )

    def test_away(self):
        for error in (
            ks_exc.ConnectFailure('refused'),
            ks_exc.ConnectTimeout('slow'),
            ks_exc.Unauthorized('who?'),
            ks_exc.EndpointNotFound('where?'),
        ):
            client, _ = answers(error)
            raised = self.assertRaises(
                exception.PlacementError, client.provider, DISK
            )
            self.assertIn(str(error), str(raised))

    def test_conflict(self):
        client, _ = answers((409, {'errors': ['changed']}))
        error = self.assertRaises(
            exception.Conflict, client.set_inventories, DISK, 7, {}
        )
        for word in ('PUT', '/resource_providers/d1/inventories', 'changed'):
            self.assertIn(word, str(error))

    def test_refused(self):
        for status in (400, 401, 403, 404, 500, 503):
            client, _ = answers((status, 'why'))
            error = self.assertRaises(
                exception.PlacementError, client.inventories, DISK
            )
            self.assertNotIsInstance(error, exception.Conflict)
            self.assertIn(str(status), str(error))

    def test_not_json(self):
        client, _ = answers((200, b'<html>a proxy speaks</html>'))
        error = self.assertRaises(
            exception.PlacementError, client.inventories, DISK
        )
        self.assertIn('a proxy speaks', str(error))


class ProviderTest(base.BaseTestCase):
    def test_found(self):
        client, _ = answers((200, PROVIDER))
        self.assertEqual(
            placement_client.Provider(
                DISK, 'compute-1_disk_d1', 7, 'root', 'root'
            ),
            client.provider(DISK),
        )

    def test_none(self):
        client, _ = answers((404, {}))
        self.assertIsNone(client.provider(DISK))

    def test_by_name(self):
        client, adapter = answers((200, {'resource_providers': [PROVIDER]}))
        self.assertEqual(DISK, client.provider_by_name('a name&more').uuid)
        self.assertEqual(
            '/resource_providers?name=a+name%26more', adapter.asked[0][1]
        )

    def test_none_of_that_name(self):
        client, _ = answers((200, {'resource_providers': []}))
        self.assertIsNone(client.provider_by_name('nobody'))

    def test_disks(self):
        client, adapter = answers((200, {'resource_providers': [PROVIDER]}))
        self.assertEqual([DISK], [disk.uuid for disk in client.disks('root')])
        self.assertEqual(
            '/resource_providers?required=CUSTOM_DISKPLACER&in_tree=root',
            adapter.asked[0][1],
        )

    def test_no_disks_where_no_agent_has_ever_run(self):
        client, _ = answers(
            (400, 'No such trait(s): CUSTOM_DISKPLACER'), (200, {'traits': []})
        )
        self.assertEqual([], client.disks())

    def test_any_other_refusal_to_list_disks_is_an_error(self):
        client, _ = answers(
            (400, 'in_tree is no UUID'),
            (200, {'traits': ['CUSTOM_DISKPLACER']}),
        )
        error = self.assertRaises(exception.PlacementError, client.disks, 'x')
        self.assertIn('in_tree is no UUID', str(error))

    def test_deleting_none_is_no_error(self):
        client, _ = answers((404, {}))
        client.delete_provider(DISK)

    def test_deleting_one_in_use_is_a_conflict(self):
        client, _ = answers((409, 'allocations'))
        self.assertRaises(exception.Conflict, client.delete_provider, DISK)

    def test_setting_traits(self):
        client, adapter = answers((200, {}))
        client.set_traits(DISK, 7, {'B', 'A'})
        self.assertEqual(
            {'resource_provider_generation': 7, 'traits': ['A', 'B']},
            adapter.asked[0][2]['json'],
        )


class AllocationsTest(base.BaseTestCase):
    def test_of_a_consumer(self):
        client, _ = answers(
            (
                200,
                {
                    'allocations': {
                        DISK: {'generation': 7, 'resources': {'X': 3}}
                    },
                    'project_id': 'project',
                },
            )
        )
        self.assertEqual(
            placement_client.Allocations('project', {DISK: {'X': 3}}),
            client.allocations('server'),
        )

    def test_of_a_consumer_without_any(self):
        client, _ = answers((200, {'allocations': {}}))
        self.assertEqual(
            placement_client.Allocations(None, {}),
            client.allocations('server'),
        )

    def test_of_a_provider(self):
        client, _ = answers(
            (200, {'allocations': {'server': {'resources': {'X': 3}}}})
        )
        self.assertEqual(
            {'server': {'X': 3}}, client.provider_allocations(DISK)
        )


class FromConfTest(base.BaseTestCase):
    def client(self, **options):
        conf = cfg.ConfigOpts()
        file = self.useFixture(fixtures.TempDir()).join('diskplacer.conf')
        with open(file, 'w') as stream:
            stream.write('[placement]\n')
            for name, value in options.items():
                stream.write(f'{name} = {value}\n')
        conf([], default_config_files=[file])
        return placement_client.PlacementClient.from_conf(conf)

    def refuse(self, words, **options):
        error = self.assertRaises(
            exception.DiskPlacerError, self.client, **options
        )
        for word in words:
            self.assertIn(word, str(error))

    def test_no_credentials(self):
        self.refuse(['[placement] auth_type'])

    def test_credentials_in_part(self):
        self.refuse(['[placement]', 'auth_url'], auth_type='password')

    def test_unknown_kind_of_credentials(self):
        self.refuse(['[placement]', 'pasword'], auth_type='pasword')

    def test_a_bad_value(self):
        self.refuse(
            ['timeout', 'soon'],
            auth_type='none',
            endpoint='http://placement.test',
            timeout='soon',
        )

    def test_complete(self):
        client = self.client(
            auth_type='none', endpoint='http://127.0.0.1:1/placement'
        )
        # nobody listens there: an error and not a hang
        self.assertRaises(exception.PlacementError, client.provider, DISK)

    def test_a_service_that_never_answers_is_not_waited_for_for_ever(self):
        client = self.client(auth_type='none', endpoint='http://a.test')
        self.assertEqual(30, client._adapter.session.timeout)
        client = self.client(
            auth_type='none', endpoint='http://a.test', timeout=5
        )
        self.assertEqual(5, client._adapter.session.timeout)


class ClaimTest(base.BaseTestCase):
    def test_a_consumer_that_is_no_server(self):
        client, adapter = answers((204, b''))
        client.claim(
            'run',
            placement_client.Allocations(
                'project', {DISK: {placement_client.GB: 3}}, 'user', None
            ),
            'TYPE',
        )
        ((method, url, arguments),) = adapter.asked
        self.assertEqual(('put', '/allocations/run'), (method, url))
        self.assertEqual(
            {
                'allocations': {DISK: {'resources': {placement_client.GB: 3}}},
                'project_id': 'project',
                'user_id': 'user',
                'consumer_generation': None,
                'consumer_type': 'TYPE',
            },
            arguments['json'],
        )

    def test_no_allocations_delete_the_consumer(self):
        # there may be none already
        for status in (204, 404):
            client, adapter = answers((status, b''))
            client.claim('run', placement_client.Allocations(None, {}), 'TYPE')
            self.assertEqual('delete', adapter.asked[0][0])
