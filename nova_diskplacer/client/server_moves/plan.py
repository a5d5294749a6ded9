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

"""Decides how each server leaves a host, and what has become of its move."""

import dataclasses
import enum

from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import reasons as reasons_


@dataclasses.dataclass(frozen=True)
class Planned:
    """The way that a server leaves its host, and what is against it."""

    server: facts.Server
    kind: str
    reasons: tuple[reasons_.Reason, ...] = ()
    could_move_cold: bool = False

    @property
    def passes(self) -> bool:
        """True if all that is against it ends without anybody's help."""
        return all(reason.passes for reason in self.reasons)

    @property
    def why_not(self) -> str:
        """Its obstacles, in words that follow a server."""
        texts = [reason.text for reason in self.reasons]
        if self.could_move_cold:
            texts.append('moves with --cold, which turns it off meanwhile')
        return '; '.join(texts)


def plan(
    server: facts.Server,
    kind: str | None = None,
    hosts_with_room: list[str] | None = None,
) -> Planned:
    """Return how a server leaves its host.

    :param kind: the only kind of move that is wanted; with None, a server that
        is off moves cold, and any other live.
    :param hosts_with_room: see ``reasons.find``.
    """
    chosen = kind or (
        facts.COLD if server.vm_state == facts.STOPPED else facts.LIVE
    )
    reasons = reasons_.find(server, hosts_with_room)
    against = tuple(reasons_.against(reasons, chosen))
    return Planned(
        server,
        chosen,
        against,
        kind is None
        and bool(against)
        and not reasons_.against(reasons, facts.COLD),
    )


class Step(enum.Enum):
    """The next step of a move that Nova has accepted."""

    WAIT = 'wait'
    CONFIRM = 'confirm'
    DONE = 'done'
    FAILED = 'failed'


@dataclasses.dataclass
class Move:
    """A move of a server that this command has asked Nova for.

    ``request_id`` is that of Nova's action. ``is_confirmed``: Nova was asked
    to confirm it. ``looks``: how often Nova was asked why it has failed.
    """

    server: facts.Server
    kind: str
    request_id: str
    is_confirmed: bool = False
    looks: int = 0


def follow(move: Move, now: facts.Server | None, is_last: bool) -> Step:
    """Return what follows for a move.

    :param now: the server, None if it is deleted.
    :param is_last: whether no other migration or resize of the server has
        begun after this one. Nobody else's is ever confirmed.
    """
    if now is None:
        return Step.DONE
    if now.task:
        return Step.WAIT
    if now.vm_state == facts.RESIZED:
        if not is_last or move.kind != facts.COLD:
            return Step.FAILED
        return Step.WAIT if move.is_confirmed else Step.CONFIRM
    if now.vm_state == facts.ERROR or now.host == move.server.host:
        return Step.FAILED
    return Step.DONE
