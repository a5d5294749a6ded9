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


"""Gives up the data of servers whose host is lost for good.

An administrator says so in two places: the host is fenced, which Nova is told,
and its cinder-volume is down. Then the volumes of the servers whose flavors
allow it become volumes of this host that are bound to no disk. Nova's
evacuation of a server attaches them, blank, wherever it claims disks.

Volumes that are being deleted go the same way: nobody else could delete them.

Nothing on the lost host is changed, and it is not asked. A volume that has
moved there may still have its vdisk on the host that it has left, which
releases it first. A volume gets another
name for its vdisk. So if that host comes back, what is there is nobody's, and
the audit finds it.
"""

import collections
import collections.abc
import dataclasses
import uuid as uuid_
from typing import Any

from cinder import context as cinder_context
from cinder import objects
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import release
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import nova_server

LOG = logging.getLogger(__name__)

_IN_USE = 'in-use'

# Statuses of a volume that waits for the lost host to delete it, and the one
# with which Cinder deletes it when it is asked to once more.
_DELETING = ('deleting', 'error_deleting')
_DELETABLE = 'error'

# Statuses of servers that Nova evacuates.
_EVACUABLE = ('ACTIVE', 'ERROR', 'SHUTOFF')

_MOVES = 'moves, or has moved, and its data has not settled'


