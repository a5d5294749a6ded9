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

"""Draws the map as an HTML page that needs no other file.

Each host is a ``section.host``, each disk a ``div.disk`` in it, and each
vdisk, claim or free room a ``span`` in the disk's bar, as wide as its GiB.
Attributes ``data-*`` tell the figures, for the filter and for tests.
"""

import collections
import collections.abc
import html
import importlib.resources
import itertools

from nova_diskplacer import constants
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import markup
from nova_diskplacer.client import picture_head
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.placement import match_claims

#: Pressure in per cent from which a disk is drawn as pressed.
PRESSED = 50

# Degrees between the hues of two servers: any few in a row are far apart.
# Red is left to what is wrong.
_GOLDEN_ANGLE = 137.5
_FIRST_HUE, _HUES = 30, 300

Rows = collections.abc.Sequence[vdisk_map.Entry]


def page(
    facts: facts_.Facts,
    rows: Rows,
    findings: picture_head.Findings,
) -> str:
    """Return the page.

    :param rows: the map's rows; disks without any are drawn too.
    """
    by_disk: dict[str, list[vdisk_map.Entry]] = collections.defaultdict(list)
    for row in rows:
        by_disk[row.disk].append(row)
    disks = facts_.ordered(facts.disks.values())
    short = facts_.short_names(facts.disks)
    hues = _hues(rows)
    hosts = [
        _host(
            host,
            [
                _disk(disk, short[disk.uuid], by_disk[disk.uuid], hues)
                for disk in host_disks
            ],
            host in facts.missing_hosts,
        )
        for host, host_disks in itertools.groupby(
            disks, key=lambda disk: disk.host
        )
    ]
    names = {
        server.id: server.name for server in facts.servers.values()
    } | short
    return '\n'.join(
        (
            '<!DOCTYPE html>',
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            '<meta name="color-scheme" content="light dark">',
            '<title>Map of vdisks</title>',
            f'<style>{_text("picture.css")}</style>',
            '</head><body>',
            '<h1>Map of vdisks</h1>',
            picture_head.summary(disks, len(hosts), rows),
            picture_head.findings(findings, names),
            picture_head.legend(),
            '<label>Show <input id="filter" type="search" '
            'placeholder="host, server, volume, disk, hung, full, pending …">'
            '</label> <span id="shown" role="status"></span>',
            markup.tag('main', '\n'.join(hosts), id='hosts'),
            f'<script>{_text("picture.js")}</script>',
            '</body></html>\n',
        )
    )


def _text(name: str) -> str:
    """Return a file of this package."""
    file = importlib.resources.files(__package__).joinpath(name)
    return file.read_text(encoding='utf-8')


def _hues(rows: Rows) -> dict[str | None, float]:
    """Return the hue of each server."""
    servers = dict.fromkeys(row.server_id for row in rows if row.server_id)
    return {
        server: _FIRST_HUE + position * _GOLDEN_ANGLE % _HUES
        for position, server in enumerate(servers)
    }


def _host(name: str, disks: list[str], silent: bool) -> str:
    title = html.escape(facts_.short_host(name))
    if silent:
        title += ' <em>no report</em>'
    return markup.tag(
        'section',
        markup.tag('h2', title) + '\n'.join(disks),
        class_='host silent' if silent else 'host',
        data_host=name,
        title=name,
    )


def _disk(
    disk: facts_.Disk,
    name: str,
    rows: list[vdisk_map.Entry],
    hues: collections.abc.Mapping[str | None, float],
) -> str:
    states = disk_states(disk)
    words = [name, disk.medium]
    if disk.health != constants.OK:
        words += [disk.health, f'{disk.total_gb} GiB']
    else:
        if 'pressed' in states:
            words.append(f'pressure {disk.pressure} %')
        if 'idle' in states:
            words.append('idle')
        words.append(f'{disk.free_gb}/{disk.total_gb} GiB free')
    title = disk.uuid
    if disk.pressure is not None:
        title += f', pressure {disk.pressure} %'
    return markup.tag(
        'div',
        markup.tag(
            'span', html.escape(' · '.join(filter(None, words))), class_='name'
        )
        + markup.tag(
            'div', ''.join(_segments(disk, rows, hues)), class_='bar'
        ),
        class_=' '.join(('disk', *states)),
        data_disk=disk.uuid,
        data_health=disk.health,
        data_states=' '.join(states),
        data_total=disk.total_gb,
        data_claimed=disk.claimed_gb,
        data_reserved=disk.reserved_gb,
        data_free=disk.free_gb,
        title=title,
    )


def disk_states(disk: facts_.Disk) -> list[str]:
    """Return what a disk is drawn as: unhealthy, or full, pressed, idle."""
    if disk.health != constants.OK:
        return ['unhealthy']
    states = []
    if disk.free_gb == 0:
        states.append('full')
    if (disk.pressure or 0) >= PRESSED:
        states.append('pressed')
    elif disk.idle:
        states.append('idle')
    return states


def _segments(
    disk: facts_.Disk,
    rows: list[vdisk_map.Entry],
    hues: collections.abc.Mapping[str | None, float],
) -> collections.abc.Iterator[str]:
    for row in rows:
        yield _vdisk(disk, row, hues.get(row.server_id))
    for name, gb in other_gb(disk, rows).items():
        if gb:
            yield _segment(disk, gb, f'{gb} GiB {name}', class_=name)


def other_gb(disk: facts_.Disk, rows: list[vdisk_map.Entry]) -> dict[str, int]:
    """Return the GiB of a disk's bar that no row stands for.

    ``claimed`` is by servers and ``reserved`` for vdisks that are not known.
    """
    shown = collections.Counter[bool]()
    for entry in rows:
        covered = entry.row.claimed_disk == disk.uuid
        shown[covered] += entry.row.size_gb
    # of an extended vdisk, a part may be claimed
    both = max(0, shown[False] - disk.reserved_gb)
    return {
        'claimed': max(0, disk.claimed_gb - shown[True] - both),
        'reserved': 0
        if disk.health != constants.OK
        else max(0, disk.reserved_gb - shown[False]),
        'free': disk.free_gb,
    }


def _vdisk(
    disk: facts_.Disk, entry: vdisk_map.Entry, hue: float | None
) -> str:
    row = entry.row
    server = entry.server or entry.server_id or 'no server'
    what = {match_claims.PENDING: 'claimed, no vdisk yet'}.get(
        row.status,
        f'{entry.status}, volume {row.volume_id or row.snapshot_id}',
    )
    words = filter(None, (server, entry.device, f'{row.size_gb} GiB', what))
    return _segment(
        disk,
        row.size_gb,
        ' '.join(words),
        html.escape(server),
        hue,
        class_=f'vdisk {row.status}',
        data_server=entry.server_id or '',
        data_name=entry.server,
        data_volume=row.volume_id or row.snapshot_id or '',
        data_status=row.status,
    )


def _segment(
    disk: facts_.Disk,
    gb: int,
    title: str,
    content: str = '',
    hue: float | None = None,
    **attributes: object,
) -> str:
    width = 100 * gb / max(disk.total_gb, 1)
    style = f'width:{width:.2f}%'
    if hue is not None:
        style += f';--hue:{hue:.0f}'
    return markup.tag(
        'span', content, style=style, title=title, data_gb=gb, **attributes
    )
