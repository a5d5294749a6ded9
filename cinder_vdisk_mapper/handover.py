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

"""Volumes without content follow their server to its host.

Nova attaches the volumes of a server on the next host where the first one
fails, and cinder-scheduler may have put volumes that were made beforehand on
any host. A volume that holds nothing is handed over to the backend of the same
name on the server's host, which binds it there.
"""

from typing import Any

import oslo_messaging
from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import rpcapi
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import vdisk_reservation
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_BINARY = 'cinder-volume'
_RESERVED = 'reserved'

# Of volumes that Cinder does not migrate at the moment.
_SETTLED = (None, 'success', 'error')


class Handover(core.Core):
    """Hands volumes over to the backends of other hosts."""

    def is_elsewhere(self, volume: Any) -> bool:
        """Tell whether a volume has been handed over."""
        here = volume_utils.extract_host(self.host, 'backend')
        return bool(
            volume.host
            and volume_utils.extract_host(volume.host, 'backend') != here
        )

    def hand_over(
        self, context: Any, volume: Any, wanted: binding.Wanted, host: str
    ) -> None:
        """Give a volume without content to the backend of its server's host.

        At each moment it is bound here, or unbound here, or unbound there, so
        that whoever repeats this after a crash goes on from there.

        :param wanted: the volume's vdisk, for the server.
        :param host: what is to attach it.
        :raises BindingError: the volume has content, or is in use, or there
            is no such backend on that host.
        :raises DiskError: its disk is not there, or refuses.
        """
        if wanted.server is None or wanted.server.host != host:
            raise _refused(volume, f'no server on host {host} is to have it')
        service, target = _target(context, volume, host)
        with vdisk_reservation.lock(f'volume-{volume.id}'):
            volume.refresh()
            _check_unused(context, volume)
            disk = volume.provider_location
            # an unbound one may have a vdisk that a killed attempt has left
            for place in [disk] if disk else self.binder.places(wanted.name):
                self._check_blank(volume, wanted, place)
            if disk:
                volume.provider_location = None
                volume.save()
            self.delete_vdisk(disk, wanted.name)
            before = volume.host
            volume.host = target
            volume.service_uuid = service.uuid
            volume.save()
        LOG.info(
            'Volume %s is handed over from %s to %s for server %s',
            volume.id,
            before,
            target,
            wanted.server.uuid,
        )

    def connect_elsewhere(
        self, volume: Any, connector: dict[str, Any]
    ) -> dict[str, Any]:
        """Have the backend that has a volume now bind and connect it.

        :raises VolumeDriverException: it refuses, and says why.
        :raises BindingError: nobody is to have the volume any more.
        :raises DiskPlacerError: it does not answer.
        """
        context = cinder_context.get_admin_context()
        # deleting a vdisk may have taken long
        volume.refresh()
        _check_unused(context, volume)
        try:
            connection: dict[str, Any] = (
                rpcapi.VolumeAPI().initialize_connection(
                    context, volume, connector
                )
            )
        except cinder_exc.CinderException as error:
            # the rest is where it was raised
            public = str(error).partition('\n')[0]
            raise cinder_exc.VolumeDriverException(message=public) from None
        except oslo_messaging.MessagingException as error:
            raise exception.DiskPlacerError(
                f'{volume.host} does not attach volume {volume.id}: {error}'
            ) from error
        return connection

    def _check_blank(
        self, volume: Any, wanted: binding.Wanted, disk: str
    ) -> None:
        """See that nothing is lost with the vdisk of a volume on a disk.

        What a server has written before it was active for the first time is
        on a volume that Nova made for it alone: nobody has seen that.
        """
        _, vdisk = self.binder.find(disk, wanted.name)
        server = wanted.server
        never_active = (
            server is not None
            and wanted.boot_time
            and vdisk.server_id == server.uuid
            and not server.launched
        )
        if not never_active and self.backend.written(disk, wanted.name):
            raise _refused(volume, f'it has content on disk {disk}')


def _target(context: Any, volume: Any, host: str) -> tuple[Any, str]:
    """Return the service and the Cinder host of the backend to hand over to.

    :raises BindingError: there is none that is up.
    """
    _, _, section = volume_utils.extract_host(volume.host).partition('@')
    pool = volume_utils.extract_host(volume.host, 'pool')
    backend = f'{host}@{section}'
    try:
        service = objects.Service.get_by_args(context, backend, _BINARY)
    except cinder_exc.ServiceNotFound:
        raise _refused(volume, f'there is no backend {backend}') from None
    if not service.is_up or service.disabled or service.frozen:
        raise _refused(volume, f'backend {backend} is down or disabled')
    if service.availability_zone != volume.availability_zone:
        raise _refused(volume, f'backend {backend} is of another zone')
    return service, volume_utils.append_host(backend, pool)


def _check_unused(context: Any, volume: Any) -> None:
    """See that a volume is reserved for one server, and nothing else.

    :raises BindingError: it is attached, or something depends on it.
    """
    attachments = [
        one
        for one in volume.volume_attachment
        if one.attach_status != 'detached'
    ]
    if [one.attach_status for one in attachments] != [_RESERVED]:
        raise _refused(volume, 'it is not reserved for one server alone')
    if volume.migration_status not in _SETTLED:
        raise _refused(volume, 'it is being migrated')
    if volume.group_id:
        raise _refused(volume, f'it is in group {volume.group_id}')
    if objects.SnapshotList.get_all_for_volume(context, volume.id):
        raise _refused(volume, 'it has snapshots')


def _refused(volume: Any, reason: str) -> binding.BindingError:
    return binding.BindingError(
        f'volume {volume.id} is on a local disk of {volume.host} and cannot '
        f'be attached elsewhere: {reason}',
        'the volume is on a local disk and can be attached only to servers on '
        'the same host; only one that was never written to, is attached '
        'nowhere, and has no snapshots and no group follows its server to '
        'another host, if that has such disks',
    )