# The service that takes each volume, by the ID of the volume.
_Services = collections.abc.Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A volume of a lost host.

    :param server: UUID of its server, '' for none or several.
    :param reason: why it stays, '' if it is given up.
    """

    volume: str
    server: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Facts(checks.VolumeFacts):
    """The facts that decide if the data of a volume is given up.

    :param has_server: whether a server has it attached.
    :param of_flavor: whether it is one of the vdisks of its server's flavor.
    :param moves: whether its server moves, and its data has not arrived.
    """

    status: str
    has_server: bool
    of_flavor: bool
    moves: bool
    in_other_zone: bool


def why_server_stays(
    server: nova_api.Server | None,
    host: str,
    volumes: int,
    *,
    is_given_up: bool = False,
) -> str:
    """Return why a server does not come back without its data, '' if it may.

    :param host: that is lost.
    :param volumes: number of its volumes there.
    :param is_given_up: whether their data was given up before, so that the
        server is on another lost host.
    """
    if server is None:
        return 'Nova does not know its server'
    if server.host != host and not is_given_up:
        return f'its server is on host {server.host or "none"}'
    request = server.request
    if request is None or request.on_host_loss != flavor.BLANK:
        return (
            'the flavor of its server has no '
            f'{flavor.NAMESPACE}{flavor.ON_HOST_LOSS}={flavor.BLANK}'
        )
    if server.task:
        return f'its server has a task of Nova: {server.task}'
    if server.status not in _EVACUABLE:
        return (
            f'its server is {server.status}, and Nova evacuates none that is '
            f'not {" or ".join(_EVACUABLE)}'
        )
    if volumes > request.vdisks:
        return (
            f'its server has {volumes} vdisks, and its flavor claims '
            f'{request.vdisks} elsewhere'
        )
    return ''


def why_volume_stays(facts: Facts) -> str:
    """Return why the data of a volume is not given up, '' if it may be."""
    if facts.moves:
        return f'its server {_MOVES}'
    if not facts.has_server:
        if facts.status not in _DELETING:
            return 'it is attached to no server: delete it, and repeat this'
    elif facts.status != _IN_USE:
        return f'it is {facts.status}'
    elif not facts.of_flavor:
        return 'it is none of the vdisks of the flavor of its server'
    if reason := facts.why_it_stays():
        return reason
    if facts.in_other_zone:
        return 'this host is in another availability zone'
    return ''


def give_up(
    backends: collections.abc.Iterable[str], host: str, is_wanted: bool
) -> collections.abc.Iterator[Entry]:
    """Give up the data of the servers of a lost host; repeatable.

    Those of one volume after the other, as the entries are taken.

    :param backends: Cinder hosts of the backends of this host, which take the
        volumes of those of the same sections.
    :param host: that is lost.
    :param is_wanted: False to change nothing.
    :returns: the volumes that are on the lost host, or were until now; those
        before an error are what they say.
    :raises DiskPlacerError: the host is not known to be lost, or a service
        does not answer.
    """
    context = cinder_context.get_admin_context()
    _check_lost(context, host)
    volumes: list[Any] = []
    services: dict[str, Any] = {}
    for here in sorted(backends):
        section = here.partition('@')[2]
        with errors.cinder_errors():
            service = objects.Service.get_by_args(
                context, here, 'cinder-volume'
            )
            of_backend = objects.VolumeList.get_all_by_host(
                context, f'{host}@{section}'
            )
        if not service.is_up:
            raise exception.DiskPlacerError(
                f'cinder-volume of {here} is down, and could not attach what '
                'it is given: start it first'
            )
        volumes.extend(of_backend)
        services |= {volume.id: service for volume in of_backend}
    for entry, volume in _decide(context, volumes, host, services):
        if is_wanted and not entry.reason:
            # it may have come back meanwhile
            _check_lost(context, host)
            move = store.read(volume.id)
            if not release.finish(volume.id):
                entry = dataclasses.replace(
                    entry,
                    reason='its vdisk on the host that it has left, of '
                    f'{move and move.source}, is not released: start '
                    'cinder-volume there, or remove its service if that host '
                    'is lost as well, and repeat this',
                )
            elif not _take(volume, services[volume.id]):
                entry = dataclasses.replace(
                    entry, reason='it has changed meanwhile: repeat this'
                )
        yield entry


def _check_lost(context: Any, host: str) -> None:
    """Check that a host is fenced, and that its cinder-volume is silent.

    That of any backend: each is a process of its own, and one may have failed.

    :raises DiskPlacerError: it is not so.
    """
    reason = nova_api.why_not_lost(context, host)
    if reason:
        raise exception.DiskPlacerError(reason)
    with errors.cinder_errors():
        services = objects.ServiceList.get_all(
            context, {'host': host, 'binary': 'cinder-volume'}
        )
    for service in services:
        if service.is_up:
            raise exception.DiskPlacerError(
                f'cinder-volume of {service.host} is up: its host is not lost'
            )


def _decide(
    context: Any,
    volumes: collections.abc.Iterable[Any],
    host: str,
    services: _Services,
) -> collections.abc.Iterator[tuple[Entry, Any]]:
    """Decide for each volume; those of a server are given up, or all stay."""
    by_server = collections.defaultdict(list)
    for volume in volumes:
        servers = {entry.instance_uuid or '' for entry in attachments(volume)}
        if len(servers) > 1:
            reason = 'it is attached to several servers'
            yield Entry(volume.id, '', reason), volume
        elif servers:
            by_server[servers.pop()].append(volume)
        else:
            reason = why_volume_stays(
                _facts(volume, None, services[volume.id])
            )
            yield Entry(volume.id, '', reason), volume
    for uuid, of_server in sorted(by_server.items()):
        reasons = _why_stay(context, uuid, of_server, host, services)
        for volume in of_server:
            yield Entry(volume.id, uuid, reasons[volume.id]), volume


def _why_stay(
    context: Any,
    uuid: str,
    volumes: collections.abc.Sequence[Any],
    host: str,
    services: _Services,
) -> dict[str, str]:
    """Return why each volume of a server stays, by its ID; all do, or none.

    Any user can make an attachment of an own volume with the UUID of any
    server. So volumes of other projects neither go with it nor keep it.
    """
    try:
        server = nova_api.get(context, uuid)
        at = server.host if server else None
        is_on_lost = at is not None and not nova_api.why_not_lost(context, at)
    except nova_server.NovaError as error:
        return dict.fromkeys((volume.id for volume in volumes), str(error))
    own = [
        volume
        for volume in volumes
        if server is None or volume.project_id == server.project_id
    ]
    of_server = why_server_stays(
        server,
        host,
        len(own),
        # or evacuated, which has failed on this host
        is_given_up=is_on_lost
        or not any(naming.location(volume) for volume in own),
    )
    reasons = {
        volume.id: of_server
        or why_volume_stays(_facts(volume, server, services[volume.id]))
        for volume in own
    }
    staying = [id_ for id_, reason in reasons.items() if reason]
    kept = f'volume {staying[0]} of its server stays' if staying else ''
    if server is not None and own and not kept:
        kept = _kept_by_others(context, server, host, reasons)
    return {
        volume.id: (reasons[volume.id] or kept)
        if volume.id in reasons
        else 'its server is of another project'
        for volume in volumes
    }


@errors.cinder_errors()
def _kept_by_others(
    context: Any,
    server: nova_api.Server,
    host: str,
    volumes: collections.abc.Container[str],
) -> str:
    """Return why a server cannot come back, '' if it can.

    Without all of its volumes that are on the lost host, or whose data is
    elsewhere, it stays.

    :param volumes: IDs of those that may be given up.
    """
    for entry in objects.VolumeAttachmentList.get_all_by_instance_uuid(
        context, server.uuid
    ):
        volume = entry.volume
        if volume.id in volumes or volume.project_id != server.project_id:
            continue
        if store.read(volume.id) is not None:
            return f'volume {volume.id} of its server {_MOVES}'
        if (volume.host or '').partition('@')[0] == host:
            return f'volume {volume.id} of its server stays on {volume.host}'
    return ''


@errors.cinder_errors()
def _facts(volume: Any, server: nova_api.Server | None, service: Any) -> Facts:
    return Facts(
        status=volume.status,
        has_server=server is not None,
        of_flavor=bind_request.is_of_flavor(server, volume),
        moves=_moves(volume),
        in_other_zone=volume.availability_zone != service.availability_zone,
        **dataclasses.asdict(checks.read_volume_facts(volume)),
    )


def _moves(volume: Any) -> bool:
    """Return whether the host that has a volume is not the one it moves to.

    The data of one that has arrived is lost with its host, as any other.
    """
    recorded = store.read(volume.id)
    return recorded is not None and recorded.to != store.holder(volume)


@errors.cinder_errors()
def _take(volume: Any, service: Any) -> bool:
    """Give a volume to a backend of this host, bound to no disk.

    :param service: cinder-volume of the backend.
    :returns: False if it is not as it was.
    """
    before, location = volume.host, volume.provider_location
    status = volume.status
    pool = volume_utils.extract_host(before, 'pool')
    is_taken = volume.conditional_update(
        {
            'host': volume_utils.append_host(service.host, pool),
            'service_uuid': service.uuid,
            'provider_auth': None,
            # the vdisk on the lost host has the former name
            '_name_id': str(uuid_.uuid4()),
            'status': _IN_USE if status == _IN_USE else _DELETABLE,
            **naming.bound_to(None),
        },
        {'host': before, 'provider_location': location, 'status': status},
    )
    if is_taken:
        LOG.warning(
            'The data of volume %s on disk %s of %s is given up: it is a '
            'blank volume of %s now',
            volume.id,
            location,
            before,
            volume.host,
        )
    return bool(is_taken)
