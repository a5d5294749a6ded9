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

"""Disks of servers on the NUMA cells of their vCPUs."""

import collections
import concurrent.futures
import random

from tests.functional.nova import base
from tests.functional.nova import numa

SHARED = {'numa_nodes': '1'}
DEDICATED = {'cpu_policy': 'dedicated'}


def on(*nodes, **changes):
    return [base.Disk(numa_node=node, **changes) for node in nodes]


class AlignTestCase(numa.NumaCloudTestCase):
    """One host of two cells; Nova fills the emptier one."""

    def server(self, hw=SHARED, vcpu=4, **extra_specs):
        asked = {'vdisks': 2, 'vdisk_gb': 100, 'numa': 'required'}
        flavor = self.numa_flavor(vcpu, hw, **{**asked, **extra_specs})
        server = self.boot(flavor)
        self.report()
        return self.cells_of(server), self.nodes_of(server)

    def test_disks_follow_the_vcpus(self):
        self.add_host('host0', on(0, 0, 0, 1, 1, 1))
        self.report()
        self.assertEqual(({0}, {0}), self.server())
        self.assertEqual(({1}, {1}), self.server())
        self.assertEqual(({0}, {0}), self.server(DEDICATED, 2))

    def test_vcpus_follow_the_disks(self):
        self.add_host('host0', on(1, 1, 1))
        self.report()
        self.assertEqual(({1}, {1}), self.server())
        self.assertEqual(({1}, {1}), self.server(DEDICATED))
        # those without wishes go where it is empty
        plain = self.boot(self.numa_flavor(4, SHARED))
        self.assertEqual({0}, self.cells_of(plain))

    def test_preferred(self):
        self.add_host('host0', on(0, 1, 1))
        self.report()
        self.assertEqual(({1}, {1}), self.server(numa='preferred'))
        self.assertEqual(
            ({0}, {0, 1}), self.server(numa='preferred', vdisks=3)
        )

    def test_required_is_refused_where_it_cannot_be(self):
        self.add_host('host0', on(0, 1, None, None))
        self.report()
        flavor = self.numa_flavor(
            4, SHARED, vdisks=2, vdisk_gb=100, numa='required'
        )
        self.refuse(flavor)
        self.assertIn(
            "1 cannot align them with the NUMA cells of the server's vCPUs",
            self.stdlog.logger.output,
        )

    def test_preferred_takes_the_host_that_can(self):
        self.add_host('host0', on(0, 1))
        self.add_host('host1', on(0, 0, reserved_gb=500))
        self.report()
        flavor = self.numa_flavor(
            4, SHARED, vdisks=2, vdisk_gb=100, numa='preferred'
        )
        server = self.boot(flavor)
        self.assertEqual('host1', self.host_of(server).name)
        self.assertEqual(({0}, {0}), self.located(server))

    def located(self, server):
        return self.cells_of(server), self.nodes_of(server)

    def test_floating_vcpus_need_one_node(self):
        self.add_host('host0', on(0, 1, 1, None, None))
        self.report()
        self.assertEqual((set(), {1}), self.server({}))
        flavor = self.numa_flavor(
            2, {}, vdisks=3, vdisk_gb=100, numa='required'
        )
        self.refuse(flavor)

    def test_a_server_over_all_cells(self):
        self.add_host('host0', on(0, 1, None))
        self.report()
        hw = {'numa_nodes': '2'}
        self.assertEqual(({0, 1}, {0, 1}), self.server(hw))
        self.refuse(
            self.numa_flavor(4, hw, vdisks=3, vdisk_gb=100, numa='required')
        )

    def multi_create(self, number, status, hosts=2):
        """Boot servers by one request; how many are on each host."""
        for host in range(hosts):
            self.add_host(f'host{host}', on(*[0] * 4, *[1] * 4))
        self.report()
        flavor = self.numa_flavor(
            4, DEDICATED, vdisks=2, vdisk_gb=600, numa='required'
        )
        self.api.post_server(self.request(flavor, min_count=number))
        found = collections.Counter()
        for server in self.api.get_servers(detail=False):
            server = self.settled(server)
            self.assertEqual(status, server['status'], server.get('fault'))
            if status == 'ACTIVE':
                self.assertEqual(self.cells_of(server), self.nodes_of(server))
                found[self.host_of(server).name] += 1
        return found

    def test_multi_create(self):
        self.assertEqual(
            {'host0': 2, 'host1': 2}, self.multi_create(4, 'ACTIVE')
        )

    def test_multi_create_takes_one_cell_of_a_host(self):
        # 8 CPUs of each of both cells are free, and so are their disks
        self.multi_create(3, 'ERROR', hosts=1)
        self.assert_unused()

    def test_many_at_once(self):
        """Predictions are wrong as often as not by the time of a claim."""
        for host in range(2):
            self.add_host(f'host{host}', on(*[0] * 4, *[1] * 4))
        self.report()
        flavor = self.numa_flavor(
            4, DEDICATED, vdisks=1, vdisk_gb=600, numa='required'
        )
        requests = [self.request(flavor) for _ in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            created = list(pool.map(self.api.post_server, requests))
        refused = 0
        for server in created:
            server = self.settled(server)
            if server['status'] == 'ACTIVE':
                self.assertEqual(self.cells_of(server), self.nodes_of(server))
            else:
                refused += 1
                self.assert_nothing_claimed(server)
        print(f'{8 - refused} of 8 at once are active', flush=True)
        # 2 hosts x 2 cells x 8 CPUs are room for all, and stay so: who comes
        # again when the others are done is not refused
        self.report()
        for _ in range(refused):
            server = self.boot(flavor)
            self.assertEqual(self.cells_of(server), self.nodes_of(server))
        self.assert_not_oversold()
        self.refuse(flavor)

    def assert_nothing_claimed(self, server):
        self._wait_for_assert(
            lambda: self.assertEqual({}, self.allocations(server['id']))
        )


class UnsteeredTestCase(numa.NumaCloudTestCase):
    """The operator has given no cell a physical network."""

    steered = False

    def test_disks_follow_and_vcpus_do_not(self):
        self.add_host('host0', on(0, 0, 1))
        self.report()
        flavor = self.numa_flavor(
            4, SHARED, vdisks=2, vdisk_gb=100, numa='required'
        )
        server = self.boot(flavor)
        self.assertEqual({0}, self.cells_of(server))
        self.assertEqual({0}, self.nodes_of(server))
        self.refuse(flavor)


class OneCellTestCase(numa.NumaCloudTestCase):
    """Firmware does not tell the node of a disk where there is one only."""

    cells = 1
    steered = False

    def test_all_disks_are_there(self):
        self.add_host('host0', on(None, None))
        self.report()
        for hw in (SHARED, {}):
            flavor = self.numa_flavor(
                4, hw, vdisks=2, vdisk_gb=100, numa='required'
            )
            self.assert_claims(self.boot(flavor), [100] * 2)


class FleetTestCase(numa.NumaCloudTestCase):
    """Random hosts and random requests."""

    seed = 2
    fleet = 2
    servers = 10

    def test_all_required_servers_are_aligned(self):
        dice = random.Random(self.seed)
        for number in range(self.fleet):
            nodes = dice.choices(range(self.cells), k=8)
            self.add_host(
                f'host{number}',
                [
                    base.Disk(
                        numa_node=node,
                        total_gb=300,
                        reserved_gb=dice.choice((0, 100, 200, 300)),
                    )
                    for node in nodes
                ],
            )
        self.report()
        refused = 0
        for _ in range(self.servers):
            server = self._boot(dice)
            if server is None:
                refused += 1
                continue
            cells, nodes = self.cells_of(server), self.nodes_of(server)
            self.assertTrue(nodes <= cells, (nodes, cells))
            if dice.random() < 0.2:
                self._delete_server(server)
            if dice.random() < 0.5:
                self.report()
        self.assert_not_oversold()
        print(
            f'{self.servers - refused} servers on {self.cells}-cell hosts '
            f'aligned, {refused} refused',
            flush=True,
        )
        self.assertLess(refused, self.servers)

    def _boot(self, dice):
        hw = dice.choice((SHARED, DEDICATED, {'numa_nodes': '2'}))
        flavor = self.numa_flavor(
            dice.choice((2, 4)),
            hw,
            vdisks=dice.choice((1, 2, 3)),
            vdisk_gb=100,
            mapping=dice.choice(('round_robin', 'consolidated')),
            numa='required',
        )
        server = self.settled(self.api.post_server(self.request(flavor)))
        if server['status'] == 'ACTIVE':
            return server
        self.assertIn('No valid host', server['fault']['message'])
        return None


class FourCellFleetTestCase(FleetTestCase):
    """The same on hosts of four cells."""

    cells = 4
    seed = 4


class UnsteeredFleetTestCase(FleetTestCase):
    """The same without steering: more are refused, none is misplaced."""

    steered = False
    servers = 6
