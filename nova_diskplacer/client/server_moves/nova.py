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

"""Requests to Nova while servers leave a host.

No request names the host where a server goes: the scheduler chooses it.
"""

import collections.abc
import contextlib
import http
import operator
import typing

from openstack import exceptions as sdk_exc

from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client.server_moves import facts

# The first microversion without forced live migrations.
_MOVES = '2.68'

# The first microversion that tells why an action failed.
_ACTIONS = '2.84'

_BODIES: dict[str, dict[str, typing.Any]] = {
    facts.LIVE: {'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
    facts.COLD: {'migrate': None},
}

# Actions of Nova after which a server waits for a confirmation.
_TO_CONFIRM = ('migrate', 'resize')

# nova-compute itself enables a service with such a reason again.
_AUTOMATIC = 'AUTO: '

# The host aggregate of a run that brings servers of a host back.
_HOLD = 'vdisk-host-lost:'

# Characters of a reason that Nova keeps.
_LONGEST = 255

_ENABLE = 'openstack compute service set --enable {} nova-compute'
_REASON = 'emptied by "openstack vdisk host empty"; enable it again by: '


# Statuses of answers that are the same when it is asked again.
_REFUSALS = (
    http.HTTPStatus.BAD_REQUEST,
    http.HTTPStatus.FORBIDDEN,
    http.HTTPStatus.NOT_FOUND,
)


class Busy(exception.DiskPlacerError):
    """Nova does not move a server in the state that it is in now."""


class Refused(exception.DiskPlacerError):
    """Nova does not move a server at all."""


class NotLost(exception.DiskPlacerError):
    """A host is not known to be lost."""


class Held(exception.DiskPlacerError):
    """Another run brings servers of the host back."""


class Nova:
    """Nova's API, for the servers of one host.

    All methods raise DiskPlacerError if Nova does not answer or refuses.

    :param name: of the host, with or without its domain.
    """

    def __init__(self, connection: cloud.Connection, name: str) -> None:
        self._connection = connection
        self._compute = connection.compute
        self._service = _find(cloud.read_compute_services(connection), name)
        self.host: str = self._service['host']

    def check_is_up(self) -> None:
        """Check that nova-compute is up.

        :raises DiskPlacerError: it is down, so that no server can leave.
        """
        if self._service['state'] != 'up':
            raise exception.DiskPlacerError(
                f'nova-compute of host {self.host} is down, and no server '
                'moves away from it: start it first'
            )

    def check_is_lost(self) -> None:
        """Check that an administrator says now that the host is fenced.

        :raises NotLost: it is not so, or the host may be alive.
        """
        services = cloud.read_services(self._connection)
        service = _find(services, self.host)
        reason = nova_server.why_not_lost(
            self.host,
            service['is_forced_down'],
            service['updated_at'],
            (one['updated_at'] for one in services),
        )
        if reason:
            raise NotLost(reason)

    @contextlib.contextmanager
    def held(
        self, tell: collections.abc.Callable[[str], None]
    ) -> collections.abc.Iterator[None]:
        """Keep other runs from bringing servers of the host back.

        A host aggregate without hosts says so: Nova has one of a name at most.
        Of a server's own fields, none can be changed on a condition.

        :param tell: shows a line to the operator.
        :raises Held: another run is at work, or was killed.
        :raises DiskPlacerError: Nova does not create the aggregate.
        """
        name = _HOLD + self.host
        delete = f'openstack aggregate delete {name}'
        hold = None
        try:
            hold = self._create_hold(name, delete)
            yield
        finally:
            if hold is not None:
                try:
                    with cloud.convert_errors(f'host aggregate {name}'):
                        self._compute.delete_aggregate(hold)
                except exception.DiskPlacerError as error:
                    tell(f'{error}; {delete}')

    def _create_hold(self, name: str, delete: str) -> typing.Any:
        """Create the host aggregate of a run.

        :param delete: the command that deletes it.
        :raises DiskPlacerError: as :meth:`held`.
        """
        try:
            with cloud.convert_errors(f'host aggregate {name}'):
                try:
                    return self._compute.create_aggregate(name=name)
                except sdk_exc.ConflictException as error:
                    raise Held(
                        f'another run brings servers of {self.host} back, as '
                        f'Nova has the host aggregate {name} ("openstack '
                        'aggregate show" tells since when): let it end; if it '
                        f'was killed, {delete}'
                    ) from error
        except Held:
            raise
        except exception.DiskPlacerError as error:
            raise exception.DiskPlacerError(
                f'{error}; if Nova has made it nevertheless, {delete}'
            ) from error

    @property
    def enable_command(self) -> str:
        """The command that lets the host take servers again."""
        return _ENABLE.format(self.host)

    def disable(self) -> str:
        """Keep new servers away from the host.

        A host that an operator has disabled keeps that operator's reason.

        :returns: what the service is now, for people.
        """
        reason = self._service['disabled_reason'] or ''
        is_disabled = self._service['status'] == 'disabled'
        if not is_disabled or reason.startswith(_AUTOMATIC):
            with cloud.convert_errors(f'nova-compute of {self.host}'):
                # by its ID: the SDK leaves out what a service is already
                self._compute.disable_service(
                    self._service['id'],
                    self.host,
                    'nova-compute',
                    (_REASON + self.enable_command)[:_LONGEST],
                )
            return 'is disabled now'
        if reason.startswith(_REASON):
            return 'was disabled by this command before'
        return 'was disabled before' + (f': {reason}' if reason else '')

    def servers(self) -> list[cloud.Item]:
        """Return the servers on the host, soft-deleted ones included."""
        with cloud.convert_errors(f'servers of {self.host}'):
            return list(
                self._compute.servers(
                    details=True,
                    all_projects=True,
                    compute_host=self.host,
                    is_soft_deleted=True,
                )
            )

    def server(self, id_: str) -> cloud.Item | None:
        """Return a server, None if it is deleted."""
        with cloud.convert_errors(f'server {id_}'):
            try:
                server: cloud.Item = self._compute.get_server(id_)
            except sdk_exc.NotFoundException:
                return None
        return server

    def move(self, id_: str, kind: str) -> str:
        """Move a server to a host that the scheduler chooses.

        :returns: the ID of the request, which Nova's action has.
        :raises Busy: something else is done with the server.
        :raises Refused: it does not move.
        """
        return self._act(id_, _BODIES[kind])

    def evacuate(self, id_: str) -> str:
        """Rebuild a server of a lost host on one that the scheduler chooses.

        :returns: the ID of the request, which Nova's action has.
        :raises Busy: something else is done with the server.
        """
        return self._act(id_, {'evacuate': {}})

    def confirm(self, id_: str) -> None:
        """Confirm a cold migration.

        :raises Busy: it is confirmed or reverted already.
        """
        self._act(id_, {'confirmResize': None})

    def is_last(self, id_: str, request_id: str) -> bool:
        """Return whether a migration was a server's last one to confirm."""
        for action in self._actions(id_):
            if action['action'] in _TO_CONFIRM:
                return bool(action['request_id'] == request_id)
        return False

    def failure(self, id_: str, request_id: str) -> str | None:
        """Return why an action failed, empty if Nova does not tell.

        :returns: None if it has not ended: Nova first ends the server's task.
        """
        url = f'/servers/{id_}/os-instance-actions/{request_id}'
        body = self._get(url)
        events = body['instanceAction']['events'] if body else ()
        texts = [
            event.get('details') or event['event']
            for event in events
            if event['result'] == 'Error'
        ]
        if not texts and any(event['result'] is None for event in events):
            return None
        return texts[0] if texts else ''

    def was_aborted(self, id_: str) -> bool:
        """Return whether the last migration of a server was aborted."""
        with cloud.convert_errors(f'migrations of server {id_}'):
            migrations = list(self._compute.migrations(server_id=id_))
        # each ID is larger than those before
        last = max(migrations, key=operator.itemgetter('id'), default=None)
        return last is not None and last['status'] == 'cancelled'

    def unconfirmed(self) -> list[cloud.Item]:
        """Return the servers that have left, and may still come back.

        They wait for a confirmation of their resize or cold migration.
        """
        with cloud.convert_errors(f'migrations from {self.host}'):
            ids = {
                migration['server_id']
                for migration in self._compute.migrations(
                    source_compute=self.host, status='finished'
                )
            }
        servers = [self.server(id_) for id_ in sorted(ids)]
        return [
            server
            for server in servers
            if server is not None
            and server['vm_state'] == facts.RESIZED
            and server['compute_host'] != self.host
        ]

    def _act(self, id_: str, body: dict[str, typing.Any]) -> str:
        with cloud.convert_errors(f'server {id_}'):
            response = self._compute.post(
                f'/servers/{id_}/action', json=body, microversion=_MOVES
            )
            try:
                sdk_exc.raise_from_response(response)
            except sdk_exc.ConflictException as error:
                raise Busy(f'Nova refuses: {error.details}') from error
            except sdk_exc.HttpException as error:
                if error.status_code not in _REFUSALS:
                    raise
                raise Refused(f'server {id_}: {error}') from error
        request_id: str = response.headers.get('x-openstack-request-id', '')
        return request_id

    def _actions(self, id_: str) -> list[cloud.Item]:
        """Return the actions of a server, the newest first."""
        body = self._get(f'/servers/{id_}/os-instance-actions')
        actions: list[cloud.Item] = body['instanceActions'] if body else []
        return actions

    def _get(
        self, url: str
    ) -> collections.abc.Mapping[str, typing.Any] | None:
        """Return what Nova has there, None for nothing."""
        with cloud.convert_errors(url):
            response = self._compute.get(url, microversion=_ACTIONS)
            if response.status_code == http.HTTPStatus.NOT_FOUND:
                return None
            sdk_exc.raise_from_response(response)
        body: dict[str, typing.Any] = response.json()
        return body


def _find(services: list[cloud.Item], name: str) -> cloud.Item:
    """Return nova-compute of a host.

    :raises DiskPlacerError: there is none, or several.
    """
    computes = {
        service['host']: service
        for service in services
        if service['binary'] == 'nova-compute'
    }
    named = [host for host in computes if facts_.is_host(host, name)]
    if len(named) != 1:
        raise exception.DiskPlacerError(
            f'{len(named)} hosts with nova-compute are named {name}; there '
            f'are: {", ".join(sorted(computes)) or "-"}'
        )
    return computes[named[0]]
