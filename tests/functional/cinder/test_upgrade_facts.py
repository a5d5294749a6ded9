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

"""What diskplacer-status reads from Cinder's own API."""

import types

import fixtures
import openstack.connection
from cinder.tests.unit import fake_constants as fake
from keystoneauth1 import session as ks_session
from keystoneauth1 import token_endpoint

from nova_diskplacer.cmd import upgrade_facts
from nova_diskplacer.cmd import upgrade_quotas
from tests.functional.cinder import base


class UpgradeFactsTestCase(base.CinderTestCase):
    def setUp(self):
        super().setUp()
        endpoint = f'{self.auth_url}/{base.PROJECT}'
        token = f'{fake.USER_ID}:{base.PROJECT}'
        connection = openstack.connection.Connection(
            session=ks_session.Session(
                auth=token_endpoint.Token(endpoint, token),
                # noauth wants it for the list of versions, too
                additional_headers={'X-Auth-Token': token},
            ),
            region_name='here',
            block_storage_api_version='3',
            block_storage_endpoint_override=endpoint,
        )
        self.useFixture(
            fixtures.MonkeyPatch('openstack.connect', lambda: connection)
        )
        self.reader = upgrade_facts.Reader(types.SimpleNamespace())

    def test_backends(self):
        self.assertEqual(set(base.HOSTS), self.reader.cinder_hosts())
        self.assertEqual({'vdisk'}, self.reader.backends())
        self.assertEqual({'any'}, {one.media for one in self.reader.pools()})

    def test_backends_that_move_vdisks_need_lioadm(self):
        self.assertEqual(set(base.HOSTS), self.reader.hosts_without_moves())
        moving, *others = base.HOSTS
        self.override_config('target_helper', 'lioadm', moving)
        for service in self.volume:
            service.manager.publish_service_capabilities(self.context)
        self.wait_until(
            lambda: self.read_again() == set(others),
            'the scheduler hears that a backend moves vdisks',
        )

    def read_again(self):
        reader = upgrade_facts.Reader(types.SimpleNamespace())
        return reader.hosts_without_moves()

    def test_quotas(self):
        self.assertEqual(
            upgrade_quotas.Quotas(10, 1000, -1), self.reader.quotas()
        )

    def test_volume_types(self):
        self.api.api_post(
            '/types',
            {
                'volume_type': {
                    'name': 'fast',
                    'extra_specs': {'volume_backend_name': 'vdisk'},
                }
            },
        )
        found, default = self.reader.volume_types()
        self.assertEqual('vdisk', default)
        self.assertLessEqual(
            {('vdisk', ''), ('fast', 'vdisk')},
            {(one.name, one.backend) for one in found},
        )
