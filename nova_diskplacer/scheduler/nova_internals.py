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

"""Names in Nova's code on which filters, weighers and compute hosts rely."""

from nova_diskplacer import internals
from nova_diskplacer.internals import Name

#: Checked when nova-scheduler starts.
SCHEDULER: internals.Names = (
    Name(
        'nova.scheduler.manager.SchedulerManager._schedule',
        'It tests whether a host has candidates, takes the first one, claims '
        'by it and only then consumes the host. ``DiskCandidates`` relies on '
        'this order. It goes through its list of hosts until it can claim on '
        'one, so it tries a host again that is in the list several times, and '
        'drops the candidate when the request is over.',
        source=(
            'for host in hosts:',
            'if not host.allocation_candidates:',
            'alloc_req = host.allocation_candidates[0]',
            'self._consume_selected_host(',
        ),
    ),
    Name(
        'nova.scheduler.manager.SchedulerManager._ensure_sufficient_hosts',
        'It marks the hosts on which it gives back what it has claimed.',
        source=('self._cleanup_allocations(', 'host.updated = None'),
    ),
    Name(
        'nova.scheduler.manager.SchedulerManager._get_alternate_hosts',
        'It takes the first candidates of alternates, which are not claimed, '
        'and filters again for those of several servers.',
        source=(
            'host.allocation_candidates[0]',
            'if not host.allocation_candidates:',
            'host not in selected_hosts',
            'self._get_sorted_hosts(',
        ),
    ),
    Name(
        'nova.scheduler.host_manager.HostState._locked_consume_from_request',
        'It counts a server once it has been claimed: a choice of disks is '
        'then no longer released.',
        source=('self.num_instances += 1',),
    ),
    Name(
        'nova.scheduler.host_manager.HostState.__init__',
        'The filter reads these attributes of a host, and sets its limits, '
        'which name NUMA cells to nova-compute.',
        source=(
            'self.uuid',
            'self.host',
            'self.aggregates',
            'self.limits',
            'self.updated',
            'self.numa_topology',
            'self.pci_stats',
            'self.num_instances',
            'self.allocation_candidates',
        ),
    ),
    Name(
        'nova.scheduler.filters.BaseHostFilter',
        'Base of the filters. Nova creates them before it forks workers.',
    ),
    Name('nova.scheduler.weights.BaseHostWeigher', 'Base of the weighers.'),
    Name(
        'nova.weights.BaseWeightHandler.get_weighed_objects',
        'It goes on where a weigher returns an empty list.',
        source=('weigher.weigh_objects(', 'zip(weighed_objs, weights)'),
    ),
    Name(
        'nova.scheduler.utils.request_is_rebuild', 'A rebuild is not filtered.'
    ),
    Name(
        'nova.scheduler.utils.get_weight_multiplier',
        "An aggregate's multiplier of a weigher.",
    ),
    Name(
        'nova.scheduler.client.report.report_client_singleton',
        "Nova's own client of Placement: its session and its configuration.",
    ),
    Name(
        'nova.scheduler.client.report.SchedulerReportClient.get',
        'Asks Placement about disks.',
        parameters=('url', 'version'),
    ),
    Name(
        'nova.virt.hardware.numa_fit_instance_to_host',
        'nova-compute chooses the cells of a server by it, and '
        '``diskplacer:numa`` predicts them by it.',
        parameters=('limits', 'pci_requests', 'pci_stats'),
    ),
    Name(
        'nova.virt.hardware.numa_get_constraints',
        "The NUMA topology that a server's claim starts from.",
    ),
    Name(
        'nova.virt.hardware.numa_usage_from_instance_numa',
        "Counts pending claims as used on a host's cells.",
    ),
    Name(
        'nova.objects.NUMATopologyLimits',
        "They name a host's cells to nova-compute.",
    ),
    Name(
        'nova.objects.NetworkMetadata',
        'The part of the limits that names cells.',
    ),
    Name(
        'nova.objects.ImageMeta.from_dict',
        'The image of a request that has none.',
    ),
    Name(
        'nova.objects.RequestSpec.obj_context',
        "The context by which a server's volumes are read. They are kept on "
        'the request spec, in an attribute that is no field.',
    ),
    Name(
        'nova.objects.InstanceMapping.get_by_instance_uuid',
        'The cell of a server that moves.',
    ),
    Name(
        'nova.objects.BlockDeviceMappingList.get_by_instance_uuid',
        'The volumes of a server that moves.',
    ),
    Name(
        'nova.objects.BlockDeviceMappingList.obj_from_primitive',
        'The volumes of a server that boots.',
    ),
    Name(
        'nova.db.api.models.BuildRequest.__table__.c.instance_uuid',
        'The server of a build request.',
    ),
    Name(
        'nova.db.api.models.BuildRequest.__table__.c.block_device_mappings',
        'Its block device mappings, a small part of the build request.',
    ),
    Name(
        'nova.db.api.api.context_manager.reader.connection.using',
        "A connection to Nova's API database.",
    ),
    Name(
        'nova.conf.CONF.scheduler.max_placement_results',
        'The maximum number of hosts in an answer of Placement.',
    ),
    Name('nova.context.target_cell', "A session of a cell's database."),
    Name(
        'nova.exception.InstanceMappingNotFound',
        'The server was deleted in the meantime.',
    ),
    Name(
        'nova.exception.InstanceNotFound',
        'The server was deleted in the meantime.',
    ),
    Name(
        'nova.objects.Instance.get_by_uuid',
        'The task of a server that moves. It also loads what it is not asked '
        'for, unless it is asked for nothing.',
        parameters=('context', 'uuid', 'expected_attrs'),
    ),
    Name('nova.compute.task_states.MIGRATING', 'The server migrates live.'),
    Name('nova.compute.task_states.REBUILDING', 'The server is evacuated.'),
    Name(
        'nova.objects.Service.get_by_compute_host',
        'Whether an administrator has forced nova-compute down.',
        parameters=('context', 'host'),
    ),
    Name(
        'nova.exception.ComputeHostNotFound',
        'The service was deleted in the meantime.',
    ),
    Name(
        'nova.exception.CPUPinningInvalid',
        'The CPUs of a pending claim are in use: it was made.',
    ),
    Name(
        'nova.exception.CPUPinningUnknown',
        'The host does not have the CPUs of a pending claim any more.',
    ),
)

