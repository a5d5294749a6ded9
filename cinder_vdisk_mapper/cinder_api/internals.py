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

#: The releases that the tables are for.
RELEASE = 'Cinder 26 to 29'

_SHARED = (
    Name(
        'cinder.volume.volume_utils.extract_host',
        'Host of a backend.',
        ('level',),
    ),
    Name(
        'cinder.compute.nova.novaclient',
        "Cinder's client of Nova, configured by ``[nova]``: reads the "
        'project, the host and the flavor of the server of a volume.',
        ('privileged_user',),
    ),
)

#: Checked by cinder-scheduler when the filter is first used.
SCHEDULER: internals.Names = (
    Name(
        'cinder.scheduler.filters.capacity_filter.CapacityFilter',
        'Base of the filter; Cinder makes one for each request.',
    ),
    Name(
        'cinder.scheduler.filters.capacity_filter.CapacityFilter.backend_passes',
        'Filters the backends of other drivers.',
        ('backend_state', 'filter_properties'),
    ),
    Name(
        'cinder.scheduler.host_manager.BackendState.__init__',
        'The reported capabilities of a backend.',
        source=('self.capabilities',),
    ),
    Name(
        'cinder.scheduler.host_manager.BackendState.backend_id',
        'The name of a backend.',
    ),
    Name(
        'cinder.context.RequestContext.from_dict',
        'Has the request ID that Nova hands on, in the scheduler, too.',
        source=('global_request_id=',),
    ),
    *_SHARED,
)

_SERVER = 'The server that attaches or has attached a volume.'
_ROWS = (
    'Rows of volumes and snapshots: those of a host, and of many ids at once.'
)
_MESSAGE = 'A message to the owner of a volume.'
_ERROR = 'An error that Cinder expects.'

