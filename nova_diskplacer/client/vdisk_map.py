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

"""Puts the claims of servers beside the vdisks, and finds what is wrong."""

import collections
import collections.abc
import dataclasses
import datetime

from nova_diskplacer import constants
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.placement import match_claims

#: Minutes for which a claim may be without vdisks before that is a finding.
PENDING_MINUTES = 10

#: Status of a vdisk that follows its server to another host.
MOVING = 'moving'

STATUSES = (
    match_claims.OK,
    match_claims.PENDING,
    match_claims.UNCLAIMED,
    MOVING,
)

# Statuses of servers that will still attach their volumes, or have no claims
# to fill: Nova is at work on them.
_AT_WORK = ('BUILD', 'REBUILD', 'RESIZE', 'VERIFY_RESIZE', 'MIGRATING')


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of the map: a vdisk, or a claim that no vdisk fills.

    The fields are those of ``match_claims.Row`` with the place and the names.
    ``server_id`` is None for a vdisk of no server, ``server`` the name, empty
    if it is not known, and ``device`` empty if it is not attached.
    ``moving_from`` is the host that has the data of a vdisk whose server has
    left it, empty for any other.
    """

    host: str
    server_id: str | None
    server: str
    device: str
    row: match_claims.Row
    moving_from: str = ''

    @property
    def status(self) -> str:
        """The status of the row, for people."""
        if not self.moving_from:
            return self.row.status
        return f'{self.row.status} from {facts_.short_host(self.moving_from)}'

    @property
    def disk(self) -> str:
        """The disk where the vdisk is, or else is claimed."""
        return self.row.actual_disk or self.row.claimed_disk or ''


@dataclasses.dataclass(frozen=True)
class Finding:
    """A state that somebody should look at.

    ``kind`` is ``pending``, ``moving``, ``health``, ``silent`` or ``flavor``;
    ``subject`` is the UUID or name of what has it.
    """

    kind: str
    host: str
    subject: str
    text: str


def entries(facts: facts_.Facts) -> list[Entry]:
    """Return the map's rows, by host, server and disk."""
    claims: dict[tuple[str, str | None], dict[str, int]] = (
        collections.defaultdict(dict)
    )
    unseen: dict[tuple[str, str | None], list[match_claims.Row]] = (
        collections.defaultdict(list)
    )
    for uuid, consumers in facts.claims.items():
        for server, gb in consumers.items():
            key = _host(facts, uuid), server
            if uuid in facts.unseen:
                # no vdisk elsewhere is to fill it
                unseen[key].append(
                    match_claims.Row(
                        None, uuid, None, gb, match_claims.PENDING
                    )
                )
            else:
                claims[key][uuid] = gb
    vdisks: dict[tuple[str, str | None], list[facts_.VDisk]] = (
        collections.defaultdict(list)
    )
    for vdisk in facts.vdisks:
        vdisks[_host(facts, vdisk.disk), vdisk.server_id].append(vdisk)
    moving: dict[tuple[str, str | None], list[facts_.MovingVDisk]] = (
        collections.defaultdict(list)
    )
    for leaving in facts.moving:
        moving[leaving.host, leaving.server_id].append(leaving)
    devices = {vdisk.id: vdisk.device for vdisk in facts.vdisks}
    devices |= {vdisk.id: vdisk.device for vdisk in facts.moving}
    sources = {vdisk.id: vdisk.source for vdisk in facts.moving}
    return [
        Entry(
            host,
            server,
            _name(facts, server),
            devices.get(row.volume_id or '', ''),
            row,
            sources.get(row.volume_id or '', ''),
        )
        for host, server in sorted(
            claims.keys() | vdisks.keys() | unseen.keys() | moving.keys(),
            key=lambda key: (
                facts_.natural(key[0]),
                key[1] is None,
                facts_.natural(_name(facts, key[1])),
                key[1] or '',
            ),
        )
        for row in (
            *_with_moving(
                match_claims.match(
                    claims[host, server],
                    [
                        {
                            'disk': vdisk.disk,
                            'volume_id': vdisk.id,
                            'size_gb': vdisk.size_gb,
                            'is_snapshot': vdisk.is_snapshot,
                        }
                        for vdisk in vdisks[host, server]
                    ],
                ),
                moving[host, server],
            ),
            *unseen[host, server],
        )
    ]