#: What the listener of reports stops with. Without it, the listener lasts as
#: long as its process.
SERVICE: internals.Names = (
    Name(
        'nova.service.Service.stop',
        'It waits for the requests in progress. The listener of reports stops '
        'after it, and starts with the next request if the service does.',
    ),
    Name(
        'nova.service.Service.__init__',
        'The name that tells nova-scheduler from other services.',
        source=('self.binary',),
    ),
)

#: Behaviour of nova-compute. nova-diskplacer has no code there that could
#: check it, so the tests do.
COMPUTE: internals.Names = (
    Name(
        'nova.compute.api.API.live_migrate',
        'It names the task before a host is chosen.',
        source=('instance.task_state = task_states.MIGRATING',),
    ),
    Name(
        'nova.compute.api.API.evacuate',
        'It names the task before a host is chosen.',
        source=('instance.task_state = task_states.REBUILDING',),
    ),
    Name(
        'nova.compute.claims.Claim._test_numa_topology',
        'The claim of a server chooses its cells by the limits that the '
        'scheduler has set.',
        source=('numa_fit_instance_to_host(', 'limits=limit'),
    ),
    Name(
        'nova.virt.block_device.DriverVolBlankBlockDevice.attach',
        'The name of a blank volume tells the Cinder driver and cinder-'
        "scheduler's filter which server it is for.",
        source=("instance.uuid + '-blank-vol'",),
    ),
    Name(
        'nova.virt.libvirt.volume.gpfs.LibvirtGPFSVolumeDriver.get_config',
        "The only connection that makes a file QEMU's disk.",
        source=(
            'source_type = "file"',
            "connection_info['data']['device_path']",
        ),
    ),
    Name(
        'nova.virt.libvirt.config.'
        'LibvirtConfigGuestMetaNovaFlavorExtraSpecs.format_dom',
        "The agent reads a server's extra specs in its domain's metadata. "
        'Without them it ignores tiers, profiles and requested pins.',
        source=('extraSpec',),
        since=32,
    ),
)
