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

"""Nova's own scheduling over hosts and a Placement that tests make up."""

import types
import uuid

from nova import objects
from nova.scheduler import filters
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import weights

from nova_diskplacer.scheduler import filter as disk_filter
from nova_diskplacer.scheduler import pressure_weigher
from nova_diskplacer.scheduler import weigher
from tests.unit.nova_diskplacer.scheduler import fakes

CELL = str(uuid.UUID(int=7))
CONTEXT = types.SimpleNamespace(elevated=lambda: None, user_id='user')


class Scheduler(manager.SchedulerManager):
    """A scheduler worker without services, databases and RPC.

    :param claim: returns whether it has claimed, given the consumer and the
        disks' part of an allocation request, {disk: resources}.
    :param free: gives back what a consumer has claimed.
    """

    def __init__(self, claim, free=None, before=()):
        self.host_manager = host_manager.HostManager.__new__(
            host_manager.HostManager
        )
        self.host_manager.filter_handler = filters.HostFilterHandler()
        self.host_manager.enabled_filters = [
            *before,
            disk_filter.DiskPlacementFilter(),
        ]
        self.host_manager.weight_handler = weights.HostWeightHandler()
        self.host_manager.weighers = [
            weigher.DiskPlacementWeigher(),
            pressure_weigher.DiskPressureWeigher(),
        ]
        self._claim = claim
        self._free = free

    @property
    def placement_client(self):
        return self

    def claim_resources(self, context, consumer, request, *args, **kwargs):
        return self._claim(
            consumer,
            {
                provider: allocation['resources']
                for provider, allocation in request['allocations'].items()
                if 'VCPU' not in allocation['resources']
            },
        )

    def delete_allocation_for_instance(self, context, consumer, **kwargs):
        self._free(consumer)

    def _get_all_host_states(self, context, spec, hosts):
        return iter(hosts)

    def schedule(self, spec, hosts, servers=None, context=CONTEXT):
        """Return a list of Selections for each server.

        :param hosts: Nova's states of the hosts.
        :param servers: UUIDs of the servers, default the request spec's.
        :raises NoValidHost: as Nova's.
        """
        candidates = {host.uuid: fakes.candidates(host.uuid) for host in hosts}
        return self._schedule(
            context,
            spec,
            servers or [spec.instance_uuid],
            candidates,
            hosts,
            '1.36',
            return_alternates=True,
        )


def host_state(number):
    """Return a host as Nova's scheduler knows it."""
    name = f'host{number}'
    state = host_manager.HostState(name, name, CELL)
    state.uuid = fakes.host_uuid(number)
    state.cpu_allocation_ratio = state.ram_allocation_ratio = 1.0
    return state


def request(server=None, **extra_specs):
    """Return the request spec of a server that is booted."""
    return objects.RequestSpec(
        instance_uuid=server or str(uuid.uuid4()),
        project_id='project',
        user_id='user',
        num_instances=1,
        flavor=objects.Flavor(
            name='any',
            vcpus=1,
            memory_mb=1024,
            root_gb=0,
            ephemeral_gb=0,
            extra_specs={
                f'diskplacer:{name}': str(value)
                for name, value in extra_specs.items()
            },
        ),
        image=None,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        requested_resources=[],
        instance_group=None,
        pci_requests=None,
        numa_topology=None,
        scheduler_hints={},
        limits=objects.SchedulerLimits(),
    )
