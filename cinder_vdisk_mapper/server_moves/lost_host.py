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
releases it first. A volume gets another name for its vdisk. So if that host
comes back, what is there is nobody's, and the audit finds it.
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
from cinder_vdisk_mapper.cinder_api.releases import db_api
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import lost_rules
from cinder_vdisk_mapper.server_moves import release
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer import nova_server

LOG = logging.getLogger(__name__)

# The status with which Cinder deletes a volume when it is asked to once more.
_DELETABLE = 'error'

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


def give_up(
    backends: collections.abc.Iterable[str], host: str, is_wanted: bool
) -> collections.abc.Iterator[Entry]:
    """Give up the data of the servers of a lost host; repeatable.

    Those of one server after the other, as the entries are taken: all of its
    volumes, or none.

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
    by_id = {volume.id: volume for volume in volumes}
    for entries in _decide(context, volumes, host, services):
        taken = [by_id[entry.volume] for entry in entries if not entry.reason]
        reasons = (
            _give_up(context, taken, host, services)
            if is_wanted and taken
            else {}
        )
        for entry in entries:
            yield dataclasses.replace(
                entry, reason=entry.reason or reasons.get(entry.volume, '')
            )


def _give_up(
    context: Any,
    volumes: collections.abc.Sequence[Any],
    host: str,
    services: _Services,
) -> dict[str, str]:
    """Give up the data of the volumes of one server, of all or none.

    :returns: why each volume stays, by its ID; empty if they are given up.
    :raises DiskPlacerError: as :func:`give_up`; none is given up then.
    """
    _check_lost(context, host)
    for volume in volumes:
        if staying := release.finish(volume.id):
            return _stay(
                volumes,
                volume.id,
                'its vdisk on the host that it has left, of '
                f'{staying.source}, is not released: start '
                'cinder-volume there, or remove its service if that host is '
                'lost as well, and repeat this',
            )
    # the host may have come back while the others released
    _check_lost(context, host)
    try:
        _take(context, volumes, services)
    except _Changed as error:
        return _stay(volumes, error.volume, str(error))
    return {}


def _stay(
    volumes: collections.abc.Iterable[Any], staying: str, reason: str
) -> dict[str, str]:
    """Return why each volume of a server stays, as one of them does.

    :param staying: ID of that one, which has a reason of its own.
    """
    kept = dict.fromkeys((one.id for one in volumes), _kept_by(staying))
    return kept | {staying: reason}


def _kept_by(volume: str) -> str:
    return f'volume {volume} of its server stays'


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
) -> collections.abc.Iterator[list[Entry]]:
    """Decide for the volumes of each server; they are given up, or all stay.

    A volume of no server, or of several, is on its own.
    """
    by_server = collections.defaultdict(list)
    for volume in volumes:
        servers = {entry.instance_uuid or '' for entry in attachments(volume)}
        if len(servers) > 1:
            reason = 'it is attached to several servers'
            yield [Entry(volume.id, '', reason)]
        elif servers:
            by_server[servers.pop()].append(volume)
        else:
            reason = lost_rules.why_volume_stays(
                _facts(volume, None, services[volume.id])
            )
            yield [Entry(volume.id, '', reason)]
    for uuid, of_server in sorted(by_server.items()):
        reasons = _why_stay(context, uuid, of_server, host, services)
        yield [
            Entry(volume.id, uuid, reasons[volume.id]) for volume in of_server
        ]


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
    of_server = lost_rules.why_server_stays(
        server,
        host,
        len(own),
        # or evacuated, which has failed on this host
        is_given_up=is_on_lost
        or not any(naming.location(volume) for volume in own),
    )
    reasons = {
        volume.id: of_server
        or lost_rules.why_volume_stays(
            _facts(volume, server, services[volume.id])
        )
        for volume in own
    }
    staying = [id_ for id_, reason in reasons.items() if reason]
    kept = _kept_by(staying[0]) if staying else ''
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
            return f'volume {volume.id} of its server {lost_rules.MOVES}'
        if (volume.host or '').partition('@')[0] == host:
            return f'volume {volume.id} of its server stays on {volume.host}'
    return ''


@errors.cinder_errors()
def _facts(
    volume: Any, server: nova_api.Server | None, service: Any
) -> lost_rules.Facts:
    return lost_rules.Facts(
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


class _Changed(Exception):
    """A volume is not as it was.

    :param volume: its ID.
    """

    def __init__(self, volume: str) -> None:
        super().__init__('it has changed meanwhile: repeat this')
        self.volume = volume


@errors.cinder_errors()
def _take(
    context: Any, volumes: collections.abc.Sequence[Any], services: _Services
) -> None:
    """Give volumes to backends of this host, bound to no disk; all or none.

    One transaction has them all, so that nothing interrupts it halfway.

    :param context: with which they were read.
    :raises _Changed: one is not as it was.
    """
    before = [
        (volume.id, volume.provider_location, volume.host)
        for volume in volumes
    ]
    with db_api.main_context_manager.writer.using(context):
        for volume in volumes:
            if not _take_one(volume, services[volume.id]):
                raise _Changed(volume.id)
    for id_, location, from_ in before:
        LOG.warning(
            'The data of volume %s on disk %s of %s is given up: it is a '
            'blank volume of %s now',
            id_,
            location,
            from_,
            services[id_].host,
        )


def _take_one(volume: Any, service: Any) -> bool:
    """Give a volume to a backend; returns False if it is not as it was."""
    status = volume.status
    pool = volume_utils.extract_host(volume.host, 'pool')
    return bool(
        volume.conditional_update(
            {
                'host': volume_utils.append_host(service.host, pool),
                'service_uuid': service.uuid,
                'provider_auth': None,
                # the vdisk on the lost host has the former name
                '_name_id': str(uuid_.uuid4()),
                'status': status
                if status in lost_rules.ATTACHED
                else _DELETABLE,
                **naming.bound_to(None),
            },
            {
                'host': volume.host,
                'provider_location': volume.provider_location,
                'status': status,
            },
        )
    )
