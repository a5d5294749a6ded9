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

"""Hands volumes without content over to the host of their server.

A server may be on another host than its volumes: Nova has built it on the next
host after the first one failed, or cinder-scheduler put volumes on any host
before the server existed. Or Nova evacuates it, and an administrator has given
up the data of its volumes, see :mod:`server_moves.lost_host`. The backend of
the same name on the server's host takes over a volume without content and
binds it there.
"""

from typing import Any

import oslo_messaging
from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import rpcapi
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

# Task of a server while Nova attaches its volumes to the host that it is
# evacuated to.
_EVACUATED = 'rebuild_block_device_mapping'

#: Task of a server that is unshelved, when its volumes are attached.
UNSHELVED = 'spawning'


def hand_over(
    operations: Operations,
    context: Any,
    volume: Volume,
    request: BindRequest,
    host: str,
) -> None:
    """Give a volume without content to the backend of its server's host.

    At each moment the volume is bound here, or unbound here, or unbound
    there, so that a repetition after a crash continues from there.

    :param request: to bind the volume for the server.
    :param host: the host that attaches the volume.
    :raises BindingError: the volume has content or is in use, or there is
        no such backend on that host.
    :raises DiskError: its disk is not there, or the operation fails.
    """
    server = request.server
    if server is None or (
        server.host != host
        and not _is_unshelved(operations, server)
        and not _is_evacuated(context, server, host)
    ):
        raise _refused(volume, f'no server on host {host!r} attaches it')
    service, target = find_target(context, volume, host)
    with locks.hold(f'volume-{volume.id}'):
        volume.refresh()
        _check_unused(context, volume)
        linking.follow_link(operations.backend, volume)
        location = naming.location(volume)
        # a killed attempt may have left a vdisk of an unbound volume
        holding = operations.backend.disks_holding(request.name)
        for disk in location.disks or holding:
            _check_blank(operations.backend, volume, request, disk)
        if location:
            volume.provider_location = volume.provider_id = None
            volume.save()
        operations.delete_everywhere(location, request.name)
        before = volume.host
        volume.host = target
        volume.service_uuid = service.uuid
        volume.save()
    LOG.info(
        'Volume %s of %s GiB is handed over from %s (disk %s) to %s for '
        'server %s',
        volume.id,
        request.size_gb,
        before,
        location or 'none',
        target,
        server.uuid,
    )


def connect_by_new_backend(
    volume: Volume, connector: Connector
) -> dict[str, Any]:
    """Return the connection to a volume that was handed over.

    The backend that has the volume now binds and connects it.

    :raises VolumeDriverException: that backend rejects it, with its
        reason.
    :raises BindingError: the volume is no longer about to be attached.
    :raises DiskPlacerError: that backend does not answer.
    """
    context = cinder_context.get_admin_context()
    # deleting the vdisk may have taken long
    volume.refresh()
    _check_unused(context, volume)
    try:
        connection: dict[str, Any] = rpcapi.VolumeAPI().initialize_connection(
            context, volume, connector
        )
    except cinder_exc.CinderException as error:
        # the other lines are the traceback of that host
        public = str(error).partition('\n')[0]
        raise cinder_exc.VolumeDriverException(message=public) from None
    except oslo_messaging.MessagingException as error:
        raise exception.DiskPlacerError(
            f'{volume.host} does not attach volume {volume.id}: {error}'
        ) from error
    return connection


def claims_elsewhere(operations: Operations, server: nova_api.Server) -> bool:
    """Return whether a server claims disks of another backend or host.

    :raises DiskPlacerError: Placement or a disk does not answer.
    """
    here = {disk.uuid for disk in operations.backend.disks()}
    claims = operations.placement.allocations(server.uuid).resources
    return any(
        placement_client.GB in resources and provider not in here
        for provider, resources in claims.items()
    )


def _is_unshelved(operations: Operations, server: nova_api.Server) -> bool:
    """Return whether Nova unshelves a server on another host.

    It has no host until its volumes are attached.
    """
    return (
        server.host is None
        and server.task == UNSHELVED
        and claims_elsewhere(operations, server)
    )


def _is_evacuated(context: Any, server: nova_api.Server, host: str) -> bool:
    """Return whether Nova evacuates a server to a host.

    Until it has, the server is on the host that it was on.
    """
    return (
        server.task == _EVACUATED
        and nova_api.evacuated_to(context, server.uuid) == host
    )


def is_blank(backend: base.Backend, request: BindRequest, disk: str) -> bool:
    """Return whether the vdisk of a volume has no content to be kept.

    Content that a server wrote at its boot to a volume that Nova made for
    it does not count if the server was never active.

    :raises DiskError: the disk is not there.
    """
    _, vdisk = backend.find_vdisk(disk, request.name)
    server = request.server
    never_active = (
        server is not None
        and request.boot_time
        and vdisk.server_id == server.uuid
        and not server.launched
    )
    return never_active or not backend.written(disk, request.name)


def _check_blank(
    backend: base.Backend, volume: Volume, request: BindRequest, disk: str
) -> None:
    """Check that the vdisk of a volume has no content that would be lost.

    :raises BindingError: it may have content.
    """
    if not is_blank(backend, request, disk):
        raise _refused(volume, f'it has content on disk {disk}')


def find_target(context: Any, volume: Volume, host: str) -> tuple[Any, str]:
    """Return the service and the Cinder host of the backend to hand over to.

    :raises BindingError: there is none that is up.
    """
    _, _, section = volume_utils.extract_host(volume.host).partition('@')
    pool = volume_utils.extract_host(volume.host, 'pool')
    backend = f'{host}@{section}'
    try:
        service = objects.Service.get_by_args(
            context, backend, 'cinder-volume'
        )
    except cinder_exc.ServiceNotFound:
        raise _refused(volume, f'there is no backend {backend}') from None
    if not service.is_up or service.disabled or service.frozen:
        raise _refused(volume, f'backend {backend} is down or disabled')
    if service.availability_zone != volume.availability_zone:
        raise _refused(
            volume, f'backend {backend} is in another availability zone'
        )
    return service, volume_utils.append_host(backend, pool)


def _check_unused(context: Any, volume: Volume) -> None:
    """Check that a volume is reserved for one server and not used otherwise.

    :raises BindingError: it is attached, or something depends on it.
    """
    attached = attachments(volume)
    # an attachment that was cut short may have left another reservation
    servers = {attachment.instance_uuid for attachment in attached}
    if {attachment.attach_status for attachment in attached} != {
        'reserved'
    } or (len(servers) != 1 or None in servers):
        raise _refused(volume, 'it is not reserved for one server alone')
    if is_migrating(volume.migration_status):
        raise _refused(volume, 'it is being migrated')
    if volume.group_id:
        raise _refused(volume, f'it is in group {volume.group_id}')
    if objects.SnapshotList.get_all_for_volume(context, volume.id):
        raise _refused(volume, 'it has snapshots')


def _refused(volume: Volume, reason: str) -> errors.BindingError:
    return errors.BindingError(
        f'volume {volume.id} is on a local disk of {volume.host} and cannot '
        f'be attached elsewhere: {reason}',
        'the volume is on a local disk and can be attached only to servers on '
        'the same host; unless Nova moves its server, a volume follows it to '
        'another host with such disks only if it was never written to, is not '
        'attached, and has no snapshots and no group',
    )
