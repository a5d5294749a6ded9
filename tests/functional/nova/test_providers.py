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

"""Providers of disks come and go below the provider of a running nova-compute.

Disks and their looks are made up. The agent's reconciliation, Nova with its
copies of provider trees, and Placement are real.
"""

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from nova_diskplacer.agent import placement_sync
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits
from tests.functional.agent import base as agent
from tests.functional.nova import base


def client(fixture):
    """Return the agent's client of the Placement of a fixture."""
    return placement_client.PlacementClient(
        adapter.Adapter(
            session.Session(
                auth=token_endpoint.Token(fixture.endpoint, fixture.token)
            ),
            service_type='placement',
        )
    )


class TestCase(base.CloudTestCase):
    """``refresh``: the age in seconds at which a copy of a tree is read anew.

    With 0 nova-compute never does that.
    """

    hosts_count = 0
    refresh = 0

    def setUp(self):
        super().setUp()
        self.flags(
            resource_provider_association_refresh=self.refresh, group='compute'
        )
        self.client = client(self.placement.fixture)
        self.disks = self.useFixture(agent.Disks())
        self.syncs = {}
        for host in ('host0', 'host1'):
            self.start_host(host)
            self.syncs[host] = self.sync(host)
        self.plain = self._create_flavor(
            memory_mb=512, vcpu=1, disk=1, ephemeral=0
        )

    def sync(self, host, keep=lambda: None):
        return placement_sync.PlacementSync(self.client, host, keep)

    def reconcile(self, host, *disks):
        """Reconcile a host that has those disks."""
        self.syncs[host].reconcile(
            [disk for disk in self.disks.all() if disk.uuid in disks]
        )

    def learn(self, host):
        """Have nova-compute of a host know the tree as it is."""
        client = self.computes[host].manager.rt.reportclient
        client.clear_provider_cache()
        self._run_periodics(raise_on_error=True)

    def knows(self, host, disk):
        """Tell whether nova-compute of a host has the disk in its copy."""
        client = self.computes[host].manager.rt.reportclient
        return client._provider_tree.exists(disk)

    def assert_works(self):
        """Run the periodic tasks and build a server on each host."""
        self._run_periodics(raise_on_error=True)
        for host in self.computes:
            self.boot(self.plain, host=host, networks='none')
        self._run_periodics(raise_on_error=True)

    def request(self, flavor, **kwargs):
        request = super().request(flavor)
        request['server'].update(kwargs)
        return request

    def root(self, host):
        return self._get_provider_uuid_by_host(host)

    def assert_a_disk_may_go_and_come_back(self):
        disk, other = self.disks.add(), self.disks.add()
        self.reconcile('host0', disk, other)
        self.learn('host0')
        self.reconcile('host0', other)
        self.assertTrue(self.knows('host0', disk))
        self.assert_works()
        self.assertIsNone(self.client.provider(disk).parent)
        self.assertEqual({}, self.client.inventories(disk)[1])
        self.reconcile('host0', disk, other)
        self.assertEqual(self.root('host0'), self.client.provider(disk).parent)
        self.assert_works()


class ProvidersTestCase(TestCase):
    """nova-compute keeps its copy of the tree for good."""

    def test_a_disk_is_forgotten_and_comes_back(self):
        self.assert_a_disk_may_go_and_come_back()

    def test_a_disk_gets_another_identity(self):
        disk = self.disks.add()
        self.reconcile('host0', disk)
        self.learn('host0')
        renamed = self.disks.add()
        self.reconcile('host0', renamed)
        self.assertTrue(self.knows('host0', disk))
        self.assert_works()
        self.assertEqual(
            self.root('host0'), self.client.provider(renamed).parent
        )

    def test_a_disk_moves_to_another_host_and_back(self):
        disk = self.disks.add()
        self.reconcile('host0', disk)
        self.learn('host0')
        for host in ('host1', 'host0'):
            self.reconcile(host, disk)
            # the host where it was has no entry for it any more
            for other in self.computes.keys() - {host}:
                self.reconcile(other)
            self.assertEqual(
                self.root(host), self.client.provider(disk).parent
            )
            self.assert_works()
            self.learn(host)

    def test_a_provider_is_deleted_when_nobody_knows_it(self):
        disk = self.disks.add()
        self.reconcile('host0', disk)
        self.learn('host0')
        self.reconcile('host0')
        self.learn('host0')
        self.assertFalse(self.knows('host0', disk))
        # as an agent that is started now finds it
        sync = self.sync('host0', lambda: -1)
        sync.reconcile([])
        self.assertIsNone(self.client.provider(disk))
        self.assert_works()

    def test_nova_compute_keeps_the_trait_of_a_host_with_disks(self):
        disk = self.disks.add()
        root = self.root('host0')
        self.reconcile('host0', disk)
        # nova-compute changes traits and inventories by what it knows
        self._run_periodics(raise_on_error=True)
        service = self.admin_api.get_services(
            binary='nova-compute', host='host0'
        )[0]['id']
        for status in ('disabled', 'enabled'):
            self.admin_api.put_service(service, {'status': status})
            self._run_periodics(raise_on_error=True)
            _, found = self.client.traits(root)
            self.assertIn(traits.HOST, found)
            self.assertEqual(
                status == 'disabled', 'COMPUTE_STATUS_DISABLED' in found
            )
        self.flags(reserved_host_memory_mb=1024)
        self._run_periodics(raise_on_error=True)
        self.assertIn(traits.HOST, self.client.traits(root)[1])
        self.reconcile('host0')
        self._run_periodics(raise_on_error=True)
        self.assertNotIn(traits.HOST, self.client.traits(root)[1])
        self.assert_works()


class DefaultTestCase(TestCase):
    """nova-compute keeps its copy for as long as it does by default."""

    refresh = 300

    def test_a_disk_is_forgotten_and_comes_back(self):
        self.assert_a_disk_may_go_and_come_back()


class CandidatesTestCase(base.CloudTestCase):
    """Placement names fewer hosts than there are, none of them with disks."""

    hosts_count = 0

    def setUp(self):
        super().setUp()
        self.flags(max_placement_results=5, group='scheduler')
        for number in range(7):
            self.start_host(f'host{number}')
        # a disk may change which hosts Placement names
        for host in self.computes:
            provider = self._get_provider_uuid_by_host(host)
            before = self._get_provider_traits(provider)
            disk = base.Disk()
            self.hosts[host] = base.Host(
                self.placement, host, provider, [disk]
            )
            disks = self.useFixture(agent.Disks())
            disks.put_back(disks._make(uuid=disk.uuid, total_gb=disk.total_gb))
            placement_sync.PlacementSync(
                client(self.placement.fixture), host
            ).reconcile(disks.all())
            if provider not in self._named():
                break
            del self.hosts[host]
            self.placement.delete(
                f'/resource_providers/{disk.uuid}', version=base.VERSION
            )
            self._set_provider_traits(provider, before)
        else:
            self.fail('Placement names each host that has a disk')

    def _named(self):
        found = self.placement.get(
            '/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:1'
            '&limit=5',
            version=base.VERSION,
        ).body['provider_summaries']
        return found.keys()

    def test_the_trait_of_hosts_with_disks_finds_them(self):
        flavor = self.flavor(vdisks=1, vdisk_gb=10)
        self.refuse(flavor)
        self.assertIn(
            f'Set trait:{traits.HOST}=required', self.stdlog.logger.output
        )
        self.admin_api.post_extra_spec(
            flavor, {'extra_specs': {f'trait:{traits.HOST}': 'required'}}
        )
        self.assert_claims(self.boot(flavor), [10])
