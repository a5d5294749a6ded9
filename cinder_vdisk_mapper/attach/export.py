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

"""Exports a vdisk to another host while Cinder migrates a volume to it.

Cinder's own target driver of the backend's ``target_helper`` exports it.
Servers use exports only while they move, see :mod:`server_moves`: a local disk
is for the servers of its host.
"""

from typing import Any

from cinder import objects
from cinder.volume import volume_utils
from oslo_log import log as logging
from oslo_utils import importutils

from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.cinder_api.types import is_target
from cinder_vdisk_mapper.cinder_api.types import target_of
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.host import lio

LOG = logging.getLogger(__name__)

#: the target driver whose exports have a secret and one initiator
LIO = 'lioadm'

# Migration status of a volume while it is copied.
_COPIED = 'migrating'

# Value of provider_id until the location of the export is known.
_IN_PROGRESS = 'begun'


def needs_remote_export(volume: Volume) -> bool:
    """Return whether Cinder may attach a volume to another host.

    Cinder does so to fill the volume that replaces one of that host. A server
    that is attached to the volume would stay on the other host.
    """
    return is_target(volume.migration_status) and not any(
        attachment.instance_uuid for attachment in volume.volume_attachment
    )


def is_source(volume: Volume) -> bool:
    """Return whether a volume that no server has is being migrated.

    Servers that have it keep it: Nova copies it for them.
    """
    migration = volume.migration_status
    return (
        is_migrating(migration)
        and not is_target(migration)
        and all(
            attachment.attach_status != 'attached'
            for attachment in attachments(volume)
        )
    )


def is_lost_copy(context: Any, volume: Volume, server: str) -> bool:
    """Return whether Nova has begun to copy a volume for a server, and died.

    The volume is attached to none, and its server attaches it again. Nova has
    reserved the target of the copy for the server, and completes that
    attachment when the server has the target in place of the volume.

    :param server: UUID of the server.
    """
    if volume.migration_status != _COPIED:
        return False
    found = objects.VolumeAttachmentList.get_all_by_instance_uuid(
        context, server
    )
    return any(
        attachment.volume.migration_status == target_of(volume.id)
        and attachment.attach_status != 'attached'
        for attachment in found
    )


def can_move(configuration: Any) -> bool:
    """Return whether a backend exports vdisks that follow their servers."""
    is_lio: bool = configuration.safe_get('target_helper') == LIO
    return is_lio and not _unusable_prefix(configuration)


def _unusable_prefix(configuration: Any) -> str:
    """Return why Cinder would not find its targets, '' if it does."""
    prefix = configuration.safe_get('target_prefix')
    # LioAdm.create_iscsi_target looks for the prefix and what follows the
    # first colon of the target's name
    if prefix.partition(':')[1:] == (':', ''):
        return ''
    return (
        f'target_prefix={prefix} must have one colon, at its end: Cinder '
        'finds no other target'
    )


