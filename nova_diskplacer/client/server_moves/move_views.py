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

"""Moves of servers as tables."""

import collections.abc
import typing

from nova_diskplacer.client import views
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import plan
from nova_diskplacer.client.server_moves import reasons as reasons_
from nova_diskplacer.client.server_moves import remains
from nova_diskplacer.client.server_moves import returning

# How a server moves that cannot move now, but will.
_LATER = 'later'
_NOT = 'no'


def check_fields(
    server: facts.Server,
    reasons: collections.abc.Sequence[reasons_.Reason],
    hosts_with_room: collections.abc.Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
    """Return whether a server can move, and what is against it."""
    shown = {
        'server': server.name,
        'server_id': server.id,
        'host': server.host or '-',
        'status': server.status,
        **{kind: not reasons_.against(reasons, kind) for kind in facts.KINDS},
        'reasons': views.Cell(
            '\n'.join(
                f'{", ".join(reason.kinds)}: {reason.text}'
                for reason in reasons
            ),
            [
                {
                    'kinds': [*reason.kinds],
                    'reason': reason.text,
                    'passes': reason.passes,
                }
                for reason in reasons
            ],
        ),
        'hosts_with_room': views.Cell(
            '-' if hosts_with_room is None else '\n'.join(hosts_with_room),
            hosts_with_room,
        ),
    }
    return tuple(shown), tuple(shown.values())


def plan_table(
    planned: collections.abc.Iterable[plan.Planned],
    others: collections.abc.Iterable[remains.Result],
) -> views.Table:
    """Return how each server leaves a host, and what else is there.

    :param others: volumes of no server there, and servers elsewhere.
    """
    rows = [
        (
            entry.server.name,
            entry.server.id,
            entry.server.status,
            _how(entry),
            entry.why_not,
        )
        for entry in planned
    ]
    rows += [(*_subject(other), _NOT, other.reason) for other in others]
    return ('Server', 'Server ID', 'Status', 'Move', 'Reason'), rows


def results_table(
    results: collections.abc.Iterable[remains.Result],
) -> views.Table:
    """Return what has become of each server of a host."""
    return ('Server', 'Server ID', 'Status', 'Move', 'Result', 'Reason'), [
        (*_subject(entry), entry.kind or '-', entry.result, entry.reason)
        for entry in results
    ]


def returns_table(
    outcomes: collections.abc.Iterable[returning.Outcome],
) -> views.Table:
    """Return what becomes of each server of a lost host."""
    return ('Server', 'Server ID', 'Status', 'Host', 'Result', 'Reason'), [
        (
            one.server.name,
            one.server.id,
            one.server.status,
            one.server.host or '-',
            one.result,
            one.reason,
        )
        for one in outcomes
    ]


def _how(planned: plan.Planned) -> str:
    if not planned.reasons:
        return planned.kind
    return _LATER if planned.passes else _NOT


def _subject(result: remains.Result) -> tuple[str, str, str]:
    if result.server is not None:
        server = result.server
        return server.name, server.id, server.status
    return '-', '-', result.volume.status if result.volume else '-'
