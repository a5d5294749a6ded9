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

"""What ``diskplacer-manage top`` shows, as lines that fit the terminal."""

import collections.abc
import dataclasses
import datetime
import sys
import textwrap

from nova_diskplacer.monitor import status

Row = dict[str, str]

PLAIN = 'plain'
HEAD = 'head'
STRONG = 'strong'
FAINT = 'faint'

# Length to which the UUID of a server or disk is cut where there is no room.
_SHORT = 8

# Length to which the name of a cgroup is.
_CGROUP = 16

# Width from which there is room for the names of domains, and for UUIDs in
# full.
_MEDIUM = 100
_WIDE = 132

# Rounds may be missed for this many intervals before it is pointed out.
_LATE = 3

_DISKS = (
    'DISK', 'DEVICE', 'R MB/s', 'W MB/s', 'BUSY', 'QUEUE', 'LAT ms', 'SCORE',
    'PRESS', 'WEIGHTS',
)  # fmt: skip
_SERVERS = (
    'SERVER', 'DOMAIN', 'DISK', 'R MB/s', 'W MB/s', 'IOPS', 'CLASS', 'WEIGHT',
    'BUDGET', 'NOTE',
)  # fmt: skip
# Columns of text; those of figures are flush right.
_TEXTS = ('DISK', 'DEVICE', 'WEIGHTS', 'SERVER', 'DOMAIN', 'NOTE')


@dataclasses.dataclass(frozen=True)
class Line:
    """A line, and how it is to look."""

    text: str
    look: str = PLAIN


def message(text: str, width: int, height: int) -> list[Line]:
    """Return lines with one message."""
    return [Line(line) for line in textwrap.wrap(text, width)][:height]


