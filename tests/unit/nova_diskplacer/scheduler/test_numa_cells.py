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

import unittest

from nova import objects

from nova_diskplacer.scheduler import numa_cells
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
