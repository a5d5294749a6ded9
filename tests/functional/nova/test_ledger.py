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

"""The ledger of random request streams, in real Placement.

The filter chooses, Nova's client claims. See the unit test of the same name
for longer streams against a simulated Placement.
"""

import uuid

import hypothesis
from hypothesis import strategies as st
from nova import conf as nova_conf
from nova import context
from nova import objects
from nova import test
from nova.scheduler import host_manager
from nova.scheduler.client import report
from nova.tests.functional import fixtures as func_fixtures

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer import mapping as mappings
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import report_listener
from tests.fakes import flavors
from tests.functional.nova import base

requests = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 5),
    vdisk_gb=st.integers(10, 40),
    mapping=st.sampled_from(mappings.names_on_one_disk()),
    media=st.sampled_from([flavor.ANY, flavor.HDD, flavor.SSD]),
    vdisk_mbps=st.sampled_from([0, 20]),
    vdisks_per_disk=st.sampled_from([1, 2]),
)

# a request to boot, or the number of a server to delete
streams = st.lists(
    st.one_of(requests, requests, st.integers(0, 20)),
    min_size=4,
    max_size=12,
)


class LedgerTestCase(test.TestCase):
    """Two hosts of three and four disks."""

    def setUp(self):
        super().setUp()
        conf.register_opts(nova_conf.CONF)
        self.flags(
            report_timeout=3600,
            warmup_timeout=0.0,
            group='diskplacer_scheduler',
        )
        self.addCleanup(report_listener.reset)
        self.api = self.useFixture(func_fixtures.PlacementFixture()).api
        for name in (base.GB, base.MBPS):
            self.api.put(f'/resource_classes/{name}', None, version='1.7')
        self.api.put(f'/traits/{base.MARK}', None, version='1.6')
        self.hosts = {}
        for name, media in (('host0', 'hhs'), ('host1', 'hsss')):
            created = self.api.post(
                '/resource_providers', {'name': name}, version=base.VERSION
            ).body
            self.api.put(
                f'/resource_providers/{created["uuid"]}/inventories',
                {
                    'resource_provider_generation': created['generation'],
                    'inventories': {'VCPU': {'total': 1000}},
                },
                version=base.VERSION,
            )
            disks = [
                base.Disk(
                    medium={'h': 'hdd', 's': 'ssd'}[medium], total_gb=100
                )
                for medium in media
            ]
            self.hosts[created['uuid']] = base.Host(
                self.api, name, created['uuid'], disks
            )

    def test_streams(self):
        @hypothesis.settings(
            max_examples=8,
            deadline=None,
            database=None,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        )
        @hypothesis.given(streams)
        def run(stream):
            self.servers = {}
            try:
                for step in stream:
                    if isinstance(step, int):
                        self.delete(step)
                    else:
                        self.boot(step)
                    self.check()
            finally:
                while self.servers:
                    self.delete(0)

        run()

    def delete(self, number):
        if self.servers:
            server = sorted(self.servers)[number % len(self.servers)]
            self.api.delete(f'/allocations/{server}')
            del self.servers[server]

    def boot(self, request):
        """Boot a server; fail, after retries, only if nothing holds it."""
        cache = report_listener.get_cache()
        for host in self.hosts.values():
            cache.update(host.report())
        server = str(uuid.uuid4())
        if any(self.claim(server, request) for _ in range(3)):
            self.servers[server] = request
            return
        for host in self.hosts.values():
            self.assertLess(self.room(host, request), request.vdisks)

    def claim(self, server, request):
        """Do what nova-scheduler does; say whether a claim succeeded."""
        found = self.api.get(
            '/allocation_candidates?resources=VCPU:1', version=base.VERSION
        ).body['allocation_requests']
        hosts = []
        for candidate in found:
            (provider,) = candidate['allocations']
            host = host_manager.HostState(provider, provider, provider)
            host.uuid = provider
            host.allocation_candidates = [candidate]
            hosts.append(host)
        spec = objects.RequestSpec(
            context=context.get_admin_context(),
            instance_uuid=server,
            flavor=objects.Flavor(
                name='any', extra_specs=flavors.extra_specs(request)
            ),
        )
        client = report.report_client_singleton()
        passed = filters.DiskPlacementFilter().filter_all(hosts, spec)
        return any(
            client.claim_resources(
                spec._context,
                server,
                host.allocation_candidates[0],
                'project',
                'user',
                base.VERSION,
            )
            for host in passed
        )

    def room(self, host, request):
        """How many of the vdisks a host can hold."""
        room = 0
        for disk in host.disks.values():
            used = host.used(disk)
            slots = (disk.total_gb - used[base.GB]) // request.vdisk_gb
            if request.vdisk_mbps:
                free = disk.total_mbps - used[base.MBPS]
                slots = min(slots, free // request.vdisk_mbps)
            if request.mapping == flavor.ROUND_ROBIN:
                slots = min(slots, request.vdisks_per_disk)
            if request.media in (flavor.ANY, disk.medium):
                room += slots
        return room

    def check(self):
        """Compare every claim with its request, and usages with claims."""
        usages = {}
        for server, request in self.servers.items():
            allocations = self.api.get(
                f'/allocations/{server}', version=base.VERSION
            ).body['allocations']
            (provider,) = allocations.keys() & self.hosts.keys()
            disks = self.hosts[provider].disks
            vdisks = 0
            for disk in allocations.keys() - {provider}:
                self.assertIn(request.media, (flavor.ANY, disks[disk].medium))
                claim = allocations[disk]['resources']
                count = claim[base.GB] // request.vdisk_gb
                expected = {base.GB: count * request.vdisk_gb}
                if request.vdisk_mbps:
                    expected[base.MBPS] = count * request.vdisk_mbps
                self.assertEqual(expected, claim)
                if request.mapping == flavor.ROUND_ROBIN:
                    self.assertLessEqual(count, request.vdisks_per_disk)
                vdisks += count
                usages[disk] = usages.get(disk, 0) + claim[base.GB]
            self.assertEqual(request.vdisks, vdisks)
        for host in self.hosts.values():
            for disk in host.disks.values():
                used = host.used(disk)[base.GB]
                self.assertEqual(usages.get(disk.uuid, 0), used)
                self.assertLessEqual(used, disk.total_gb)
