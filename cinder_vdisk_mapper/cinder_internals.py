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

"""What of Cinder's code the driver and cinder-scheduler's filter rely on."""

from nova_diskplacer import internals
from nova_diskplacer.internals import Name

RELEASE = 'Cinder 29'

_EXTRACT_HOST = Name(
    'cinder.volume.volume_utils',
    'extract_host',
    'The host that a backend is on.',
    parameters=('level',),
)

_NOVA = Name(
    'cinder.compute.nova',
    'novaclient',
    "Cinder's own client of Nova, by its ``[nova]`` options: which server a "
    'volume is for, its project, its host and its flavor.',
    parameters=('privileged_user',),
)

#: Checked by cinder-scheduler when the filter is first used.
SCHEDULER: internals.Names = (
    Name(
        'cinder.scheduler.filters.capacity_filter',
        'CapacityFilter',
        'Base of the filter; Cinder makes one for each request.',
    ),
    Name(
        'cinder.scheduler.filters.capacity_filter',
        'CapacityFilter.backend_passes',
        'What it does for backends of other drivers.',
        parameters=('backend_state', 'filter_properties'),
    ),
    Name(
        'cinder.scheduler.host_manager',
        'BackendState.__init__',
        'What a backend has reported, its name apart.',
        source=('self.capabilities',),
    ),
    Name(
        'cinder.scheduler.host_manager',
        'BackendState.backend_id',
        'The name of a backend.',
    ),
    _EXTRACT_HOST,
    _NOVA,
)

