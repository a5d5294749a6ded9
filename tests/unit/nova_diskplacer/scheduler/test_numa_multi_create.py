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

"""Several servers by one request, with alignment, by Nova's own scheduler."""

from unittest import mock

from nova import exception
from nova.scheduler.filters import numa_topology_filter
from nova.virt import hardware

from nova_diskplacer.scheduler import numa_cells
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import schedulers
from tests.unit.nova_diskplacer.scheduler import simulated
from tests.unit.nova_diskplacer.scheduler import test_pending_claims as base


class MultiCreateTest(base.ClaimsTestCase):
    def add_hosts(self, number, *, nodes, usage=(0, 0)):
        """Add hosts of two cells, with a disk on each of these nodes.

        :param usage: vCPUs in use on each cell.
        """
        for host in range(number):
            disks = [
                fakes.disk(host, index, numa_node=node)
                for index, node in enumerate(nodes)
            ]
            for disk in disks:
                uuid = disk['uuid']
                self.placement.disks[uuid] = simulated.Disk(
                    uuid, host, 'hdd', 100, 150
                )
            self.reports.append(fakes.report(host, *disks))
            self.cache.update(self.reports[-1])
            state = schedulers.host_state(host)
            state.numa_topology = fakes.numa_topology(*usage)
            self.hosts.append(state)
        self.scheduler.host_manager.enabled_filters.insert(
            0, numa_topology_filter.NUMATopologyFilter()
        )
        self.usage = usage

    def schedule(self, number, numa):
        """Schedule servers by one request; returns their selections."""
        like = fakes.numa_spec(numa=numa)
        servers = base.SERVERS[:number]
        spec = schedulers.request(
            servers[0], vdisks=1, vdisk_gb=100, numa=numa
        )
        spec.flavor.extra_specs['hw:numa_nodes'] = '1'
        spec.flavor.vcpus = like.flavor.vcpus
        spec.image, spec.numa_topology = like.image, like.numa_topology
        found = self.scheduler.schedule(spec, self.hosts, list(servers))
        return [selections[0] for selections in found]

    def cells(self, selections):
        """Return the cells that nova-compute of one host claims."""
        topology = fakes.numa_topology(*self.usage)
        found = []
        for selection in selections:
            fitted = hardware.numa_fit_instance_to_host(
                topology,
                fakes.numa_spec().numa_topology,
                None,
                limits=selection.limits.numa_topology,
            )
            found.append(numa_cells.ids(fitted))
            topology = hardware.numa_usage_from_instance_numa(topology, fitted)
        return found

    def test_required_where_nova_takes_the_other_cell(self):
        for nodes in ([1] * 6, [0] * 6):
            self.hosts, self.reports = [], []
            self.add_hosts(1, nodes=nodes)
            found = self.cells(self.schedule(2, 'required'))
            self.assertEqual([(nodes[0],)] * 2, found)
            for server in base.SERVERS:
                self.placement.allocations.pop(server, None)

    def test_preferred_where_the_cell_has_room_for_one(self):
        """Its claims are pinned there, so no other server fits the host."""
        self.add_hosts(1, nodes=[1] * 6, usage=(0, 4))
        self.assertRaises(exception.NoValidHost, self.schedule, 2, 'preferred')
        self.hosts, self.reports = [], []
        self.add_hosts(2, nodes=[1] * 6, usage=(0, 4))
        found = self.schedule(2, 'preferred')
        self.assertEqual(2, len({each.service_host for each in found}))
        for selection in found:
            self.assertEqual([(1,)], self.cells([selection]))

    def test_hosts_that_are_not_claimed_on_are_not_evaluated(self):
        self.add_hosts(30, nodes=[0] * 3 + [1] * 3)
        with mock.patch.object(
            numa_cells.VCPUPlacement,
            '_fit',
            autospec=True,
            side_effect=numa_cells.VCPUPlacement._fit,
        ) as fit:
            self.schedule(3, 'required')
        self.assertLess(fit.call_count, 30)
        on_hosts = [
            host for host in self.hosts if hasattr(host, numa_cells.ATTRIBUTE)
        ]
        self.assertLessEqual(len(on_hosts), 6)
