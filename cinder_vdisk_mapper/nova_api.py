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

"""Reads servers from Nova's API with the service's own account."""

import collections.abc
import contextlib
import dataclasses
import functools
from typing import Any
from typing import TypeVar

from cinder.compute import nova
from keystoneauth1 import exceptions as ks_exc
from novaclient import exceptions as nova_exc
from oslo_log import log as logging
from oslo_utils import uuidutils
from requests import exceptions as requests_exc

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import http_retries
from nova_diskplacer import nova_server
from nova_diskplacer.profiles import configured

LOG = logging.getLogger(__name__)

T = TypeVar('T')

# The first microversion that shows the UUIDs of migrations.
_MIGRATIONS = '2.59'

# Type of the migration of a server that is evacuated, and its status from the
# claim on the new host until the end.
_EVACUATION = 'evacuation'
_EVACUATED = 'pre-migrating'

_COMPUTE = 'nova-compute'

# Makes novaclient list all servers, one page per request.
_ALL = -1

# Statuses of servers whose claims do not change.
_SETTLED = frozenset(
    ('ACTIVE', 'ERROR', 'PAUSED', 'RESCUE', 'SHUTOFF', 'SUSPENDED')
)
_TASK = 'OS-EXT-STS:task_state'
_HOST = 'OS-EXT-SRV-ATTR:host'
_RESERVATION = 'OS-EXT-SRV-ATTR:reservation_id'

# Task of a server whose new volumes nova-compute creates.
_MAPPING = 'block_device_mapping'

# Number of such servers of a project that are looked at.
_MOST = 100

# Seconds that Nova may take to answer.
_TIMEOUT = 30


@dataclasses.dataclass(frozen=True)
class Server:
    """A server and its vdisks; ``host`` is None while it has none.

    ``request`` holds the vdisks of its flavor, None if it has none.
    ``launched`` is True if it has been active before. ``task`` is what Nova
    does with it, None for nothing; ``status`` is the API's.
    """

    uuid: str
    project_id: str
    host: str | None
    request: flavor.VDiskRequest | None
    launched: bool = True
    task: str | None = None
    status: str = ''

    @property
    def is_at_rest(self) -> bool:
        """True if Nova has no task for it and no move to confirm or revert."""
        return self.status in _SETTLED and not self.task


def get(context: Any, uuid: str) -> Server | None:
    """Return a server, None if there is none.

    :param uuid: may be anything that a user has written: what is no UUID is
        no server. It becomes a part of a path, for an account that sees more
        than the user.
    :raises NovaError: Nova does not answer, or the extra specs of the flavor
        are missing or invalid.
    """
    if not uuidutils.is_uuid_like(uuid):
        return None
    with _as_nova_error(f'server {uuid}'):
        try:
            server = _ask(
                context,
                nova_server.MICROVERSION,
                lambda client: client.servers.get(uuid),
            )
        except nova_exc.NotFound:
            return None
    return parse(server.to_dict())


def evacuated_to(context: Any, uuid: str) -> str | None:
    """Return the host that a server is being evacuated to, None for none.

    Nova names the host in its migration before it attaches the volumes there;
    the server gets it at the end.

    :param uuid: of a server of Nova.
    :raises NovaError: Nova does not answer.
    """
    with _as_nova_error(f'evacuations of server {uuid}'):
        migrations = _ask(
            context,
            _MIGRATIONS,
            lambda client: client.migrations.list(
                instance_uuid=uuid,
                migration_type=_EVACUATION,
                status=_EVACUATED,
            ),
        )
    # a user's rebuild has no migration, and each ID is larger than before
    last = max(migrations, key=lambda row: row.id, default=None)
    return last.dest_compute if last else None


def why_not_lost(context: Any, host: str) -> str:
    """Return why Nova's host must not be taken for lost, '' if it is lost.

    :raises NovaError: Nova does not answer.
    """
    services = _services(context)
    for service in services:
        if service.host == host and service.binary == _COMPUTE:
            return nova_server.why_not_lost(
                host,
                service.forced_down,
                service.updated_at,
                (one.updated_at for one in services),
            )
    return f'Nova knows no nova-compute of host {host}'


def has_compute(context: Any, hosts: collections.abc.Container[str]) -> bool:
    """Return whether Nova knows a nova-compute of one of some hosts.

    Cinder may have names of its own for its hosts.

    :raises NovaError: Nova does not answer.
    """
    return any(
        service.host in hosts and service.binary == _COMPUTE
        for service in _services(context)
    )


def _services(context: Any) -> list[Any]:
    with _as_nova_error('services'):
        return list(
            _ask(
                context,
                nova_server.MICROVERSION,
                lambda client: client.services.list(),
            )
        )


def hosts_of_request(context: Any, request_id: str) -> set[str]:
    """Return the hosts of the servers that a request to Nova has created.

    Only servers of the context's project count, while nova-compute creates
    their volumes. The ID is compared with those that Nova tells of them and
    becomes no part of a query: users may have written it.

    :raises NovaError: Nova does not answer.
    """
    with _as_nova_error(f'the servers of request {request_id}'):
        return _ask(
            context,
            nova_server.MICROVERSION,
            lambda client: _created_by(client, context, request_id),
        )