#: Checked by cinder-volume when it sets up the driver.
VOLUME: internals.Names = (
    Name(
        'cinder.volume.driver',
        'VolumeDriver',
        'Base of the driver.',
    ),
    Name(
        'cinder.interface',
        'volumedriver',
        'Registers the driver.',
    ),
    Name(
        'cinder.volume.manager',
        'VolumeManager._connection_create',
        'It exports a volume with the connector and the attachment known, '
        'saves what that returns and only then connects: a volume is bound '
        'in between.',
        source=(
            'self.driver.create_export(',
            'volume.update(model_update)',
            'self.driver.initialize_connection(',
        ),
    ),
    Name(
        'cinder.volume.driver',
        'VolumeDriver._connect_device',
        'Overridden, for encrypted volumes.',
        parameters=('conn',),
    ),
    Name(
        'cinder.volume.driver',
        'VolumeDriver._attach_volume',
        'Attaches a volume to this host, to be written to.',
        parameters=('context', 'volume', 'properties'),
    ),
    Name(
        'cinder.volume.driver',
        'VolumeDriver._detach_volume',
        'Overridden, for encrypted volumes.',
        parameters=('context', 'attach_info', 'volume', 'properties', 'force'),
    ),
    Name(
        'cinder.volume.configuration',
        'SHARED_CONF_GROUP',
        'Where options are that all backends share.',
    ),
    Name(
        'cinder.volume.configuration',
        'Configuration',
        "A backend's options, for ``disk audit``.",
    ),
    Name(
        'cinder.objects',
        'Volume._name_id',
        'Names the vdisk of a volume that Cinder has copied.',
    ),
    Name(
        'cinder.objects',
        'Volume.migration_status',
        'Tells who may connect a volume from another host, and what the '
        'audit must leave alone.',
    ),
    *(
        Name(
            'cinder.objects',
            name,
            'Which server a volume is attached to, or about to be.',
        )
        for name in (
            'Volume.volume_attachment',
            'VolumeAttachment.attach_status',
            'VolumeAttachment.instance_uuid',
        )
    ),
    _EXTRACT_HOST,
    _NOVA,
    Name(
        'cinder.volume.volume_utils',
        'brick_get_connector_properties',
        'Attaches a volume to this host.',
    ),
    Name(
        'cinder.volume.volume_utils',
        'clear_volume',
        'Wipes a logical volume.',
        parameters=(
            'volume_clear',
            'volume_clear_size',
            'volume_clear_ionice',
        ),
    ),
    Name(
        'cinder.volume.volume_utils',
        'check_encryption_provider',
        'How a volume is encrypted; refuses others than LUKS.',
    ),
    Name(
        'cinder.volume.volume_utils',
        'is_group_a_cg_snapshot_type',
        'Whether snapshots of a group are to be consistent.',
    ),
    Name(
        'cinder.volume.volume_utils',
        'image_conversion_dir',
        'Where Cinder removes leftovers when it starts.',
    ),
    Name(
        'cinder.volume.volume_utils',
        'paginate_entries_list',
        'Pages of what can be managed.',
    ),
    Name(
        'cinder.volume.volume_types',
        'is_encrypted',
        'What is encrypted cannot be managed.',
    ),
    Name(
        'cinder.volume.throttling',
        'Throttle.get_default',
        'The limit of bytes per second for copies.',
    ),
    Name(
        'cinder.image.image_utils',
        'convert_image',
        'Writes an image into an allocated vdisk.',
        parameters=('src_format', 'disable_sparse', 'skip_create'),
    ),
    Name(
        'cinder.image.image_utils',
        'fetch_to_raw',
        'Fetches an image.',
        parameters=('size',),
    ),
    Name(
        'cinder.image.image_utils',
        'temporary_file',
        'A file that Cinder removes when it starts.',
    ),
    Name(
        'cinder.image.image_utils',
        'decode_cipher',
        'A cipher as ``qemu-img`` wants it.',
    ),
    Name(
        'cinder.privsep.format_inspector',
        'get_format_if_safe',
        'Looks for the header of an image in what is to be managed.',
    ),
    Name(
        'cinder.utils',
        'execute',
        'Runs ``qemu-img``, by rootwrap where it must be root.',
    ),
    *(
        Name('cinder.objects', name, 'Volumes in the database.')
        for name in (
            'Volume.get_by_id',
            'VolumeAttachmentList.get_all_by_instance_uuid',
        )
    ),
    *(
        Name(
            'cinder.db.models',
            name,
            'The rows of volumes and snapshots: those of a host, and of many '
            'ids at once.',
        )
        for name in (
            'Snapshot',
            'Snapshot.provider_location',
            'Snapshot.status',
            'Snapshot.volume_id',
            'Snapshot.volume_size',
            'Volume',
            'Volume._name_id',
            'Volume.host',
            'Volume.migration_status',
            'Volume.name_id',
            'Volume.provider_location',
            'Volume.size',
            'Volume.status',
        )
    ),
    *(
        Name(
            'cinder.db.api',
            f'main_context_manager.{name}.using',
            'Transactions of the database.',
        )
        for name in ('reader', 'writer')
    ),
    Name(
        'cinder.objects',
        'SnapshotList.get_all_for_volume',
        'What has snapshots is not handed over.',
    ),
    Name(
        'cinder.objects',
        'Service.get_by_args',
        'The service that a volume is handed over to.',
        parameters=('host', 'binary_key'),
    ),
    Name(
        'cinder.volume.volume_utils',
        'append_host',
        'The pool that a volume is handed over to.',
    ),
    Name(
        'cinder.volume.rpcapi',
        'VolumeAPI',
        'Has another cinder-volume connect what was handed over to it.',
    ),
    Name(
        'cinder.volume.rpcapi',
        'VolumeAPI.initialize_connection',
        'It exports and connects, and answers with the connection.',
        parameters=('ctxt', 'volume', 'connector'),
    ),
    Name(
        'cinder.objects',
        'register_all',
        'The objects, for ``disk audit``.',
    ),
    Name(
        'cinder.context',
        'get_admin_context',
        'A context for what no user has asked for.',
    ),
    *(
        Name('cinder.exception', name, 'What Cinder expects to be raised.')
        for name in (
            'CinderException',
            'ImageTooBig',
            'InvalidConnectorException',
            'InvalidVolumeType',
            'ManageExistingAlreadyManaged',
            'ManageExistingInvalidReference',
            'ManageExistingVolumeTypeMismatch',
            'NotFound',
            'ServiceNotFound',
            'VolumeDriverException',
        )
    ),
)