#: Checked by cinder-volume when it sets up the driver.
VOLUME: internals.Names = (
    Name('cinder.interface.volumedriver', 'Registers the driver.'),
    Name(
        'cinder.volume.manager.VolumeManager._connection_create',
        'Exports a volume when the connector and the attachment are known, '
        'saves the returned changes and only then connects: the export binds '
        'the volume.',
        source=(
            'self.driver.create_export(',
            'volume.update(model_update)',
            'self.driver.initialize_connection(',
        ),
    ),
    Name('cinder.volume.driver.VolumeDriver', 'Base of the driver.'),
    Name(
        'cinder.volume.driver.VolumeDriver._connect_device',
        'Overridden for encrypted volumes.',
        ('conn',),
    ),
    Name(
        'cinder.volume.driver.VolumeDriver._attach_volume',
        'Attaches a volume to this host, for an image. Overridden: Cinder '
        'changes the keys of clones by it, and it goes on if the export is '
        'refused.',
        ('context', 'volume', 'properties', 'remote'),
    ),
    Name(
        'cinder.volume.driver.VolumeDriver._detach_volume',
        'Overridden for encrypted volumes.',
        ('context', 'attach_info', 'volume', 'properties', 'force'),
    ),
    Name(
        'cinder.volume.configuration.SHARED_CONF_GROUP',
        'Group of the options that all backends share.',
    ),
    Name(
        'cinder.volume.configuration.Configuration',
        'Options of a backend, for ``disk audit``.',
    ),
    Name('cinder.objects.register_all', 'The objects, for ``disk audit``.'),
    Name(
        'cinder.objects.Volume._name_id',
        'Names the vdisk of a volume that Cinder has copied.',
    ),
    Name(
        'cinder.objects.Volume.migration_status',
        'Marks volumes that another host may connect and that the audit must '
        'leave alone.',
    ),
    Name('cinder.objects.Volume.volume_attachment', _SERVER),
    Name('cinder.objects.VolumeAttachment.attach_status', _SERVER),
    Name('cinder.objects.VolumeAttachment.instance_uuid', _SERVER),
    Name('cinder.objects.Volume.get_by_id', 'Volumes in the database.'),
    Name(
        'cinder.objects.VolumeAttachmentList.get_all_by_instance_uuid',
        'Volumes in the database.',
    ),
    Name(
        'cinder.objects.SnapshotList.get_all_for_volume',
        'Volumes with snapshots are not handed over.',
    ),
    Name(
        'cinder.objects.Service.get_by_args',
        'The service that a volume is handed over to.',
        ('host', 'binary_key'),
    ),
    Name(
        'cinder.objects.ServiceList.get_all',
        'Whether cinder-volume of a lost host is up.',
        ('context', 'filters'),
    ),
    Name(
        'cinder.objects.VolumeList.get_all_by_host',
        'The volumes of a lost host.',
        ('context', 'host'),
    ),
    Name(
        'cinder.objects.Volume.conditional_update',
        'Takes a volume of a lost host, or saves that one is not exported, if '
        'it is as it was.',
        ('values', 'expected_values'),
    ),
    *(
        Name(
            f'cinder.db.models.{row}',
            _ROWS,
            earlier=f'cinder.db.sqlalchemy.models.{row}',
        )
        for row in (
            'Snapshot',
            'Snapshot.provider_id',
            'Snapshot.provider_location',
            'Snapshot.status',
            'Snapshot.volume_id',
            'Snapshot.volume_size',
            'VolumeAdminMetadata',
            'VolumeAdminMetadata.deleted',
            'VolumeAdminMetadata.key',
            'VolumeAdminMetadata.value',
            'VolumeAdminMetadata.volume_id',
            'Volume',
            'Volume._name_id',
            'Volume.host',
            'Volume.migration_status',
            'Volume.name_id',
            'Volume.provider_id',
            'Volume.provider_location',
            'Volume.size',
            'Volume.status',
        )
    ),
    Name(
        'cinder.db.api.main_context_manager.reader.using',
        'Reads the database.',
        earlier='cinder.db.sqlalchemy.api.main_context_manager.reader.using',
    ),
    Name(
        'cinder.db.api.main_context_manager.writer.using',
        'Writes to the database.',
        earlier='cinder.db.sqlalchemy.api.main_context_manager.writer.using',
    ),
    *_SHARED,
    Name(
        'cinder.volume.volume_utils.append_host',
        'The pool that a volume is handed over to.',
    ),
    Name(
        'cinder.volume.volume_utils.brick_get_connector',
        'Logs in to the vdisk of a server that has moved here.',
        ('protocol', 'device_scan_attempts'),
    ),
    Name(
        'cinder.volume.volume_utils.generate_username',
        'User of the export to the host that a server moves to.',
    ),
    Name(
        'cinder.volume.volume_utils.generate_password',
        'Secret of the export to the host that a server moves to.',
    ),
    Name(
        'cinder.volume.targets.iscsi.ISCSITarget._get_target_chap_auth',
        'Overridden: the arguments of commands have no secret of the volume.',
        ('context', 'volume'),
    ),
    Name(
        'cinder.message.api.API',
        'Tells the owner of a volume that could not follow its server.',
    ),
    Name('cinder.message.message_field.Action.ATTACH_VOLUME', _MESSAGE),
    Name('cinder.message.message_field.Detail.ATTACH_ERROR', _MESSAGE),
    Name(
        'cinder.volume.volume_utils.brick_get_connector_properties',
        'Attaches a volume to this host.',
    ),
    Name(
        'cinder.volume.volume_utils.check_encryption_provider',
        'Encryption of a volume; rejects other providers than LUKS.',
    ),
    Name(
        'cinder.volume.volume_utils.clear_volume',
        'Wipes a logical volume.',
        ('volume_clear', 'volume_clear_size', 'volume_clear_ionice'),
    ),
    Name(
        'cinder.volume.volume_utils.image_conversion_dir',
        'Directory whose leftovers Cinder removes when it starts.',
    ),
    Name(
        'cinder.volume.volume_utils.is_group_a_cg_snapshot_type',
        'Returns whether snapshots of a group must be consistent.',
    ),
    Name(
        'cinder.volume.volume_utils.paginate_entries_list',
        'Pages of lists of manageable vdisks.',
    ),
    Name(
        'cinder.volume.volume_types.is_encrypted',
        'Refuses to manage vdisks for encrypted types.',
    ),
    Name(
        'cinder.volume.throttling.Throttle.get_default',
        'Limit of bytes per second for copies.',
    ),
    Name(
        'cinder.image.image_utils.decode_cipher',
        'Cipher in arguments of ``qemu-img``.',
    ),
    Name(
        'cinder.image.image_utils.fetch_to_raw', 'Fetches an image.', ('size',)
    ),
    Name(
        'cinder.image.image_utils.temporary_file',
        'A file that Cinder removes when it starts.',
    ),
    Name(
        'cinder.privsep.format_inspector.get_format_if_safe',
        'Looks for the header of an image in a vdisk to be managed.',
    ),
    Name(
        'cinder.utils.get_root_helper',
        'Starts the helper process of ``diskplacer-settle``.',
    ),
    Name(
        'cinder.rpc.init',
        'Has ``diskplacer-settle`` ask cinder-volume of other hosts.',
        ('conf',),
    ),
    Name(
        'cinder.utils.execute',
        'Runs ``qemu-img``, by rootwrap if root is needed.',
    ),
    Name(
        'cinder.volume.rpcapi.VolumeAPI',
        'Asks another cinder-volume to connect a volume handed over to it.',
    ),
    Name(
        'cinder.volume.rpcapi.VolumeAPI.initialize_connection',
        'Exports and connects a volume and returns the connection.',
        ('ctxt', 'volume', 'connector'),
    ),
    Name(
        'cinder.context.get_admin_context',
        'Context of calls that no user has made.',
    ),
    Name('cinder.exception.CinderException', _ERROR),
    Name('cinder.exception.ImageTooBig', _ERROR),
    Name('cinder.exception.InvalidConnectorException', _ERROR),
    Name('cinder.exception.InvalidVolumeType', _ERROR),
    Name('cinder.exception.ManageExistingAlreadyManaged', _ERROR),
    Name('cinder.exception.ManageExistingInvalidReference', _ERROR),
    Name('cinder.exception.ManageExistingVolumeTypeMismatch', _ERROR),
    Name('cinder.exception.RekeyNotSupported', _ERROR),
    Name('cinder.exception.ServiceNotFound', _ERROR),
    Name('cinder.exception.VolumeDriverException', _ERROR),
    Name('cinder.exception.VolumeNotFound', _ERROR),
)
