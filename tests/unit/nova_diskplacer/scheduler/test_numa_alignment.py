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

"""Tests of choosing disks on the cells of the vCPUs."""

import unittest
from unittest import mock

from nova import objects

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import DiskPlan
from tests.unit.nova_diskplacer.scheduler import fakes


class AlignmentTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.cache = fakes.make_cache()
        self.hosts = []
        self.asked = []
        fit = numa_cells.VCPUPlacement._fit

        def counted(vcpus, host, limits):
            self.asked.append(host.host)
            return fit(vcpus, host, limits)

        patch = mock.patch.object(numa_cells.VCPUPlacement, '_fit', counted)
        patch.start()
        self.addCleanup(patch.stop)

    def add(self, usage, nodes, physnets=True, **changes):
        """Add a host with a disk on each of the nodes."""
        number = len(self.hosts)
        host = fakes.numa_host(number, *usage, physnets=physnets)
        disks = [
            fakes.disk(number, i, numa_node=node, **changes)
            for i, node in enumerate(nodes)
        ]
        self.cache.update(fakes.report(number, *disks))
        self.hosts.append(host)
        return host

    def align(self, vdisks=2, numa='required', server_cells=1, own=()):
        request = flavor.VDiskRequest(vdisks, 10, numa=numa)
        return numa_alignment.Alignment(
            DiskPlan(request, own), fakes.numa_spec(server_cells)
        )

    def free(self):
        return self.cache.free_capacity(
            self.cache.rows(host.uuid for host in self.hosts)
        )

    def choose(self, **kwargs):
        return self.align(**kwargs).choose(self.free(), self.hosts)

    def choose_one(self, **kwargs):
        """Return the disks chosen on the only host, None if none fit."""
        (host,) = self.hosts
        align = self.align(**kwargs)
        choice, _ = align.choose_for_claim(self.free(), host, pending=False)
        return choice.counts[0].tolist() if choice.fits[0] else None

    def physnets(self):
        limits = self.hosts[0].limits['numa_topology']
        if 'network_metadata' not in limits:
            return set()
        return limits.network_metadata.physnets

    def test_disks_follow(self):
        self.add((2, 0), (0, 0, 1, 1))
        self.assertEqual([0, 0, 1, 1], self.choose_one())
        self.assertEqual({'cell1'}, self.physnets())

    def test_vcpus_follow(self):
        self.add((2, 0), (0, 0, 1))
        self.assertEqual([1, 1, 0], self.choose_one())
        self.assertEqual({'cell0'}, self.physnets())

    def test_vcpus_cannot_follow_without_physical_networks(self):
        self.add((2, 0), (0, 0, 1), physnets=False)
        self.assertIsNone(self.choose_one())
        self.assertFalse(self.choose().fits[0])
        self.assertEqual([1, 1, 0], self.choose_one(numa='preferred'))

    def test_vcpus_cannot_follow_where_they_do_not_fit(self):
        self.add((5, 0), (0, 0, 1))
        self.assertIsNone(self.choose_one())

    def test_preferred_is_pinned_only_if_need_be(self):
        self.add((2, 0), (0, 0, 1, 1))
        self.assertEqual([0, 0, 1, 1], self.choose_one(numa='preferred'))
        self.assertEqual(set(), self.physnets())

    def test_preferred_pins(self):
        self.add((2, 0), (0, 0, 1))
        self.assertEqual([1, 1, 0], self.choose_one(numa='preferred'))
        self.assertEqual({'cell0'}, self.physnets())

    def test_preferred_scores(self):
        self.add((0, 0), (0, 1))
        self.add((0, 0), (0, 0), used_gb=90)
        self.add((0, 0), (0, 0))
        self.add((0, 0), (0,))
        choice = self.choose(numa='preferred')
        self.assertEqual([True, True, True, False], choice.fits.tolist())
        split, full, best, _ = choice.scores.tolist()
        self.assertLess(split, full)
        self.assertLess(full, best)
        self.assertLessEqual(best, 1)

    def test_nova_is_asked_only_where_it_matters(self):
        self.add((0, 0), (0, 0, 1, 1))  # any cell will do
        self.add((0, 0), (0, 1))  # none will
        self.add((0, 0), (0, 0, 1))  # it depends
        self.add((0,), (0, 0))  # there is no other
        choice = self.choose()
        self.assertEqual([True, False, True, True], choice.fits.tolist())
        self.assertEqual({'host2'}, set(self.asked))
        self.assertEqual([2, 0, 2, 2], choice.counts.sum(axis=1).tolist())

    def test_no_topology_known(self):
        host = self.add((0, 0), (0, 0))
        host.numa_topology = None
        self.assertFalse(self.choose().fits[0])
        self.assertTrue(self.choose(numa='preferred').fits[0])

    def test_unknown_nodes(self):
        self.add((0, 0), (None, None))
        self.assertIsNone(self.choose_one())

    def test_disks_on_nodes_without_cells(self):
        self.add((0, 0), (7, 7))
        self.assertFalse(self.choose().fits[0])
        self.assertIsNone(self.choose_one())

    def test_unknown_nodes_of_one_cell(self):
        self.add((0,), (None, None))
        self.assertEqual([1, 1], self.choose_one())

    def test_floating_vcpus(self):
        self.add((0, 0), (0, 1, 1, 0), used_gb=50)
        self.assertEqual([1, 0, 0, 1], self.choose_one(server_cells=0))
        self.assertEqual(set(), self.physnets())
        self.assertEqual([], self.asked)
        self.assertIsNone(self.choose_one(server_cells=0, vdisks=3))

    def test_floating_vcpus_go_to_the_better_node(self):
        self.add((0, 0), (0, 0, 1, 1))
        rows = self.cache.rows([self.hosts[0].uuid])
        free = self.cache.free_capacity(rows)
        free.load[0, 0] = 0.5
        choice = self.align(server_cells=0).choose(free, self.hosts)
        self.assertEqual([0, 0, 1, 1], choice.counts[0].tolist())

    def test_all_cells(self):
        self.add((0, 0), (0, 1, None))
        self.assertEqual([1, 1, 0], self.choose_one(server_cells=2))
        self.assertEqual([], self.asked)
        self.assertIsNone(self.choose_one(server_cells=2, vdisks=3))

    def test_more_cells_than_there_are(self):
        self.add((0, 0, 0), (0, 1, 2))
        self.assertFalse(self.choose(server_cells=4).fits[0])

    def test_two_of_four_cells(self):
        self.add((0, 3, 1, 2), (0, 1, 2, 3))
        self.assertEqual([1, 0, 1, 0], self.choose_one(server_cells=2))
        self.assertEqual({'cell0', 'cell2'}, self.physnets())

    def test_two_of_four_cells_are_pinned_to(self):
        self.add((0, 3, 1, 2), (1, 3))
        self.assertEqual([1, 1], self.choose_one(server_cells=2))
        self.assertEqual({'cell1', 'cell3'}, self.physnets())

    def test_own_vdisks_decide(self):
        self.add((0, 0), (0, 0, 1, 1))
        own = BoundVDisk(
            'v',
            self.hosts[0].uuid,
            fakes.disk_uuid(0, 2),
            's',
            10,
            'host0',
        )
        self.assertEqual([0, 0, 0, 1], self.choose_one(own=(own,)))
        self.assertEqual({'cell1'}, self.physnets())

    def claim(self, **kwargs):
        """Choose, and let Nova count the server in."""
        disks = self.choose_one(**kwargs)
        if disks:
            self.hosts[0].num_instances += 1
        return disks

    def filtered_again(self):
        """NUMATopologyFilter makes the limits anew for the next server."""
        limits = fakes.numa_host(0, 0, 0).limits['numa_topology']
        self.hosts[0].limits['numa_topology'] = limits

    def test_servers_of_one_request_share_a_cell(self):
        for physnets, numa in ((True, 'required'), (False, 'required')):
            self.hosts, self.cache = [], fakes.make_cache()
            host = self.add((0, 0), (0, 0, 1, 1), physnets=physnets)
            self.assertEqual([1, 1, 0, 0], self.claim(numa=numa))
            wanted = self.physnets()
            # the other cell is the emptier one now
            host.numa_topology = fakes.numa_topology(4, 0, physnets=physnets)
            self.filtered_again()
            fits = self.choose(numa=numa).fits[0]
            self.assertEqual(physnets, fits)
            self.assertEqual(wanted, self.physnets())

    def test_limits_stay_where_the_next_server_is_elsewhere(self):
        host = self.add((0, 0), (0, 0, 1, 1))
        self.assertEqual([1, 1, 0, 0], self.claim())
        host.numa_topology = fakes.numa_topology(8, 0)
        self.filtered_again()
        self.assertFalse(self.choose().fits[0])
        self.assertEqual({'cell0'}, self.physnets())

    def test_a_failed_claim_does_not_bind_the_next_server(self):
        host = self.add((0, 0), (0, 0, 1, 1))
        self.assertEqual([1, 1, 0, 0], self.choose_one())
        host.numa_topology = fakes.numa_topology(4, 0)
        self.filtered_again()
        self.assertEqual([0, 0, 1, 1], self.choose_one())

    def choose_for_claim(self, align):
        (host,) = self.hosts
        choice, self.release = align.choose_for_claim(
            self.free(), host, pending=True
        )
        return choice.counts[0].tolist() if choice.fits[0] else None

    def test_requests_at_once_get_different_cells(self):
        self.addCleanup(lambda: numa_cells._PENDING._expiry.clear())
        self.add((0, 0), (0, 0, 1, 1))
        found = []
        for _ in range(4):
            self.hosts = [self.hosts[0]]
            self.filtered_again()
            vars(self.hosts[0]).pop(numa_cells.ATTRIBUTE, None)
            self.assertIsNotNone(self.choose_for_claim(self.align()))
            found += self.physnets()
        self.assertEqual(['cell0', 'cell1', 'cell0', 'cell1'], found)
        # none is left, so it competes
        self.filtered_again()
        self.assertIsNotNone(self.choose_for_claim(self.align()))

    def test_what_was_not_claimed_does_not_count(self):
        self.addCleanup(lambda: numa_cells._PENDING._expiry.clear())
        self.add((0, 0), (0, 0, 1, 1))
        for _ in range(2):
            self.assertEqual(set(), self.physnets())
            self.choose_for_claim(self.align())
            self.assertEqual({'cell0'}, self.physnets())
            self.release()

    def test_what_cannot_be_pinned_is_predicted_as_nova_sees_it(self):
        self.addCleanup(lambda: numa_cells._PENDING._expiry.clear())
        self.add((0, 0), (0, 0, 1, 1), physnets=False)
        for _ in range(2):
            self.assertEqual([1, 1, 0, 0], self.choose_for_claim(self.align()))
