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

"""The map as a table, and as a picture."""

import argparse
import collections
import collections.abc
import dataclasses
import datetime
import textwrap
import typing

from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import picture
from nova_diskplacer.client import vdisk_map

#: Columns and rows.
Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]

# Characters of the columns of the short table. Borders and spaces add 3 for
# each column and 1, which makes 100.
_WIDTHS = {'Host': 15, 'Server': 20, 'VDisks': 35, 'GiB': 5, 'Status': 9}

# Kinds of findings that give a map its exit status. Unhealthy disks are no
# error of a map: the command check reports them.
_OF_MAP = ('pending', 'moving')


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """A cell of a table for people, and what it stands for."""

    text: str
    data: typing.Any = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return self.text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the map that both command lines have."""
    add_pending(parser)
    parser.add_argument(
        '--html',
        metavar='FILE',
        help='draw hosts, disks and vdisks into this file, for a browser',
    )


def add_pending(parser: argparse.ArgumentParser) -> None:
    """Add the option that says when a claim without vdisks is a finding."""
    parser.add_argument(
        '--pending',
        type=arguments.number(int, 0),
        default=vdisk_map.PENDING_MINUTES,
        metavar='MINUTES',
        help='minutes after which a claim without vdisks is a finding '
        '(default: %(default)s)',
    )


def make_map(
    facts: facts_.Facts, args: argparse.Namespace, status: str | None = None
) -> tuple[list[vdisk_map.Entry], list[vdisk_map.Finding]]:
    """Return the rows and findings of a map, and draw its picture.

    :param args: the options of :func:`add_options`, and ``server``.
    :param status: only the vdisks in this state.
    :raises DiskPlacerError: the picture cannot be written.
    """
    rows = vdisk_map.select(vdisk_map.entries(facts), args.server, status)
    findings = vdisk_map.findings(
        facts, rows, datetime.datetime.now(datetime.UTC), args.pending
    )
    if args.html:
        write_html(args.html, facts, rows, findings)
    return rows, findings


def status_of(
    findings: collections.abc.Iterable[vdisk_map.Finding],
) -> int:
    """Return the exit status of a map with findings."""
    return exit_status.of(
        [finding for finding in findings if finding.kind in _OF_MAP]
    )


def finding_lines(
    findings: collections.abc.Iterable[vdisk_map.Finding],
) -> list[str]:
    """Return the findings as text."""
    return [
        f'{facts_.short_host(finding.host)}: {finding.subject}: {finding.text}'
        for finding in findings
    ]


def table(
    facts: facts_.Facts,
    rows: collections.abc.Iterable[vdisk_map.Entry],
    long: bool = False,
) -> Table:
    """Return the map as both command lines show it.

    A row is a server of a host with its devices and their disks, and the table
    fits 100 columns.

    :param long: a row is a vdisk or a claim without one, with all UUIDs.
    """
    return _vdisks(facts, rows) if long else _servers(facts, rows)


def _vdisks(
    facts: facts_.Facts, rows: collections.abc.Iterable[vdisk_map.Entry]
) -> Table:
    return (
        'Host',
        'Server',
        'Server ID',
        'Device',
        'Volume',
        'GiB',
        'Claimed disk',
        'Actual disk',
        'Pressure',
        'Status',
    ), [
        (
            entry.host,
            entry.server or '-',
            entry.server_id or '-',
            entry.device or '-',
            volume_of(entry),
            entry.row.size_gb,
            entry.row.claimed_disk or '-',
            entry.row.actual_disk or '-',
            pressure_of(facts, entry.disk),
            entry.status,
        )
        for entry in rows
    ]


def _servers(
    facts: facts_.Facts, rows: collections.abc.Iterable[vdisk_map.Entry]
) -> Table:
    short = facts_.short_names(facts.disks)
    grouped: dict[tuple[str, str | None], list[vdisk_map.Entry]] = (
        collections.defaultdict(list)
    )
    for entry in rows:
        grouped[entry.host, entry.server_id].append(entry)
    return tuple(_WIDTHS), [
        (
            _cell('Host', facts_.short_host(host), host),
            _cell(
                'Server',
                entries[0].server or (server or '-')[:8],
                entries[0].server or server,
            ),
            _cell(
                'VDisks',
                ' '.join(_vdisks_of(entries, short)),
                [_fields(entry) for entry in entries],
            ),
            sum(entry.row.size_gb for entry in entries),
            _cell('Status', status := _statuses(entries), status),
        )
        for (host, server), entries in grouped.items()
    ]


def _vdisks_of(
    rows: collections.abc.Iterable[vdisk_map.Entry],
    short: collections.abc.Mapping[str, str],
) -> list[str]:
    """Return vdisks with their disks, several of a striped one."""
    disks_by_name: dict[typing.Any, tuple[str, list[str]]] = {}
    for number, entry in enumerate(rows):
        row = entry.row
        name = entry.device or _short_volume(entry)
        # claims have no vdisk
        key = row.volume_id or row.snapshot_id or number
        disks_by_name.setdefault(key, (name, []))[1].append(
            disk_of(entry, short)
        )
    return [
        f'{name}→{"+".join(disks)}' for name, disks in disks_by_name.values()
    ]


def _cell(column: str, text: str, data: typing.Any) -> Cell:
    return Cell(
        textwrap.fill(
            text, _WIDTHS[column], break_on_hyphens=column != 'VDisks'
        ),
        data,
    )


def _fields(entry: vdisk_map.Entry) -> dict[str, typing.Any]:
    """Return a vdisk for formats that other programs read."""
    return {
        'device': entry.device or None,
        'volume': entry.row.volume_id,
        'snapshot': entry.row.snapshot_id,
        'gib': entry.row.size_gb,
        'claimed_disk': entry.row.claimed_disk,
        'actual_disk': entry.row.actual_disk,
        'status': entry.row.status,
        'moving_from': entry.moving_from or None,
    }


def volume_of(entry: vdisk_map.Entry) -> str:
    """Return the volume or snapshot of a row, ``-`` if it is a claim."""
    if entry.row.snapshot_id:
        return f'snapshot {entry.row.snapshot_id}'
    return entry.row.volume_id or '-'


def disk_of(
    entry: vdisk_map.Entry, short: collections.abc.Mapping[str, str]
) -> str:
    """Return the short name of the disk."""
    return short.get(entry.disk, entry.disk) or '-'


def pressure_of(facts: facts_.Facts, disk: str) -> str:
    """Return the pressure on a disk, ``-`` if it is not known."""
    shown = facts.disks.get(disk)
    if shown is None or shown.pressure is None:
        return '-'
    return f'{shown.pressure} %'


def _short_volume(entry: vdisk_map.Entry) -> str:
    if entry.row.snapshot_id:
        return f'snapshot-{entry.row.snapshot_id[:4]}'
    return (entry.row.volume_id or 'claim')[:8]


def _statuses(rows: list[vdisk_map.Entry]) -> str:
    counts = collections.Counter(
        (vdisk_map.STATUSES.index(entry.row.status), entry.status)
        for entry in rows
    )
    if len(counts) == 1:
        return rows[0].status
    return ' '.join(f'{counts[key]} {key[1]}' for key in sorted(counts))


def write_html(
    path: str,
    facts: facts_.Facts,
    rows: collections.abc.Sequence[vdisk_map.Entry],
    findings: collections.abc.Sequence[vdisk_map.Finding],
) -> None:
    """Draw the map into a file.

    :raises DiskPlacerError: the file cannot be written.
    """
    page = picture.page(facts, rows, findings)
    try:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(page)
    except OSError as error:
        raise exception.DiskPlacerError(f'--html {path}: {error}') from error