def lines(
    state: status.Snapshot | None,
    now: float,
    width: int | None,
    height: int | None,
) -> list[Line]:
    """Return the view of a round.

    :param now: seconds since the epoch.
    :param width: columns of the terminal; None: no limit.
    :param height: rows of the terminal; None: no limit.
    """
    if state is None:
        return [
            Line(
                'The agent has not finished its first round: see its log.',
                STRONG,
            )
        ]
    top = [Line(_summary(state, now), STRONG)]
    if now - state.time > _LATE * state.interval + 1:
        late = f'The last round is {now - state.time:.0f} s ago!'
        top.append(Line(late, STRONG))
    room = sys.maxsize if width is None else width
    notes = [
        Line(line, STRONG)
        for text in _notes(state)
        for line in textwrap.wrap(
            text, room, subsequent_indent='  ', break_on_hyphens=False
        )
    ]
    wide = room >= _WIDE
    disks = _table(_DISKS, _disk_rows(state, wide))
    names = [name for name in _SERVERS if name != 'DOMAIN' or room >= _MEDIUM]
    servers = _table(names, _server_rows(state, wide))
    if height is not None:
        # a third for disks, a quarter for notes, servers take the rest
        disks = _cut(disks, max(3, height // 3), 'disks')
        notes = _cut(notes, max(1, height // 4), 'lines')
        left = height - len(top) - len(disks) - len(notes) - 2
        servers = _cut(servers, max(2, left), 'servers')
    shown = [*top, *notes, Line(''), *disks, Line(''), *servers][:height]
    return [Line(line.text[:room], line.look) for line in shown]


def _summary(state: status.Snapshot, now: float) -> str:
    when = datetime.datetime.fromtimestamp(now).strftime('%H:%M:%S')
    pairs = state.pairs
    kinds = dict(zip(pairs.servers, pairs.domains, strict=True)).values()
    servers = sum(map(bool, kinds))
    others = len(kinds) - servers
    return (
        f'{state.host} {when}  weights {state.mode}  '
        f'round {state.cpu_seconds * 1000:.1f} ms in {state.interval:.1f} s  '
        f'disks {len(state.disks)}, servers {servers}'
        + (f', other cgroups {others}' if others else '')
    )


def _notes(state: status.Snapshot) -> list[str]:
    """Return what the operator should know of."""
    notes = []
    if state.mode != 'off' and not state.deciding:
        notes.append('! weights cannot be decided now: see the log')
    for disk in state.disks:
        name = f'{disk.device} ({disk.uuid[:_SHORT]})'
        if disk.uuid in state.hung:
            notes.append(f'! {name} is hung: it does not answer')
        notes += [f'! {name}: {text}' for text in disk.warnings]
        if disk.error:
            notes.append(f'! {name}: weights do nothing: {disk.error}')
    notes += [
        f'! {uuid[:_SHORT]} is not watched: {reason}'
        for uuid, reason in sorted(state.unwatched.items())
    ]
    pairs = state.pairs
    notes += [
        f'! {server[:_SHORT]} on {disk[:_SHORT]}: {error}'
        for server, disk, error in zip(
            pairs.servers, pairs.disks, pairs.errors, strict=True
        )
        if error
    ]
    return [_printable(note) for note in notes]


def _disk_rows(state: status.Snapshot, wide: bool) -> list[Row]:
    disks = sorted(
        state.disks,
        key=lambda disk: (-disk.read_bytes - disk.write_bytes, disk.uuid),
    )
    return [
        {
            'DISK': disk.uuid if wide else disk.uuid[:_SHORT],
            'DEVICE': disk.device,
            'R MB/s': _mb(disk.read_bytes),
            'W MB/s': _mb(disk.write_bytes),
            'BUSY': f'{disk.busy:.0%}',
            'QUEUE': f'{disk.queue:.1f}',
            'LAT ms': '-'
            if disk.latency is None
            else f'{disk.latency * 1000:.1f}',
            'SCORE': '-' if disk.score is None else _mb(disk.score),
            'PRESS': f'{disk.pressure:.0%}',
            'WEIGHTS': 'ERROR' if disk.error else disk.controller or '-',
        }
        for disk in disks
    ]


def _server_rows(state: status.Snapshot, wide: bool) -> list[Row]:
    pairs = state.pairs
    devices = {disk.uuid: disk.device for disk in state.disks}
    order = sorted(
        range(len(pairs.servers)),
        key=lambda row: (
            -pairs.read_bytes[row] - pairs.write_bytes[row],
            pairs.servers[row],
            pairs.disks[row],
        ),
    )
    return [
        {
            'SERVER': _server(pairs.servers[row], wide),
            'DOMAIN': _printable(pairs.domains[row]) or '-',
            'DISK': devices.get(pairs.disks[row], pairs.disks[row][:_SHORT]),
            'R MB/s': _mb(pairs.read_bytes[row]),
            'W MB/s': _mb(pairs.write_bytes[row]),
            'IOPS': f'{pairs.reads[row] + pairs.writes[row]:.0f}',
            'CLASS': _number(pairs.classes[row], '.1f'),
            'WEIGHT': _number(pairs.weights[row], 'd'),
            'BUDGET': _number(pairs.budgets[row], '.2f'),
            'NOTE': _remarks(pairs, row),
        }
        for row in order
    ]


def _remarks(pairs: status.Pairs, row: int) -> str:
    remarks = {
        'ERROR': pairs.errors[row],
        'seeks': pairs.seekers[row],
        'exempt': pairs.exempt[row],
        'idle': pairs.idle[row],
    }
    return ' '.join(remark for remark, holds in remarks.items() if holds)


def _server(key: str, wide: bool) -> str:
    # what tells cgroups apart is at the end of their paths
    if '/' in key:
        return _printable(key if wide else key.rpartition('/')[2][:_CGROUP])
    return _printable(key if wide else key[:_SHORT])


def _mb(bytes_: float) -> str:
    return f'{bytes_ / 1e6:.1f}'


def _number(value: float | None, format_: str) -> str:
    return '-' if value is None else format(value, format_)


def _printable(text: str) -> str:
    return ''.join(char if char.isprintable() else '?' for char in text)


def _table(
    names: collections.abc.Sequence[str], rows: list[Row]
) -> list[Line]:
    head = {name: name for name in names}
    widths = {
        name: max(len(row[name]) for row in (head, *rows)) for name in names
    }
    return [
        Line(_row(row, widths), HEAD if row is head else PLAIN)
        for row in (head, *rows)
    ]


def _row(row: Row, widths: dict[str, int]) -> str:
    return '  '.join(
        row[name].ljust(width) if name in _TEXTS else row[name].rjust(width)
        for name, width in widths.items()
    ).rstrip()


def _cut(table: list[Line], height: int, what: str) -> list[Line]:
    if len(table) <= height:
        return table
    hidden = len(table) - height + 1
    return [*table[: height - 1], Line(f'({hidden} more {what})', FAINT)]
