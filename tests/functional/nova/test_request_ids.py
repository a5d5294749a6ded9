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

"""By its request ID, Cinder finds the server for which Nova creates a volume.

Nova's part is real: what it hands on to Cinder while it creates the volume,
and what its API tells of the server then. So is the question of
cinder-scheduler's filter. Cinder itself is a fixture, as its options and
Nova's cannot be in one process.
"""

import importlib
import sys
import types
import uuid
from unittest import mock

import fixtures
from keystoneauth1 import noauth
from keystoneauth1 import session
from novaclient import client as novaclient

from tests.functional.nova import test_api_filter
from tests.functional.nova import test_volumes


class RequestIDTest(test_api_filter.ApiFilterTestCase):
    def setUp(self):
        super().setUp()
        self.volumes.media = {test_api_filter.TYPE: 'any'}
        self.asked = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.volume.cinder.API.create',
                lambda api, *args, **kwargs: self._create(*args, **kwargs),
            )
        )
        cinder = types.SimpleNamespace(
            nova=types.SimpleNamespace(novaclient=self._novaclient)
        )
        with mock.patch.dict(
            sys.modules, {'cinder': mock.Mock(), 'cinder.compute': cinder}
        ):
            self.nova_api = importlib.import_module(
                'cinder_vdisk_mapper.nova_api'
            )

    def _novaclient(self, context, privileged_user, timeout, api_version):
        self.assertTrue(privileged_user)
        headers = {
            'X-Auth-User': 'admin',
            'X-Auth-Project-Id': 'service',
            'X-Roles': 'admin',
        }
        return novaclient.Client(
            api_version,
            session=session.Session(
                noauth.NoAuth(endpoint=self.api_fixture.base_url),
                additional_headers=headers,
            ),
        )

    def _create(self, context, size, name, *args, **kwargs):
        """Ask as cinder-scheduler would on the way."""
        if kwargs.get('image_id'):
            self.assertEqual('', name)
            # all that reaches Cinder of it
            theirs = types.SimpleNamespace(project_id=str(uuid.uuid4()))
            self.asked.append(
                [
                    self.nova_api.hosts_of_request(one, context.global_id)
                    for one in (context, theirs)
                ]
            )
        return self.volumes.fake_vol_create(
            context, size, name, *args, **kwargs
        )

    def _root(self, **kwargs):
        (root,) = test_volumes.blank(0, 0)
        return {
            **root,
            'destination_type': 'volume',
            'volume_size': 10,
            'volume_type': test_api_filter.TYPE,
            **kwargs,
        }

    def test_the_host_of_the_server(self):
        plain = self._create_flavor(memory_mb=512, vcpu=1, disk=1, ephemeral=0)
        hosts = set()
        for flavor in (self.vdisks, self.vdisks, plain):
            server = self.boot(flavor, block_device_mapping_v2=[self._root()])
            host = self.host_of(server).name
            hosts.add(host)
            self.assertEqual([[{host}, set()]], self.asked)
            self.asked.clear()
            # the server is built: its request leads nowhere
            context = types.SimpleNamespace(project_id=server['tenant_id'])
            actions = self.api.get_instance_actions(server['id'])
            for action in actions:
                self.assertEqual(
                    set(),
                    self.nova_api.hosts_of_request(
                        context, action['request_id']
                    ),
                )
            self.report()
        self.assertEqual(2, len(hosts))

    def test_a_client_that_sends_a_request_id(self):
        """Nova hands on its own where Cinder has to find the server."""
        sent = f'req-{uuid.uuid4()}'
        body = self.request(
            self.vdisks, block_device_mapping_v2=[self._root()]
        )
        server = self.settled(
            self.api.api_post(
                '/servers', body, headers={'X-OpenStack-Request-ID': sent}
            ).body['server']
        )
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        self.assertEqual([[{self.host_of(server).name}, set()]], self.asked)

    def test_what_cinder_could_not_find(self):
        several = self._root()
        self.assert_refused(
            400,
            'Each of 2 servers has a new volume',
            min_count=2,
            block_device_mapping_v2=[several],
        )
        self.assert_nothing_left()