class Exporter:
    """Exports vdisks through one of Cinder's target drivers.

    ``provider_location`` of a volume names its disk, so ``provider_id`` keeps
    the location of the export while it exists, and else the disk.

    :param configuration: of the backend.
    :param drivers: class path by ``target_helper``.
    :raises DiskPlacerError: the target driver cannot be used.
    """

    def __init__(self, configuration: Any, drivers: dict[str, str]) -> None:
        self.helper: str = configuration.safe_get('target_helper')
        self._prefix: str = configuration.safe_get('target_prefix')
        unusable = self.helper == LIO and _unusable_prefix(configuration)
        if unusable:
            raise exception.DiskPlacerError(
                f'target_helper={LIO} of cinder.conf cannot be used: '
                f'{unusable}'
            )
        try:
            self.target = importutils.import_object(
                drivers[self.helper], configuration=configuration
            )
        except Exception as error:
            # some run their tools, which may be missing
            raise exception.DiskPlacerError(
                f'target_helper={self.helper} of cinder.conf cannot be used: '
                f'{error}'
            ) from error
        # always a new secret: the arguments of its command can be seen and are
        # logged, so the export of a move gets its secret by other means
        self.target._get_target_chap_auth = lambda *_: None

    def create(
        self, context: Any, volume: Volume, path: str
    ) -> dict[str, Any]:
        """Export the vdisk at ``path`` and return the changes of the volume.

        :raises DiskPlacerError: the target driver failed.
        """
        volume.provider_id = _IN_PROGRESS
        volume.save()
        try:
            made = self._create(context, volume, path)
        except exception.DiskPlacerError:
            # a target without a portal would hold the vdisk open for ever
            self._try_remove_parts(volume)
            self.forget(volume)
            raise
        LOG.info('Volume %s is exported: %s', volume.id, made['location'])
        return {'provider_id': made['location'], 'provider_auth': made['auth']}

    def create_for_move(
        self, context: Any, volume: Volume, path: str
    ) -> dict[str, Any]:
        """Export a vdisk to the host that its server moves to.

        No initiator can log in yet. The secret stays that of an export that
        there was before a restart of the host. What a killed run, or the boot
        of the host, has left of an export is made anew. A whole one stays
        whatever fails: a server may use it.

        :returns: the changes of the volume.
        :raises DiskPlacerError: the target driver failed.
        """
        if naming.is_exported(volume) and not self._is_whole(volume):
            # the target driver takes a part for all of it
            self._remove_parts(volume)
        auth = volume.provider_auth or (
            f'CHAP {volume_utils.generate_username()} '
            f'{volume_utils.generate_password()}'
        )
        if not naming.is_exported(volume):
            volume.provider_id = _IN_PROGRESS
        volume.provider_auth = auth
        volume.save()
        try:
            made = self._create(context, volume, path)
        except exception.DiskPlacerError as error:
            if self._is_whole(volume):
                raise
            LOG.warning('What there is of an export is removed: %s', error)
            self._remove_parts(volume)
            made = self._create(context, volume, path)
        LOG.info('Volume %s is exported: %s', volume.id, made['location'])
        return {'provider_id': made['location'], 'provider_auth': auth}

    def connection(
        self, volume: Volume, connector: Connector
    ) -> dict[str, Any]:
        """Return the connection by which a host attaches the export."""
        connection: dict[str, Any] = self.target.initialize_connection(
            _as_exported(volume), connector
        )
        return connection

    def disconnect(self, volume: Volume, connector: Connector) -> None:
        """Revoke the access of a host."""
        if naming.is_exported(volume):
            self.target.terminate_connection(_as_exported(volume), connector)

    def remove(self, context: Any, volume: Volume, path: str) -> None:
        """Remove the export of a volume, if there is one."""
        self.stop(context, volume, path)
        self.forget(volume)

    def stop(self, context: Any, volume: Volume, path: str) -> None:
        """Remove an export, if there is one, and keep where it was.

        :raises DiskPlacerError: the target driver for LIO failed.
        """
        if not naming.is_exported(volume):
            return
        if volume.provider_id == _IN_PROGRESS:
            # a killed run may have made it: export it again
            try:
                made = self._create(context, volume, path)
            except exception.DiskPlacerError as error:
                LOG.warning('There can be no whole export: %s', error)
                self._try_remove_parts(volume)
                return
            volume.provider_id = made['location']
        if self.helper == LIO:
            # remove_export would leave the vdisk open, for which there is no
            # target any more if a run was killed
            self._remove_parts(volume)
        else:
            self.target.remove_export(context, _as_exported(volume))

    @staticmethod
    def forget(volume: Volume) -> None:
        """Save that a volume is not exported.

        A row stays as it is that has changed since it was read: Cinder may
        have exchanged it with that of another volume.
        """
        if not naming.is_exported(volume):
            return
        if not volume.conditional_update(
            {'provider_id': volume.provider_location, 'provider_auth': None},
            {
                # the row may not have the location of the export, see stop
                'provider_id': (_IN_PROGRESS, volume.provider_id),
                'provider_location': volume.provider_location,
            },
        ):
            LOG.warning(
                'Volume %s has changed while its export was removed', volume.id
            )

    def _is_whole(self, volume: Volume) -> bool:
        """Return whether the kernel exports a volume.

        :raises DiskError: the kernel's targets cannot be read.
        """
        return lio.is_whole(f'{self._prefix}{volume.name}')

    def _try_remove_parts(self, volume: Volume) -> None:
        try:
            self._remove_parts(volume)
        except exception.DiskPlacerError as error:
            LOG.warning('There can be no export to remove: %s', error)

    def _remove_parts(self, volume: Volume) -> None:
        """Remove what there is of an export, which need not be whole.

        :raises DiskPlacerError: the target driver failed.
        """
        try:
            self.target.remove_iscsi_target(0, 0, volume.id, volume.name)
        except Exception as error:
            raise exception.DiskPlacerError(
                f'the export of volume {volume.id} by '
                f'target_helper={self.helper} cannot be removed: {error}'
            ) from error

    def _create(
        self, context: Any, volume: Volume, path: str
    ) -> dict[str, Any]:
        try:
            made: dict[str, Any] = self.target.create_export(
                context, _as_exported(volume), path
            )
        except Exception as error:
            # the target's command-line tools raise errors of all kinds
            raise exception.DiskPlacerError(
                f'volume {volume.id} cannot be exported to another host by '
                f'target_helper={self.helper} ({error}); see target_helper '
                'and target_ip_address in cinder.conf'
            ) from error
        return made


def _as_exported(volume: Volume) -> Volume:
    """Return the volume with the export in ``provider_location``."""
    exported = volume.obj_clone()
    exported.provider_location = volume.provider_id
    return exported
