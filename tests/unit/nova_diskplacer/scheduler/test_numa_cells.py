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

"""Tests of the prediction of cells, with Nova's own objects."""

import datetime
import unittest
from unittest import mock

from nova import objects

from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler import pending_claims
from tests.unit.nova_diskplacer.scheduler import fakes


class VCPUPlacementTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def test_cells_of_a_host(self):
        self.assertEqual(
            (0, 1), numa_cells.ids(fakes.numa_host(0, 0, 0).numa_topology)
        )
        self.assertEqual((), numa_cells.ids(fakes.host_state(0).numa_topology))

    def test_cells_of_a_server(self):
        for number in (0, 1, 2):
            vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(number), pin=True)
            self.assertEqual(number, vcpus.cells)

    def test_a_server_without_image(self):
        spec = fakes.numa_spec(2)
        spec.image = None
        self.assertEqual(2, numa_cells.VCPUPlacement(spec, pin=True).cells)

    def test_nova_takes_the_emptier_cell(self):
        vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(), pin=True)
        self.assertEqual((1,), vcpus._predict(fakes.numa_host(0, 2, 0)))
        self.assertEqual((0,), vcpus._predict(fakes.numa_host(1, 0, 2)))
        self.assertEqual((), vcpus._predict(fakes.numa_host(2, 5, 5)))

    def test_two_of_four(self):
        vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(2, 8), pin=True)
        self.assertEqual(
            (1, 3), vcpus._predict(fakes.numa_host(0, 5, 1, 5, 0))
        )

    def test_a_prediction_leaves_no_trace(self):
        spec = fakes.numa_spec()
        host = fakes.numa_host(0, 1, 0)
        before = spec.obj_to_primitive(), host.numa_topology._to_json()
        numa_cells.VCPUPlacement(spec, pin=True)._predict(host)
        after = spec.obj_to_primitive(), host.numa_topology._to_json()
        self.assertEqual(before, after)

    def test_what_an_earlier_server_was_fitted_to_does_not_count(self):
        spec = fakes.numa_spec(2, 8)
        host = fakes.numa_host(0, 0, 0, 5, 5)
        want = numa_cells.VCPUPlacement(spec, pin=True)._predict(host)
        # as HostState.consume_from_request leaves it
        for cell, number in zip(spec.numa_topology.cells, (3, 2), strict=True):
            cell.id = number
        self.assertEqual(
            want, numa_cells.VCPUPlacement(spec, pin=True)._predict(host)
        )

    def test_pinning(self):
        vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(), pin=True)
        host = fakes.numa_host(0, 0, 2, 3)
        for cell in (0, 1, 2):
            limits = vcpus._limits_for(host, [cell])
            self.assertEqual({f'cell{cell}'}, limits.network_metadata.physnets)
            self.assertEqual((cell,), vcpus._fit(host, limits))
        self.assertEqual((0,), vcpus._predict(host))

    def test_pinning_keeps_what_the_server_needs_itself(self):
        vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(), pin=True)
        host = fakes.numa_host(0, 0, 0)
        limits = host.limits['numa_topology']
        limits.network_metadata = objects.NetworkMetadata(
            physnets={'cell1'}, tunneled=True
        )
        pinned = vcpus._limits_for(host, [0])
        self.assertEqual({'cell0', 'cell1'}, pinned.network_metadata.physnets)
        self.assertTrue(pinned.network_metadata.tunneled)
        self.assertEqual((), vcpus._fit(host, pinned))
        self.assertEqual({'cell1'}, limits.network_metadata.physnets)

    def test_no_pinning(self):
        vcpus = numa_cells.VCPUPlacement(fakes.numa_spec(), pin=True)
        self.assertIsNone(
            vcpus._limits_for(fakes.numa_host(0, 0, 0, physnets=False), [0])
        )
        host = fakes.numa_host(0, 0, 0)
        del host.limits['numa_topology']
        self.assertIsNone(vcpus._limits_for(host, [0]))


class PendingTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.clock = fakes.Clock()
        pending = pending_claims.ExpiringSet(self.clock)
        patch = mock.patch.object(numa_cells, '_PENDING', pending)
        patch.start()
        self.addCleanup(patch.stop)
        self.host = self._state(0)

    def _fitted(self, cell, **changes):
        fields = {'cpuset': {0, 1}, 'pcpuset': set(), 'memory': 1024}
        cells = [objects.InstanceNUMACell(id=cell, **{**fields, **changes})]
        return objects.InstanceNUMATopology(cells=cells)

    def _state(self, second):
        """Return the host's state as of a second of its own clock."""
        host = fakes.numa_host(0, 0, 0)
        host.updated = datetime.datetime(2001, 1, 1, 0, 0, second)
        return host

    def _used(self, host=None):
        cells = numa_cells.pending_topology(host or self.host).cells
        return [cell.cpu_usage for cell in cells]

    def test_it_counts(self):
        self.assertEqual([0, 0], self._used())
        numa_cells.add_pending(self.host, self._fitted(0))
        numa_cells.add_pending(self.host, self._fitted(1))
        numa_cells.add_pending(self.host, self._fitted(1))
        self.assertEqual([2, 4], self._used())
        other = fakes.numa_host(1, 0, 0)
        self.assertIs(other.numa_topology, numa_cells.pending_topology(other))
        cells = self.host.numa_topology.cells
        self.assertEqual([0, 0], [cell.cpu_usage for cell in cells])

    def test_until_it_is_old(self):
        numa_cells.add_pending(self.host, self._fitted(0))
        self.clock.now += pending_claims.SECONDS - 1
        numa_cells.add_pending(self.host, self._fitted(1))
        self.clock.now += 2
        self.assertEqual([0, 2], self._used())

    def test_until_the_host_reports_something_newer(self):
        # years behind this machine's clock
        numa_cells.add_pending(self._state(1), self._fitted(0))
        self.assertEqual([2, 0], self._used(self._state(1)))
        self.assertEqual([0, 0], self._used(self._state(2)))
        # a request that has read the host's state earlier
        self.assertEqual([2, 0], self._used(self._state(0)))

    def test_until_nova_counts_it_in(self):
        numa_cells.add_pending(self.host, self._fitted(0))
        self.host.num_instances += 1
        # by the clock of this machine
        self.host.updated = datetime.datetime(2026, 1, 1)
        self.assertEqual([0, 0], self._used())
        # the next server of the same request
        numa_cells.add_pending(self.host, self._fitted(1))
        self.assertEqual([0, 2], self._used())
        # other requests see neither yet
        self.assertEqual([2, 2], self._used(self._state(0)))
        self.assertEqual([0, 0], self._used(self._state(1)))

    def test_a_host_that_has_never_reported(self):
        self.host.updated = None
        numa_cells.add_pending(self.host, self._fitted(0))
        new = self._state(0)
        self.assertEqual([0, 0], self._used(new))
        new.updated = None
        self.assertEqual([2, 0], self._used(new))

    def test_until_it_is_removed(self):
        pending = numa_cells.add_pending(self.host, self._fitted(0))
        numa_cells.add_pending(self.host, self._fitted(0))
        numa_cells.remove_pending(pending)
        self.assertEqual([2, 0], self._used())

    def test_until_its_cpus_are_taken(self):
        cell = self.host.numa_topology.cells[0]
        cell.pcpuset, cell.siblings = {0, 1, 2, 3}, [{0}, {1}, {2}, {3}]
        for taken, want in ((set(), {0, 1}), ({1, 2}, {1, 2})):
            cell.pinned_cpus = taken
            numa_cells._PENDING._expiry.clear()
            fitted = self._fitted(
                0, cpuset=set(), pcpuset={0, 1}, cpu_policy='dedicated'
            )
            fitted.cells[0].pin_vcpus((0, 0), (1, 1))
            numa_cells.add_pending(self.host, fitted)
            found = numa_cells.pending_topology(self.host).cells[0]
            self.assertEqual(want, found.pinned_cpus)

    def test_until_the_host_has_other_cpus_for_servers(self):
        """An operator has changed cpu_dedicated_set, and claims fail."""
        cell = self.host.numa_topology.cells[0]
        cell.pcpuset, cell.siblings = {2, 3}, [{2}, {3}]
        fitted = self._fitted(
            0, cpuset=set(), pcpuset={0, 1}, cpu_policy='dedicated'
        )
        fitted.cells[0].pin_vcpus((0, 0), (1, 1))
        numa_cells.add_pending(self.host, fitted)
        found = numa_cells.pending_topology(self.host).cells[0]
        self.assertEqual(set(), found.pinned_cpus)

    def test_what_fits_nowhere_takes_nothing(self):
        numa_cells.add_pending(self.host, None)
        self.assertEqual([0, 0], self._used())
