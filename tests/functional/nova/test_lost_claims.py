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

"""Servers without the claims that their flavor asks for, as the audit asks."""

from urllib import parse

from nova.cmd import manage

from cinder_vdisk_mapper.audit import claim_checks
from nova_diskplacer import flavor as flavors
from tests.functional.nova import base


class LostClaimsTestCase(base.CloudTestCase):
    hosts_count = 2
    disks_count = 2

    def ask(self, path, version, **query):
        """Ask as the driver's account does, and return what is listed."""
        self.admin_api.microversion = version
        found = self.admin_api.api_get(f'{path}?{parse.urlencode(query)}')
        (name,) = found.body.keys() - {'servers_links', 'migrations_links'}
        return {one.get('uuid') or one['id']: one for one in found.body[name]}

    def lacks(self, server):
        """Return what a server lacks, by what Nova and Placement say."""
        listed = self.ask(
            '/servers/detail', '2.47', all_tenants=1, host='host0'
        )
        (found,) = [
            one for one in listed.values() if one['id'] == server['id']
        ]
        self.assertEqual('ACTIVE', found['status'])
        self.assertIsNone(found['OS-EXT-STS:task_state'])
        request = flavors.parse(found['flavor']['extra_specs'])
        return claim_checks.lacks(
            request, (), self.claims(server['id']).get('host0', {})
        )

    def test_forced_past_the_filters(self):
        self.report()
        flavor = self.flavor(vdisks=2, vdisk_gb=100)
        kept = self.boot(flavor, host='host0')
        self.assertEqual(([], 0), self.lacks(kept))
        forced = self.boot(flavor, availability_zone='nova:host0')
        self.assertEqual({}, self.claims(forced['id']))
        self.assertEqual(([], 2), self.lacks(forced))

    def test_allocations_that_were_healed(self):
        self.report()
        server = self.boot(self.flavor(vdisks=2, vdisk_gb=100), host='host0')
        heal = manage.PlacementCommands().heal_allocations
        heal(instance_uuid=server['id'])
        self.assertEqual(([], 0), self.lacks(server))
        heal(instance_uuid=server['id'], force=True)
        self.assertEqual({}, self.claims(server['id']))
        self.assertEqual(([], 2), self.lacks(server))

    def test_consumers(self):
        self.report()
        server = self.boot(self.flavor(vdisks=1, vdisk_gb=100), host='host0')
        everybody = {'all_tenants': 1, 'soft_deleted': 1}
        self.assertEqual(
            {server['id']}, {*self.ask('/servers', '2.59', **everybody)}
        )
        self.flags(reclaim_instance_interval=3600)
        self.api.delete_server(server['id'])
        self._wait_for_server_parameter(server, {'status': 'SOFT_DELETED'})
        # it has its claims until it is reclaimed
        self.assertEqual(1, len(self.claims(server['id'])))
        self.assertEqual(
            {server['id']}, {*self.ask('/servers', '2.59', **everybody)}
        )
        self.assertEqual({}, self.ask('/servers', '2.59', all_tenants=1))
        self.assertEqual({}, self.ask('/os-migrations', '2.59', host='host0'))
