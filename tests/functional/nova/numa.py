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

"""A cloud whose hosts have NUMA cells, by Nova's fake libvirt."""

import io
import uuid
from unittest import mock

import fixtures
from nova import context
from nova import objects
from nova.conf import neutron
from nova.tests import fixtures as nova_fixtures
from nova.tests.fixtures import libvirt

from tests.functional.nova import base

CPUS = 32


class NumaCloudTestCase(base.CloudTestCase):
    """Hosts of 32 CPUs and 64 GiB in equal cells.

    Half of each cell's CPUs are for servers that dedicate them, the others
    are shared without overcommitment.

    :cvar cells: how many cells a host has.
    :cvar steered: whether the operator has given each cell a physical
        network of its own.
    """

    compute_driver = 'libvirt.LibvirtDriver'
    filters = ('DiskRoomFilter', 'NUMATopologyFilter', 'DiskPlacementFilter')
    hosts_count = 0
    cells = 2
    steered = True

    def setUp(self):
        self.useFixture(fixtures.TempDir())
        dedicated = [cpu for cpu in range(CPUS) if cpu % 8 < 4]
        shared = [cpu for cpu in range(CPUS) if cpu % 8 >= 4]
        self.flags(
            cpu_dedicated_set=','.join(map(str, dedicated)),
            cpu_shared_set=','.join(map(str, shared)),
            group='compute',
        )
        self.flags(cpu_allocation_ratio=1.0)
        if self.steered:
            self._steer()
        super().setUp()
        self.flags(instances_path=self.useFixture(fixtures.TempDir()).path)
        for fixture in (
            nova_fixtures.LibvirtImageBackendFixture,
            nova_fixtures.CGroupsFixture,
            nova_fixtures.LibvirtFixture,
            nova_fixtures.OSBrickFixture,
        ):
            self.useFixture(fixture())
        driver = 'nova.virt.libvirt.driver'
        for name, options in {
            f'{driver}.LibvirtDriver._create_image': {
                'return_value': (False, False)
            },
            f'{driver}.LibvirtDriver._get_local_gb_info': {
                'return_value': {'total': 9999, 'used': 0, 'free': 9999}
            },
            f'{driver}.libvirt_utils.is_valid_hostname': {
                'return_value': True
            },
            f'{driver}.libvirt_utils.file_open': {
                'side_effect': lambda *_, **__: io.BytesIO(b'')
            },
            'nova.privsep.utils.supports_direct_io': {'return_value': True},
            'nova.virt.libvirt.host.Host.get_online_cpus': {
                'return_value': set(range(CPUS))
            },
        }.items():
            self.useFixture(fixtures.MockPatch(name, **options))
        self._connect = self.useFixture(
            fixtures.MockPatch('nova.virt.libvirt.host.Host.get_connection')
        ).mock

    def _steer(self):
        physnets = [f'cell{cell}' for cell in range(self.cells)]
        self.flags(physnets=physnets, group='neutron')
        neutron.register_dynamic_opts(base.CONF)
        for cell, physnet in enumerate(physnets):
            self.flags(numa_nodes=[cell], group=f'neutron_physnet_{physnet}')

    def start_host(self, name):
        """Start nova-compute on a libvirt of its own."""
        connection = libvirt.Connection(
            'qemu:///system',
            version=libvirt.FAKE_LIBVIRT_VERSION,
            hv_version=libvirt.FAKE_QEMU_VERSION,
            host_info=libvirt.HostInfo(
                cpu_nodes=self.cells,
                cpu_sockets=1,
                cpu_cores=CPUS // self.cells,
                cpu_threads=1,
                kB_mem=64 << 20,
            ),
            hostname=name,
        )
        self._connect.return_value = connection
        with mock.patch(
            'nova.virt.node.get_local_node_uuid',
            return_value=str(uuid.uuid4()),
        ):
            self._start_compute(name)
            host = self.computes[name].driver._host
            host.get_connection = lambda: connection
            host.get_node_uuid()  # which it keeps

    def numa_flavor(self, vcpu, hw, **extra_specs):
        """Create a flavor of that many vCPUs with Nova's specs ``hw``."""
        return self._create_flavor(
            memory_mb=1024,
            vcpu=vcpu,
            disk=1,
            ephemeral=0,
            extra_spec={
                **{f'hw:{name}': value for name, value in hw.items()},
                **{
                    f'diskplacer:{name}': str(value)
                    for name, value in extra_specs.items()
                },
            },
        )

    def cells_of(self, server):
        """Return the cells of the host that a server's vCPUs are on."""
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), server['id']
        )
        topology = instance.numa_topology
        return {cell.id for cell in topology.cells} if topology else set()

    def nodes_of(self, server):
        """Return the nodes of the disks that a server claims."""
        host = self.host_of(server)
        (disks,) = self.claims(server['id']).values()
        return {host.disks[disk].numa_node for disk in disks}