def _with_moving(
    rows: list[match_claims.Row],
    moving: collections.abc.Iterable[facts_.MovingVDisk],
) -> list[match_claims.Row]:
    """Return rows in which vdisks that are to come have their claims."""
    rows = list(rows)
    arriving = []
    for vdisk in sorted(moving, key=lambda vdisk: vdisk.id):
        claim = next(
            (
                row
                for row in rows
                if row.status == match_claims.PENDING
                and row.size_gb >= vdisk.size_gb
            ),
            None,
        )
        if claim is not None:
            number = rows.index(claim)
            left = claim.size_gb - vdisk.size_gb
            rows[number : number + 1] = (
                [dataclasses.replace(claim, size_gb=left)] if left else []
            )
        arriving.append(
            match_claims.Row(
                vdisk.id,
                claim.claimed_disk if claim else None,
                None,
                vdisk.size_gb,
                MOVING,
            )
        )
    return [*arriving, *rows]


def select(
    rows: collections.abc.Iterable[Entry],
    server: str | None = None,
    status: str | None = None,
) -> list[Entry]:
    """Return the rows of a server, by ID or name, and of a status."""
    return [
        row
        for row in rows
        if (server is None or server in (row.server_id, row.server))
        and status in (None, row.row.status)
    ]


def findings(
    facts: facts_.Facts,
    rows: collections.abc.Iterable[Entry],
    now: datetime.datetime,
    minutes: float = PENDING_MINUTES,
) -> list[Finding]:
    """Return what is wrong with disks and with rows of the map.

    :param minutes: see ``is_forgotten``.
    """
    problems = [
        Finding('health', disk.host, disk.uuid, f'the disk is {disk.health}')
        for disk in facts_.ordered(facts.disks.values())
        if disk.health != constants.OK
    ]
    problems += [
        Finding('silent', host, host, 'the agent of the host did not report')
        for host in facts.missing_hosts
    ]
    pending: dict[tuple[str, str], int] = collections.Counter()
    for entry in rows:
        row, server = entry.row, entry.server_id or ''
        if entry.moving_from in facts.down_hosts:
            problems.append(
                Finding(
                    'moving',
                    entry.host,
                    row.volume_id or '',
                    f'its data is on host {entry.moving_from}, whose '
                    'nova-compute is down: its server may wait for that host',
                )
            )
        if (
            row.status == match_claims.PENDING
            and entry.host not in facts.missing_hosts
            and row.claimed_disk not in facts.unseen
            and is_forgotten(facts.servers.get(server), now, minutes)
        ):
            pending[entry.host, server] += row.size_gb
    problems += [
        Finding(
            'pending',
            host,
            server,
            f'{gb} GiB are claimed and have no vdisk: the server was created '
            'without its volumes or resized to more, or they are detached, '
            'deleted or on other disks',
        )
        for (host, server), gb in pending.items()
    ]
    return problems


def is_forgotten(
    server: facts_.Server | None, now: datetime.datetime, minutes: float
) -> bool:
    """Return whether a claim without a vdisk is forgotten, not just young.

    :param server: whose claim it is; nothing is known without it, because the
        consumer may be a migration.
    :param minutes: for which Nova has not changed the server.
    """
    if server is None or server.changed is None or server.status in _AT_WORK:
        return False
    return now - server.changed > datetime.timedelta(minutes=minutes)


def _host(facts: facts_.Facts, disk: str) -> str:
    return facts.disks[disk].host if disk in facts.disks else ''


def _name(facts: facts_.Facts, server: str | None) -> str:
    nova_server = facts.servers.get(server or '')
    return nova_server.name if nova_server else ''
