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

from nova_diskplacer.scheduler import fleet

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


def make_fleet(*reports, clock=None):
    made = fleet.Fleet(60, clock=clock or Clock())
    for one in reports:
        made.update(one)
    return made


def host_state(number):
    provider = host_uuid(number)
    return types.SimpleNamespace(
        host=f'host{number}',
        uuid=provider,
        num_instances=0,
        aggregates=[],
        allocation_candidates=[
            {
                'allocations': {provider: {'resources': {'VCPU': 1}}},
                'mappings': {'': [provider]},
            }
        ],
    )