def _created_by(client: Any, context: Any, request_id: str) -> set[str]:
    rows = [
        server.to_dict()
        for server in client.servers.list(
            search_opts={
                'all_tenants': 1,
                'project_id': context.project_id,
                'task_state': _MAPPING,
            },
            limit=_MOST,
            # most likely the one that was last to begin
            sort_keys=['updated_at'],
            sort_dirs=['desc'],
        )
    ]
    rows = [row for row in rows if row['tenant_id'] == context.project_id]
    for row in rows:
        actions = client.instance_action.list(row['id'])
        if any(action.request_id == request_id for action in actions):
            # all servers of a request are in one reservation
            return {
                server[_HOST]
                for server in rows
                if server.get(_RESERVATION) == row.get(_RESERVATION)
                and server.get(_HOST)
            }
    return set()


def of_hosts(
    context: Any, hosts: collections.abc.Iterable[str]
) -> dict[str, Server | None]:
    """Return the servers of some hosts by their UUIDs.

    The value is None for a server that is being built or moved, whose claims
    may change, and for one with an invalid flavor.

    :raises NovaError: Nova does not answer.
    """
    servers = {}
    with _as_nova_error('servers'):
        rows = [
            server.to_dict()
            for host in sorted(hosts)
            for server in _ask(
                context,
                nova_server.MICROVERSION,
                functools.partial(_servers_of, host=host),
            )
        ]
    for row in rows:
        try:
            servers[row['id']] = parse(row) if _is_settled(row) else None
        except nova_server.NovaError as error:
            LOG.warning('A server is not compared with its claims: %s', error)
            servers[row['id']] = None
    return servers


def consumers(
    context: Any, hosts: collections.abc.Iterable[str]
) -> tuple[
    dict[str, tuple[str, str | None]],
    dict[str, tuple[str, str]],
    dict[str, str],
]:
    """Return who may have claims: all servers, and migrations of some hosts.

    Servers are read last: their tasks are not older than the migrations.

    :returns: the status and the task of each server, the server and the
        status of each migration, and the hosts of servers that have one, by
        UUIDs.
    :raises NovaError: Nova does not answer.
    """
    names = sorted(hosts)
    with _as_nova_error('servers and migrations'):
        by_uuid, rows = _ask(
            context, _MIGRATIONS, lambda client: _list(client, names)
        )
    migrations = {
        uuid: (migration.instance_uuid, migration.status)
        for uuid, migration in by_uuid.items()
    }
    servers = {
        uuid: (row.get('status', ''), row.get(_TASK))
        for uuid, row in rows.items()
    }
    places = {uuid: row[_HOST] for uuid, row in rows.items() if row.get(_HOST)}
    return servers, migrations, places


def _is_settled(row: dict[str, Any]) -> bool:
    return row.get('status') in _SETTLED and not row.get(_TASK)


def _servers_of(client: Any, host: str) -> Any:
    return client.servers.list(
        search_opts={'all_tenants': 1, 'host': host}, limit=_ALL
    )


def _list(
    client: Any, hosts: list[str]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the migrations of hosts and then all servers, by UUID."""
    migrations = {}
    for host in hosts:
        marker = None
        while page := client.migrations.list(host=host, marker=marker):
            migrations.update({row.uuid: row for row in page})
            marker = page[-1].uuid
    servers = {
        row.id: row.to_dict()
        for row in client.servers.list(
            # soft-deleted servers keep their claims
            search_opts={'all_tenants': 1, 'soft_deleted': 1},
            limit=_ALL,
        )
    }
    return migrations, servers


def _ask(
    context: Any,
    microversion: str,
    request: collections.abc.Callable[[Any], T],
) -> T:
    """Return Nova's answer; requests are repeated while it is away.

    :param request: reads only; called with a client.
    """

    def ask(left: float) -> T:
        return request(
            nova.novaclient(
                context,
                privileged_user=True,
                timeout=left,
                api_version=microversion,
            )
        )

    return http_retries.repeat(ask, _TIMEOUT)


@contextlib.contextmanager
def _as_nova_error(subject: str) -> collections.abc.Iterator[None]:
    """Raise NovaError in place of the errors of Nova's client."""
    try:
        yield
    except (
        ks_exc.ClientException,
        nova_exc.ClientException,
        requests_exc.RequestException,
    ) as error:
        raise nova_server.NovaError(
            f'Nova does not answer about {subject} ({error}); see [nova] in '
            'cinder.conf'
        ) from error


def parse(fields: dict[str, Any]) -> Server:
    """Parse a server of Nova's API.

    :raises NovaError: a field is missing, or the flavor is invalid.
    """
    with nova_server.checked('[nova] of cinder.conf'):
        server = nova_server.parse(fields)
        host = fields[_HOST] or None
        launched = fields['OS-SRV-USG:launched_at'] is not None
        task = fields.get(_TASK)
    try:
        request = configured.parse(server.extra_specs)
    except (ValueError, exception.ProfileError) as error:
        raise nova_server.NovaError(
            f'the flavor of server {server.uuid}: {error}'
        ) from error
    return Server(
        server.uuid,
        server.project_id,
        host,
        request,
        launched,
        task,
        fields.get('status', ''),
    )
