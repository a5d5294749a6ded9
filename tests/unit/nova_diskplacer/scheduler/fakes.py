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

"""Reports, hosts and request specs as the scheduler meets them."""

import types
import uuid

from nova import objects
from nova.virt import hardware

from nova_diskplacer.scheduler import host_disk_cache

#: Two namespaces, so that hosts' and disks' UUIDs never meet.
_HOST = uuid.UUID(int=1)


def host_uuid(number):
    return str(uuid.uuid5(_HOST, f'host{number}'))


def disk_uuid(number, disk):
    return str(uuid.UUID(int=(number << 32) + disk + 1))


def disk(number, index, **changes):
    return {
        'uuid': disk_uuid(number, index),
        'medium': 'hdd',
        'model': '',
        'numa_node': 0,
        'total_gb': 100,
        'reserved_gb': 0,
        'used_gb': 0,
        'total_mbps': 150,
        'used_mbps': 0,
        'health': 'ok',
        'vdisks': [],
        **changes,
    }


def report(number, *disks):
    return {
        'version': 1,
        'host': f'host{number}',
        'compute_node': f'host{number}',
        'provider': host_uuid(number),
        'disks': list(disks),
    }


def vdisk(volume_id, server_id, size_gb=10):
    return {
        'volume_id': volume_id,
        'server_id': server_id,
        'size_gb': size_gb,
    }


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def make_cache(*reports, clock=None):
    made = host_disk_cache.HostDiskCache(60, clock=clock or Clock())
    for one in reports:
        made.update(one)
    return made


def numa_topology(*usage, physnets=True):
    """Cells of 8 CPUs and 16 GiB, so many of them used."""
    return objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=cell,
                socket=cell,
                cpuset=set(range(8 * cell, 8 * cell + 8)),
                pcpuset=set(),
                memory=16384,
                cpu_usage=used,
                memory_usage=0,
                pinned_cpus=set(),
                siblings=[],
                mempages=[
                    objects.NUMAPagesTopology(size_kb=4, total=4194304, used=0)
                ],
                network_metadata=objects.NetworkMetadata(
                    physnets={f'cell{cell}', 'both'} if physnets else set(),
                    tunneled=False,
                ),
            )
            for cell, used in enumerate(usage)
        ]
    )


def numa_host(number, *usage, physnets=True):
    """A host as NUMATopologyFilter leaves it."""
    state = host_state(number)
    state.numa_topology = numa_topology(*usage, physnets=physnets)
    state.limits['numa_topology'] = objects.NUMATopologyLimits(
        cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0
    )
    return state


def numa_spec(cells=1, vcpus=4, **extra_specs):
    """A request for a server of so many cells, 0 for none."""
    specs = {
        f'diskplacer:{name}': value for name, value in extra_specs.items()
    }
    if cells:
        specs['hw:numa_nodes'] = str(cells)
    flavor = objects.Flavor(
        name='big', vcpus=vcpus, memory_mb=1024, extra_specs=specs
    )
    image = objects.ImageMeta.from_dict({'properties': {}})
    return objects.RequestSpec(
        instance_uuid='5e1f0000-0000-4000-8000-000000000001',
        flavor=flavor,
        image=image,
        numa_topology=hardware.numa_get_constraints(flavor, image),
        pci_requests=None,
    )


def host_state(number):
    provider = host_uuid(number)
    return types.SimpleNamespace(
        host=f'host{number}',
        nodename=f'host{number}',
        uuid=provider,
        num_instances=0,
        aggregates=[],
        limits={},
        updated=None,
        numa_topology=None,
        pci_stats=None,
        allocation_candidates=candidates(provider),
    )


def candidates(provider):
    """What Placement offers on a host for a server."""
    return [
        {
            'allocations': {provider: {'resources': {'VCPU': 1}}},
            'mappings': {'': [provider]},
        }
    ]
