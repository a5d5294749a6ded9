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

"""The stand-in for Neutron."""

import http.server
import threading

import requests
import testtools

from tools.minicloud import network
from tools.minicloud import neutron


class StandInCase(testtools.TestCase):
    network = False

    def setUp(self):
        super().setUp()
        handler = type(
            'Handler',
            (neutron.Handler,),
            {'networking': network.Networking(0x4E20, self.network)},
        )
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.url = f'http://127.0.0.1:{server.server_port}/v2.0'
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def get(self, path):
        return requests.get(self.url + path, timeout=60).json()


class NothingTest(StandInCase):
    def test_lists_are_empty(self):
        for kind in ('networks', 'ports', 'floatingips', 'security_groups'):
            self.assertEqual({kind: []}, self.get(f'/{kind}'))
        self.assertEqual(
            {'security_groups': []}, self.get('/security-groups.json')
        )

    def test_no_limit(self):
        self.assertEqual({'quota': {}}, self.get('/quotas/some'))

    def test_version(self):
        (version,) = self.get('/')['versions']
        self.assertEqual('v2.0', version['id'])
        self.assertEqual(f'{self.url}/', version['links'][0]['href'])


class NetworkTest(StandInCase):
    network = True

    def ids(self, path):
        (found,) = self.get(path).values()
        return [one['id'] for one in found]

    def test_network_is_shared_by_all_projects(self):
        (private,) = self.get('/networks?name=private')['networks']
        self.assertEqual(
            [private['id']], self.ids('/networks?shared=True&fields=id')
        )
        self.assertEqual([], self.ids('/networks?tenant_id=p&shared=False'))
        self.assertEqual([], self.ids('/networks?router:external=True'))
        self.assertEqual(
            private['subnets'],
            self.ids(f'/subnets?network_id={private["id"]}'),
        )
        self.assertEqual(1, len(self.ids('/security-groups?tenant_id=p')))

    def test_port(self):
        created = requests.post(
            f'{self.url}/ports',
            json={'port': {'device_id': 's', 'tenant_id': 'p'}},
            timeout=60,
        ).json()['port']
        port = f'/ports/{created["id"]}'
        self.assertEqual([created['id']], self.ids('/ports?device_id=s'))
        self.assertEqual([], self.ids('/ports?device_id=s&tenant_id=q'))
        # as Nova names its device
        self.assertTrue(
            f'tap{created["id"]}'.startswith(network.devices(0x4E20))
        )
        requests.put(
            self.url + port,
            json={'port': {'binding:host_id': 'compute1'}},
            timeout=60,
        )
        self.assertEqual('compute1', self.get(port)['port']['binding:host_id'])
        statuses = [
            requests.delete(self.url + port, timeout=60).status_code
            for _ in range(2)
        ]
        self.assertEqual([204, 404], statuses)
        self.assertEqual([], self.ids('/ports'))
