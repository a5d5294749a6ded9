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

"""Brings the servers of a lost host back elsewhere, with blank vdisks.

Their flavors allow it, and ``diskplacer-manage host give-up`` has given up the
data. Nova evacuates them; the scheduler chooses where. Nothing is kept between
two runs, as in :mod:`emptying`. One run at a time has a host: Nova evacuates a
server twice if it is asked twice.
"""

import collections.abc
import dataclasses
import time

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import reading
from nova_diskplacer.client.server_moves.nova import Busy
from nova_diskplacer.client.server_moves.nova import NotLost
from nova_diskplacer.client.server_moves.nova import Nova

#: Results for a server.
RETURNS = 'comes back'
RETURNED = 'is back'
UNDER_WAY = 'under way'
STAYS = 'stays'
DELETED = 'deleted'

# Seconds between two looks at Nova, and looks until it tells why it failed.
_INTERVAL = 3.0
_PATIENCE = 10

# Looks in a row that APIs may fail to answer: a minute.
_FAILURES = 20

# States of servers that Nova evacuates.
_EVACUABLE = (facts.ACTIVE, facts.STOPPED, facts.ERROR)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result for a server, with the reason if it stays."""

    server: facts.Server
    result: str
    reason: str = ''

    @property
    def is_gone(self) -> bool:
        """True if the lost host is rid of it."""
        return self.result in (RETURNED, DELETED)


def why_stays(server: facts.Server, host: str) -> str:
    """Return why a server does not come back, '' if it does.

    In words that follow a server.

    :param host: that is lost.
    """
    if server.flavor_error:
        return f'has a flavor that is wrong: {server.flavor_error}'
    request = server.request
    if request is None and not server.volumes:
        return f'has no vdisks: openstack server evacuate {server.id}'
    kept = [v.id for v in server.volumes if facts_.is_host(v.host, host)]
    if request is None or request.on_host_loss != flavor.BLANK:
        if server.volumes and not kept:
            hosts = ', '.join(sorted({v.host for v in server.volumes}))
            return (
                f'has its data on {hosts}, from where it had come: openstack '
                f'server evacuate {server.id}'
            )
        return (
            'has a flavor without '
            f'{flavor.NAMESPACE}{flavor.ON_HOST_LOSS}={flavor.BLANK}, and '
            'waits for its data'
        )
    if server.is_locked:
        return f'is locked: openstack server unlock {server.id}'
    if server.task:
        return f'has a task of Nova: {server.task}'
    if server.vm_state not in _EVACUABLE:
        return f'is in state {server.vm_state}, in which Nova evacuates none'
    if kept:
        return (
            f'has volume {", ".join(kept)}, whose data is not given up: '
            f'diskplacer-manage host give-up {host}, on a live host'
        )
    return ''


class Returning:
    """A run that brings servers back.

    :param parallel: how many at a time.
    :param tell: shows a line to the operator.
    """

    def __init__(
        self,
        nova: Nova,
        reader: reading.Reader,
        parallel: int,
        tell: collections.abc.Callable[[str], None],
    ) -> None:
        self._nova = nova
        self._reader = reader
        self._parallel = parallel
        self._tell = tell
        self._looks: dict[str, int] = {}

    def plan(self) -> list[Outcome]:
        """Return what is to become of each server of the host.

        :raises DiskPlacerError: an API does not answer.
        """
        servers = [
            self._reader.with_volumes(item) for item in self._nova.servers()
        ]
        return [
            Outcome(server, STAYS if reason else RETURNS, reason)
            for server in sorted(
                servers, key=lambda one: (facts_.natural(one.name), one.id)
            )
            for reason in [why_stays(server, self._nova.host)]
        ]

    def run(self, timeout: float) -> list[Outcome]:
        """Bring the servers back, and return what has become of each.

        It ends early if APIs do not answer for a minute; Nova goes on with
        what is under way.

        :param timeout: seconds after which what is under way is left so.
        :raises DiskPlacerError: an API does not answer, and nothing is done.
        """
        end = time.monotonic() + timeout
        failures = 0
        outcomes = {one.server.id: one for one in self.plan()}
        due = [
            one.server for one in outcomes.values() if one.result == RETURNS
        ]
        running: dict[str, str] = {}
        while (due or running) and time.monotonic() < end:
            try:
                self._look(running, outcomes)
                self._begin(due, running, outcomes)
                failures = 0
            except exception.DiskPlacerError as error:
                failures += 1
                if failures == _FAILURES:
                    outcomes |= {
                        server.id: Outcome(server, STAYS, str(error))
                        for server in due
                    }
                    break
                self._tell(f'{error}; asking again')
            if due or running:
                time.sleep(_INTERVAL)
        return list(outcomes.values())

    def _begin(
        self,
        due: list[facts.Server],
        running: dict[str, str],
        outcomes: dict[str, Outcome],
    ) -> None:
        """Ask Nova to evacuate servers until enough are under way at once.

        :param due: the servers to come; those that are begun go.
        :param running: IDs of the requests by server; those begun are added.
        :param outcomes: what becomes of each server, renewed.
        :raises DiskPlacerError: an API does not answer.
        """
        while due and len(running) < self._parallel:
            server = due[0]
            outcome = self._why_not(server)
            del due[0]
            outcomes[server.id] = outcome or self._evacuate(server, running)
            if outcome is None and server.id not in running:
                # Nova may answer no more: not all at once are asked for
                return

    def _why_not(self, server: facts.Server) -> Outcome | None:
        """Return what has become of a server, None if it is evacuated now.

        Somebody may have asked Nova itself to evacuate it.

        :raises DiskPlacerError: an API does not answer.
        """
        try:
            # it may have come back meanwhile: its guests run then
            self._nova.check_is_lost()
        except NotLost as error:
            return Outcome(server, STAYS, str(error))
        item = self._nova.server(server.id)
        if item is None:
            return Outcome(server, DELETED, 'was deleted meanwhile')
        now = self._reader.without_volumes(item)
        if now.task or not facts_.is_host(now.host, self._nova.host):
            return Outcome(
                now, UNDER_WAY, 'somebody else evacuates it; repeat this'
            )
        return None

    def _evacuate(
        self, server: facts.Server, running: dict[str, str]
    ) -> Outcome:
        """Ask Nova to evacuate a server, once; returns the result so far."""
        try:
            running[server.id] = self._nova.evacuate(server.id)
        except Busy as error:
            return Outcome(server, UNDER_WAY, f'{error}; repeat this')
        except exception.DiskPlacerError as error:
            # Nova may have begun, and would build it twice
            return Outcome(server, STAYS, f'{error}; repeat this')
        self._tell(f'Server {server.name} ({server.id}) is evacuated')
        return Outcome(server, UNDER_WAY, 'Nova goes on; repeat this')

    def _look(
        self, running: dict[str, str], outcomes: dict[str, Outcome]
    ) -> None:
        """Look at the servers that are under way.

        :raises DiskPlacerError: an API does not answer.
        """
        for id_, request_id in list(running.items()):
            now = self._follow(outcomes[id_].server, request_id)
            if now is not None:
                outcomes[id_] = now
                del running[id_]
                self._tell(
                    f'Server {now.server.name} ({id_}) '
                    + (now.reason or f'is back on {now.server.host}')
                )

    def _follow(self, server: facts.Server, request_id: str) -> Outcome | None:
        """Return what has become of a server, None if Nova is at work."""
        item = self._nova.server(server.id)
        if item is None:
            return Outcome(server, DELETED, 'was deleted meanwhile')
        now = self._reader.without_volumes(item)
        if now.task:
            return None
        if not facts_.is_host(now.host, self._nova.host):
            return Outcome(now, RETURNED)
        failure = self._nova.failure(server.id, request_id)
        self._looks[server.id] = self._looks.get(server.id, 0) + 1
        # without a failure it may have ended since the server was read
        if not failure and self._looks[server.id] < _PATIENCE:
            return None
        return Outcome(
            now,
            STAYS,
            'was not evacuated, and is as it was, in '
            f'{now.status}: {failure or "Nova tells no reason"}',
        )
