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

"""Moves all servers away from a host, a few at a time.

Nothing is kept between two runs: each looks at what is there. So a run that
was interrupted is simply repeated, and two of them do not disturb each other:
Nova lets one of them move a server, and the other one waits for it.
"""

import collections
import collections.abc
import time

from nova_diskplacer import exception
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import plan as plan_
from nova_diskplacer.client.server_moves import reading
from nova_diskplacer.client.server_moves import remains
from nova_diskplacer.client.server_moves.nova import Busy
from nova_diskplacer.client.server_moves.nova import Nova
from nova_diskplacer.client.server_moves.nova import Refused
from nova_diskplacer.client.server_moves.remains import Result

# Seconds between two looks at Nova, and at the volumes.
_INTERVAL = 5.0
_SETTLE_INTERVAL = 15.0

# How often an API may fail in turn, and Nova not begin to move a server.
_PATIENCE = 12
_REFUSALS = 3


class Emptying:
    """A run that empties a host.

    :param kind: the only kind of move that is wanted, None for any.
    :param parallel: how many servers move at a time.
    :param tell: shows a line to the operator.
    """

    def __init__(
        self,
        nova: Nova,
        reader: reading.Reader,
        kind: str | None,
        parallel: int,
        tell: collections.abc.Callable[[str], None],
    ) -> None:
        self._nova = nova
        self._reader = reader
        self._kind = kind
        self._parallel = parallel
        self._tell = tell
        self._remains = remains.Remains(nova, reader)
        self._moves: dict[str, plan_.Move] = {}
        self._gone: dict[str, Result] = {}
        self._left: dict[str, Result] = {}
        self._waiting: dict[str, str] = {}
        self._refusals: dict[str, int] = collections.Counter()
        self._told = ''

    def plan(self) -> tuple[list[plan_.Planned], list[Result]]:
        """Return how each server leaves the host, and what else is there.

        :raises DiskPlacerError: an API does not answer.
        """
        planned = [self._plan(item) for item in self._servers()]
        here = {entry.server.id for entry in planned}
        return planned, [
            result
            for result in self._results()
            if result.server is None or result.server.id not in here
        ]

    def run(self, wait: bool, timeout: float) -> list[Result]:
        """Move the servers, and return what has become of each.

        :param wait: for servers that cannot move yet, and for the volumes.
        :param timeout: seconds after which what is under way is left so.
        :raises DiskPlacerError: the APIs do not answer for a minute.
        """
        end = time.monotonic() + timeout
        failures = 0
        while True:
            interval = _INTERVAL
            try:
                self._follow()
                self._start()
                if not self._moves:
                    if not wait or not (self._waiting or self._unsettled()):
                        break
                    interval = _SETTLE_INTERVAL
                failures = 0
            except exception.DiskPlacerError as error:
                failures += 1
                if failures > _PATIENCE:
                    raise
                self._tell(f'{error}; asking again')
            if time.monotonic() + interval > end:
                break
            time.sleep(interval)
        return self._results()

    def under_way(self) -> list[str]:
        """Return lines that say what Nova goes on with."""
        return [
            f'{_name(move.server)} {_under_way(move)}'
            for move in self._moves.values()
        ]

    def _servers(self) -> list[reading.Item]:
        return sorted(
            self._nova.servers(),
            key=lambda item: (facts_.natural(item['name'] or ''), item['id']),
        )

    def _plan(self, item: reading.Item) -> plan_.Planned:
        server = self._reader.with_volumes(item)
        return plan_.plan(
            server, self._kind, self._reader.hosts_with_room(server)
        )

    def _follow(self) -> None:
        """Look at the moves that are under way."""
        for id_, move in list(self._moves.items()):
            now = self._remains.server(id_)
            is_resized = now is not None and now.vm_state == facts.RESIZED
            step = plan_.follow(
                move,
                now,
                is_resized and self._nova.is_last(id_, move.request_id),
            )
            if step is plan_.Step.CONFIRM:
                self._confirm(move)
            elif step is plan_.Step.DONE:
                where = f'has moved to {now.host}' if now else 'is deleted'
                self._tell(f'{_name(move.server)} {where}')
                self._gone[id_] = Result(
                    now or move.server,
                    move.kind,
                    remains.MOVED if now else remains.DELETED,
                )
                del self._moves[id_]
            elif step is plan_.Step.FAILED:
                why = self._why(move, now)
                if why is not None:
                    self._leave(now or move.server, move.kind, why)
                    del self._moves[id_]

    def _confirm(self, move: plan_.Move) -> None:
        move.is_confirmed = True
        try:
            self._nova.confirm(move.server.id)
        except Busy:
            # its user was faster, or Nova's resize_confirm_window
            pass

    def _why(self, move: plan_.Move, now: facts.Server | None) -> str | None:
        """Return why a move has failed, None if Nova is about to tell."""
        id_ = move.server.id
        if now and now.vm_state == facts.RESIZED:
            return (
                'waits for the confirmation of a resize or migration that '
                'somebody else has begun'
            )
        if self._nova.was_aborted(id_):
            text = 'its migration was aborted'
        else:
            failure = self._nova.failure(id_, move.request_id)
            if failure is None and move.looks < _PATIENCE:
                move.looks += 1
                return None
            text = f'Nova did not move it: {failure or "it tells no reason"}'
        if now and now.vm_state == facts.ERROR:
            text += f', it is in ERROR on host {now.host}'
            if now.is_running:
                text += (
                    ', and runs: when its data is right, openstack server set '
                    f'--state active {id_}'
                )
        return text

    def _start(self) -> None:
        """Move as many further servers as may move at a time."""
        self._waiting.clear()
        self._reader.forget_room()
        for item in self._servers():
            id_ = item['id']
            if len(self._moves) >= self._parallel:
                return
            if id_ in self._moves or id_ in self._left:
                continue
            planned = self._plan(item)
            if not planned.reasons:
                self._move(planned)
            elif planned.passes:
                self._waiting[id_] = planned.why_not
            else:
                self._leave(planned.server, '', planned.why_not)

    def _move(self, planned: plan_.Planned) -> None:
        server, kind = planned.server, planned.kind
        try:
            request_id = self._nova.move(server.id, kind)
        except Busy as error:
            # another operator, or the server's user, was faster
            self._refusals[server.id] += 1
            if self._refusals[server.id] < _REFUSALS:
                self._waiting[server.id] = str(error)
            else:
                self._leave(server, kind, str(error))
            return
        except Refused as error:
            self._leave(server, kind, str(error))
            return
        except exception.DiskPlacerError as error:
            # Nova refuses the second one of two moves
            self._refusals[server.id] += 1
            if self._refusals[server.id] < _REFUSALS:
                raise
            self._leave(server, kind, str(error))
            return
        self._moves[server.id] = plan_.Move(server, kind, request_id)
        self._tell(f'{_name(server)} moves {kind}')

    def _leave(self, server: facts.Server, kind: str, reason: str) -> None:
        self._left[server.id] = Result(server, kind, remains.LEFT, reason)
        self._tell(f'{_name(server)} stays: {reason}')

    def _unsettled(self) -> bool:
        """Return whether servers elsewhere have their data here, and tell."""
        volumes = self._remains.unsettled()
        text = (
            f'Data on {self._nova.host} of servers elsewhere: '
            f'{sum(volume.size_gb for volume in volumes)} GiB of '
            f'{len(volumes)} vdisks'
        )
        waiting = [server['id'] for server in self._nova.unconfirmed()]
        if volumes and waiting:
            text += f'; wait for a confirmation: {", ".join(waiting)}'
        if volumes and text != self._told:
            self._told = text
            self._tell(text)
        return bool(volumes)

    def _results(self) -> list[Result]:
        under_way = {
            id_: Result(
                move.server, move.kind, remains.UNDER_WAY, _under_way(move)
            )
            for id_, move in self._moves.items()
        }
        return self._remains.results(
            self._gone, self._left, self._waiting, under_way
        )


def _name(server: facts.Server) -> str:
    return f'Server {server.name} ({server.id})'


def _under_way(move: plan_.Move) -> str:
    if move.kind == facts.LIVE:
        return 'moves live, and Nova goes on'
    if move.is_confirmed:
        return 'has moved cold, and Nova ends the move'
    return (
        'moves cold, and Nova goes on; when it has status VERIFY_RESIZE, '
        f'confirm it: openstack server resize confirm {move.server.id}'
    )
