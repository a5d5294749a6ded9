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

"""Tests of claims through Nova's own scheduling."""

import gc
import unittest
import uuid
from unittest import mock

import nova.conf
from nova import exception
from nova import objects
from nova.scheduler.filters import numa_topology_filter

from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler import pending_claims
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler.plan import DiskPlan
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import schedulers
from tests.unit.nova_diskplacer.scheduler import simulated

SERVERS = [str(uuid.UUID(int=number)) for number in range(1, 9)]
DISKS = 4


class ClaimsTestCase(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.clock = fakes.Clock()
        self.cache = fakes.make_cache(clock=self.clock)
        self.placement = simulated.Placement()
        self.looks = []
        self.tried = []
        self.refuse = 0
        self.volumes = server_volumes.ServerVolumes()
        for where, name, value in (
            (filters.report_listener, 'get_cache', lambda: self.cache),
            (server_volumes, 'read', lambda *_: self.volumes),
            (placement_queries, 'disks_in_tree', self._look),
            (placement_queries, 'claims_of', self.placement.claims_of),
            (
                placement_queries,
                'compute_nodes_with_room',
                self.placement.with_room,
            ),
        ):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(lambda: numa_cells._PENDING._expiry.clear())
        self.scheduler = schedulers.Scheduler(
            self._claim, self.placement.allocations.pop
        )
        self.hosts = []
        self.reports = []

    def add_hosts(self, number):
        for host in range(number):
            disks = [
                fakes.disk(host, index, numa_node=index % 2)
                for index in range(DISKS)
            ]
            for disk in disks:
                self.placement.disks[disk['uuid']] = simulated.Disk(
                    disk['uuid'], host, 'hdd', 100, 150
                )
            self.reports.append(fakes.report(host, *disks))
            self.cache.update(self.reports[-1])
            self.hosts.append(schedulers.host_state(host))

    def delete_all(self):
        """Delete all servers, and let the agents report that."""
        self.placement.allocations.clear()
        self.clock.now += host_disk_cache.pending_claims.SECONDS + 1
        for report in self.reports:
            self.cache.update(report)

    def _look(self, provider):
        self.looks.append(provider)
        return self.placement.of_host(provider)

    def _claim(self, consumer, allocations):
        """Claim, unless another scheduler worker is faster."""
        self.tried.append(allocations.keys())
        if self.refuse:
            self.refuse -= 1
            self.placement.claim(str(uuid.uuid4()), allocations)
            return False
        return self.placement.claim(consumer, allocations)

    def tried_hosts(self):
        return [
            f'host{self.placement.disks[next(iter(disks))].host}'
            for disks in self.tried
        ]

    def schedule(self, *servers, **specs):
        """Return for each server its host and the alternates."""
        spec = schedulers.request(
            servers[0], **{'vdisks': 2, 'vdisk_gb': 100, **specs}
        )
        selected = self.scheduler.schedule(spec, self.hosts, list(servers))
        return [[one.service_host for one in found] for found in selected]

    def held(self):
        """Return how many vdisks are held for claims that nobody has seen."""
        self.cache.pending_claims.release_failed()
        rows = self.cache.rows(host.uuid for host in self.hosts)
        free, left = (
            self.cache.free_capacity(rows, include_pending=holds).free_gb.sum()
            for holds in (False, True)
        )
        return (free - left) / 100


class HoldsTest(ClaimsTestCase):
    def test_only_what_is_claimed_is_looked_up_and_held(self):
        self.add_hosts(5)
        for number in (1, 2, 3):
            self.looks = []
            found = self.schedule(*SERVERS[:number])
            self.assertEqual(number, len(self.looks))
            rows = self.cache.rows(host.uuid for host in self.hosts)
            left = self.cache.free_capacity(rows).free_gb.sum() // 100
            self.assertEqual(5 * DISKS - 2 * number, left)
            for host, *alternates in found:
                self.assertEqual(2, len(set(alternates)))
                self.assertNotIn(host, alternates)
            self.delete_all()

    def test_a_claim_that_fails_is_let_go(self):
        self.add_hosts(5)
        self.refuse = 3
        self.schedule(SERVERS[0])
        self.assertEqual(4, len(self.tried))
        self.assertEqual(2, self.held())

    def test_the_last_claim_fails(self):
        self.add_hosts(5)
        self.refuse = 5
        with self.assertRaises(exception.NoValidHost):
            self.schedule(SERVERS[0])
        self.assertEqual(0, self.held())
        self.assertEqual([], self.cache.pending_claims.items())

    def test_a_claim_that_raises(self):
        self.add_hosts(1)
        with (
            mock.patch.object(
                self.scheduler, '_claim', side_effect=ConnectionError
            ),
            self.assertRaises(ConnectionError),
        ):
            self.schedule(SERVERS[0])
        self.assertEqual(0, self.held())

    def test_nova_gives_back_what_it_has_claimed(self):
        self.add_hosts(2)
        with self.assertRaises(exception.NoValidHost):
            self.schedule(*SERVERS[:5])
        self.assertEqual({}, self.placement.allocations)
        self.assertEqual(0, self.held())

    def test_a_request_that_is_never_over(self):
        self.add_hosts(1)
        spec = schedulers.request(vdisks=2, vdisk_gb=100)
        self.refuse = 2
        with self.assertRaises(exception.NoValidHost):
            self.scheduler.schedule(spec, self.hosts)
        self.clock.now += pending_claims.SECONDS
        self.assertEqual(0, self.held())
        self.assertEqual([], self.cache.pending_claims.items())

    def test_a_claim_is_under_way_as_long_as_its_request(self):
        self.add_hosts(1)

        def claim(consumer, allocations):
            self.assertEqual(2, self.held())
            return self._claim(consumer, allocations)

        with mock.patch.object(self.scheduler, '_claim', claim):
            self.schedule(SERVERS[0])
        self.assertEqual(2, self.held())

    def test_cells_are_let_go(self):
        self.add_hosts(2)
        for host in self.hosts:
            host.numa_topology = fakes.numa_topology(0, 0)
        self.scheduler.host_manager.enabled_filters.insert(
            0, numa_topology_filter.NUMATopologyFilter()
        )
        gc.disable()
        self.addCleanup(gc.enable)
        for servers, refuse in ((1, 4), (5, 0)):
            self.refuse = refuse
            with self.assertRaises(exception.NoValidHost):
                self.schedule_numa(*SERVERS[:servers])
            self.assertEqual(0, self.held())
            for host in self.hosts:
                topology = host.numa_topology
                self.assertIs(topology, numa_cells.pending_topology(host))
            self.delete_all()

    def schedule_numa(self, *servers):
        numa = fakes.numa_spec(numa='required')
        spec = schedulers.request(
            servers[0], vdisks=2, vdisk_gb=100, numa='required'
        )
        spec.flavor.extra_specs['hw:numa_nodes'] = '1'
        spec.flavor.vcpus = numa.flavor.vcpus
        spec.image = numa.image
        spec.numa_topology = numa.numa_topology
        return self.scheduler.schedule(spec, self.hosts, list(servers))


class TriesTest(ClaimsTestCase):
    """Nova comes back to few hosts."""

    def test_one_host(self):
        self.add_hosts(1)
        self.refuse = 1
        self.assertEqual([['host0']], self.schedule(SERVERS[0]))
        self.assertEqual(2, len(self.looks))
        first, second = self.tried
        self.assertFalse(first & second)

    def test_it_is_not_tried_when_it_is_full(self):
        self.add_hosts(1)
        self.refuse = 2
        with self.assertRaises(exception.NoValidHost):
            self.schedule(SERVERS[0])
        self.assertEqual(2, len(self.tried))

    def test_room_beside_the_vdisks_that_others_have_claimed(self):
        """No report shows it, and Placement would accept the vdisks."""
        self.add_hosts(2)
        root = server_volumes.BootVolume(100, None, True, True)
        self.volumes = server_volumes.ServerVolumes((), [root])
        for number in (0, 1):
            for server in SERVERS[:4]:
                others = {
                    disk.uuid: {'CUSTOM_VDISK_GB': 100}
                    for disk in self.placement.disks.values()
                    if disk.host == number
                }
                del others[fakes.disk_uuid(number, 0)]
                del others[fakes.disk_uuid(number, 1)]
                self.placement.claim('others', others)
                self.tried = []
                ((host, *_),) = self.schedule(server)
                self.assertEqual(f'host{1 - number}', host)
                self.assertEqual([host], self.tried_hosts())
                self.delete_all()

    def test_not_for_ever(self):
        self.add_hosts(1)
        with (
            mock.patch.object(
                self.scheduler, '_claim', return_value=False
            ) as claim,
            self.assertRaises(exception.NoValidHost),
        ):
            self.schedule(SERVERS[0])
        self.assertEqual(4, claim.call_count)

    def test_the_other_hosts_come_first(self):
        self.add_hosts(3)
        self.refuse = 4
        self.schedule(SERVERS[0])
        tried = self.tried_hosts()
        self.assertEqual(5, len(tried))
        self.assertEqual({'host0', 'host1', 'host2'}, set(tried[:3]))

    def test_any_host_of_the_subset_may_be_first(self):
        self.add_hosts(2)
        conf = nova.conf.CONF
        conf.set_override('host_subset_size', 2, 'filter_scheduler')
        self.addCleanup(
            conf.clear_override, 'host_subset_size', 'filter_scheduler'
        )
        # one host is preferred by far
        patch = mock.patch.object(DiskPlan, 'choose', self._prefer_the_first())
        patch.start()
        self.addCleanup(patch.stop)
        for _ in range(40):
            self.schedule(SERVERS[0])
            self.delete_all()
        self.assertEqual({'host0', 'host1'}, set(self.tried_hosts()))

    @staticmethod
    def _prefer_the_first():
        choose = DiskPlan.choose

        def prefer(plan, view, *args):
            choice = choose(plan, view, *args)
            choice.scores[:] = 0
            choice.scores[0] = 1
            return choice

        return prefer

    def test_several_servers_fill_what_is_there(self):
        self.add_hosts(2)
        self.refuse = 1
        found = self.schedule(*SERVERS[:3])
        self.assertEqual(4, len(self.tried))
        self.assertEqual([[]] * 3, [one[1:] for one in found])

    def test_vcpus_may_be_on_another_cell_the_second_time(self):
        self.add_hosts(1)
        (host,) = self.hosts
        host.numa_topology = fakes.numa_topology(0, 0)
        self.scheduler.host_manager.enabled_filters.insert(
            0, numa_topology_filter.NUMATopologyFilter()
        )
        self.refuse = 1
        ((selection,),) = HoldsTest.schedule_numa(self, SERVERS[0])
        first, second = self.tried
        self.assertFalse(first & second)
        (cell,) = {
            int(disk[-1]) % 2 ^ 1
            for disk in self.placement.allocations[SERVERS[0]]
        }
        physnets = selection.limits.numa_topology.network_metadata.physnets
        self.assertEqual({f'cell{cell}'}, physnets)


class ExpiringSetTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.items = pending_claims.ExpiringSet(self.clock)

    def test_items_expire(self):
        self.items.add('a')
        self.clock.now += 19
        self.items.add('b')
        self.assertEqual(['a', 'b'], self.items.items())
        self.clock.now += 1
        self.assertEqual(['b'], self.items.items())

    def test_expired_items_take_no_memory(self):
        self.items.add('a')
        self.clock.now += 20
        self.items.add('b')
        self.assertFalse(self.items.remove('a'))

    def test_remove(self):
        self.items.add('a')
        self.assertTrue(self.items.remove('a'))
        self.assertFalse(self.items.remove('a'))
        self.assertEqual([], self.items.items())
