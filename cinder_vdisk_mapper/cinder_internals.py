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

"""Names in Cinder's code that the driver and the scheduler's filter use."""

from nova_diskplacer import internals
from nova_diskplacer.internals import Name

RELEASE = 'Cinder 29'


def _names(module: str, uses: dict[str, str]) -> internals.Names:
    """Return names in a module, given their uses by name."""
    return tuple(Name(module, name, use) for name, use in uses.items())


_SHARED = (
    Name(
        'cinder.volume.volume_utils',
        'extract_host',
        'Host of a backend.',
        parameters=('level',),
    ),
    Name(
        'cinder.compute.nova',
        'novaclient',
        "Cinder's client of Nova, configured by ``[nova]``: reads the "
        'project, the host and the flavor of the server of a volume.',
        parameters=('privileged_user',),
    ),
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
        'Filters the backends of other drivers.',
        parameters=('backend_state', 'filter_properties'),
    ),
    Name(
        'cinder.scheduler.host_manager',
        'BackendState.__init__',
        'The reported capabilities of a backend.',
        source=('self.capabilities',),
    ),
    Name(
        'cinder.scheduler.host_manager',
        'BackendState.backend_id',
        'The name of a backend.',
    ),
    *_SHARED,
)

_SERVER = 'The server that attaches or has attached a volume.'
_OBJECTS = 'Volumes in the database.'
_ROWS = (
    'Rows of volumes and snapshots: those of a host, and of many ids at once.'
)
_ERRORS = 'Errors that Cinder expects.'

#: Checked by cinder-volume when it sets up the driver.
VOLUME: internals.Names = (
    *_names('cinder.interface', {'volumedriver': 'Registers the driver.'}),
    Name(
        'cinder.volume.manager',
        'VolumeManager._connection_create',
        'Exports a volume when the connector and the attachment are known, '
        'saves the returned changes and only then connects: the export binds '
        'the volume.',
        source=(
            'self.driver.create_export(',
            'volume.update(model_update)',
            'self.driver.initialize_connection(',
        ),
    ),
    *_names('cinder.volume.driver', {'VolumeDriver': 'Base of the driver.'}),
    Name(
        'cinder.volume.driver',
        'VolumeDriver._connect_device',
        'Overridden for encrypted volumes.',
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
        'Overridden for encrypted volumes.',
        parameters=('context', 'attach_info', 'volume', 'properties', 'force'),
    ),
    *_names(
        'cinder.volume.configuration',
        {
            'SHARED_CONF_GROUP': 'Group of the options that all backends '
            'share.',
            'Configuration': 'Options of a backend, for ``disk audit``.',
        },
    ),
    *_names(
        'cinder.objects',
        {
            'register_all': 'The objects, for ``disk audit``.',
            'Volume._name_id': 'Names the vdisk of a volume that Cinder has '
            'copied.',
            'Volume.migration_status': 'Marks volumes that another host may '
            'connect and that the audit must leave alone.',
            'Volume.volume_attachment': _SERVER,
            'VolumeAttachment.attach_status': _SERVER,
            'VolumeAttachment.instance_uuid': _SERVER,
            'Volume.get_by_id': _OBJECTS,
            'VolumeAttachmentList.get_all_by_instance_uuid': _OBJECTS,
            'SnapshotList.get_all_for_volume': 'Volumes with snapshots are '
            'not handed over.',
        },
    ),
    Name(
        'cinder.objects',
        'Service.get_by_args',
        'The service that a volume is handed over to.',
        parameters=('host', 'binary_key'),
    ),
    *_SHARED,
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
    *_names(
        'cinder.volume.volume_utils',
        {
            'append_host': 'The pool that a volume is handed over to.',
            'brick_get_connector_properties': 'Attaches a volume to this '
            'host.',
            'check_encryption_provider': 'Encryption of a volume; rejects '
            'other providers than LUKS.',
            'image_conversion_dir': 'Directory whose leftovers Cinder removes '
            'when it starts.',
            'is_group_a_cg_snapshot_type': 'Returns whether snapshots of a '
            'group must be consistent.',
            'paginate_entries_list': 'Pages of lists of manageable vdisks.',
        },
    ),
    *_names(
        'cinder.volume.volume_types',
        {'is_encrypted': 'Refuses to manage vdisks for encrypted types.'},
    ),
    *_names(
        'cinder.volume.throttling',
        {'Throttle.get_default': 'Limit of bytes per second for copies.'},
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
    *_names(
        'cinder.image.image_utils',
        {
            'decode_cipher': 'Cipher in arguments of ``qemu-img``.',
            'temporary_file': 'A file that Cinder removes when it starts.',
        },
    ),
    Name(
        'cinder.privsep.format_inspector',
        'get_format_if_safe',
        'Looks for the header of an image in a vdisk to be managed.',
    ),
    *_names(
        'cinder.utils',
        {'execute': 'Runs ``qemu-img``, by rootwrap if root is needed.'},
    ),
    *_names(
        'cinder.db.models',
        {
            'Snapshot': _ROWS,
            'Snapshot.provider_location': _ROWS,
            'Snapshot.status': _ROWS,
            'Snapshot.volume_id': _ROWS,
            'Snapshot.volume_size': _ROWS,
            'Volume': _ROWS,
            'Volume._name_id': _ROWS,
            'Volume.host': _ROWS,
            'Volume.migration_status': _ROWS,
            'Volume.name_id': _ROWS,
            'Volume.provider_location': _ROWS,
            'Volume.size': _ROWS,
            'Volume.status': _ROWS,
        },
    ),
    *_names(
        'cinder.db.api',
        {
            'main_context_manager.reader.using': 'Reads the database.',
            'main_context_manager.writer.using': 'Writes to the database.',
        },
    ),
    *_names(
        'cinder.volume.rpcapi',
        {
            'VolumeAPI': 'Asks another cinder-volume to connect a volume '
            'handed over to it.'
        },
    ),
    Name(
        'cinder.volume.rpcapi',
        'VolumeAPI.initialize_connection',
        'Exports and connects a volume and returns the connection.',
        parameters=('ctxt', 'volume', 'connector'),
    ),
    *_names(
        'cinder.context',
        {'get_admin_context': 'Context of calls that no user has made.'},
    ),
    *_names(
        'cinder.exception',
        {
            'CinderException': _ERRORS,
            'ImageTooBig': _ERRORS,
            'InvalidConnectorException': _ERRORS,
            'InvalidVolumeType': _ERRORS,
            'ManageExistingAlreadyManaged': _ERRORS,
            'ManageExistingInvalidReference': _ERRORS,
            'ManageExistingVolumeTypeMismatch': _ERRORS,
            'ServiceNotFound': _ERRORS,
            'VolumeDriverException': _ERRORS,
        },
    ),
)
