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


"""The view of the agent's status that ``diskplacer-manage top`` shows."""

import datetime

from rich import console
from rich import table
from rich import text

from nova_diskplacer import terminal
from nova_diskplacer.elastic import status as elastic_status
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.monitor import status

Row = tuple[str, ...]

# Length of a shortened UUID of a server or disk.
_UUID_LENGTH = 8

# Length of a shortened name of a cgroup.
_CGROUP_LENGTH = 16

# Widths in columns from which optional columns, and full UUIDs, are shown.
_OPTIONAL_WIDTH = 110
_UUID_WIDTH = 160

# The last round is late after this many intervals.
_LATE_INTERVALS = 3

_DISK_COLUMNS = (
    'DISK', 'DEVICE', 'R MB/s', 'W MB/s', 'SUM', 'BUSY', 'QUEUE', 'LAT ms',
    'PRESSURE', 'STATE', 'WEIGHTS',
)  # fmt: skip
_SERVER_COLUMNS = (
    'SERVER', 'PROJECT', 'DOMAIN', 'DISK', 'R MB/s', 'W MB/s', 'IOPS',
    'LAT ms', 'USED', 'CLASS', 'WEIGHT', 'WHY',
)  # fmt: skip
_OPTIONAL_COLUMNS = ('PROJECT', 'DOMAIN', 'IOPS', 'QUEUE')
# Columns of text are aligned left, columns of figures right.
_TEXT_COLUMNS = (
    'DISK', 'DEVICE', 'STATE', 'WEIGHTS', 'SERVER', 'PROJECT', 'DOMAIN', 'WHY',
    'VDISK', 'RANGE', 'MOVE',
)  # fmt: skip


def view(
    state: status.Status | None, now: float, width: int, height: int
) -> console.RenderableType:
    """Return the notes and tables of a round.

    Notes and elastic vdisks get a quarter of the height at most, disks a
    third, servers the rest.

    :param now: seconds since the epoch.
    """
    if state is None:
        return 'The agent has not finished its first round: see its log.'
    lines = [_summary(state, now)]
    age = now - state.time
    if age > _LATE_INTERVALS * state.interval + 1:
        lines.append(f'The last round is {age:.0f} s ago!')
    lines += _notes(state)[: max(1, height // 4)]
    long = width >= _UUID_WIDTH
    disks = _disk_rows(state, long)[: max(2, height // 3)]
    servers = _server_rows(state, long)[:height]
    elastic = [
        elastic_status.row(vdisk)
        for vdisk in (state.elastic.vdisks if state.elastic else ())
    ][: max(1, height // 4)]
    shown: list[console.RenderableType] = [
        text.Text('\n'.join(lines), 'bold'),
        '',
        _table(_DISK_COLUMNS, disks, width),
        '',
        _table(_SERVER_COLUMNS, servers, width),
    ]
    if elastic:
        shown += ['', _table(elastic_status.COLUMNS, elastic, width)]
    return console.Group(*shown)


def _table(columns: Row, rows: list[Row], width: int) -> table.Table:
    shown = table.Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style='reverse'
    )
    names = [
        name
        for name in columns
        if name not in _OPTIONAL_COLUMNS or width >= _OPTIONAL_WIDTH
    ]
    for name in names:
        is_text = name in _TEXT_COLUMNS
        shown.add_column(
            name, justify='left' if is_text else 'right', no_wrap=True
        )
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        shown.add_row(*(text.Text(cells[name]) for name in names))
    return shown


def _summary(state: status.Status, now: float) -> str:
    when = datetime.datetime.fromtimestamp(now).strftime('%H:%M:%S')
    pairs = state.pairs
    kinds = dict(zip(pairs.servers, pairs.domains, strict=True)).values()
    servers = sum(map(bool, kinds))
    others = len(kinds) - servers
    changes = ''
    if state.mode == 'dry_run':
        changed = sum(map(_would_change, pairs.weights))
        changes = f', {changed} would change'
    return (
        f'{state.host} {when}  weights {state.mode}{changes}  '
        f'round {state.cpu_seconds * 1000:.1f} ms in {state.interval:.1f} s  '
        f'disks {len(state.disks)}, servers {servers}'
        + (f', other cgroups {others}' if others else '')
    )


def _notes(state: status.Status) -> list[str]:
    """Return warnings and errors, and why disks have no weights."""
    notes = []
    if state.mode != 'off' and not state.deciding:
        notes.append('! weights cannot be decided now: see the log')
    for disk in state.disks:
        name = f'{disk.device} ({disk.uuid[:_UUID_LENGTH]})'
        if disk.uuid in state.hung:
            notes.append(f'! {name} is hung: it does not answer')
        notes += [f'! {name}: {warning}' for warning in disk.warnings.values()]
        if disk.error:
            notes.append(f'! {name}: weights do nothing: {disk.error}')
        if disk.left_out:
            notes.append(f'{name} has no weights: {disk.left_out}')
    notes += [
        f'! {uuid[:_UUID_LENGTH]} is not watched: {reason}'
        for uuid, reason in sorted(state.unwatched.items())
    ]
    pairs = state.pairs
    notes += [
        f'! {server[:_UUID_LENGTH]} on {disk[:_UUID_LENGTH]}: {error}'
        for server, disk, error in zip(
            pairs.servers, pairs.disks, pairs.errors, strict=True
        )
        if error
    ]
    return [terminal.printable(note) for note in notes]


def _disk_rows(state: status.Status, long: bool) -> list[Row]:
    disks = sorted(
        state.disks,
        key=lambda disk: (-disk.read_bytes - disk.write_bytes, disk.uuid),
    )
    return [
        (
            disk.uuid if long else disk.uuid[:_UUID_LENGTH],
            disk.device,
            _mb(disk.read_bytes),
            _mb(disk.write_bytes),
            _sum(disk),
            f'{disk.busy:.0%}',
            f'{disk.queue:.1f}',
            _milliseconds(disk.latency),
            f'{disk.pressure:.0%}',
            _activity(disk),
            _weights(disk),
        )
        for disk in disks
    ]


def _sum(disk: status.Disk) -> str:
    """Return the throughput as a share of what the disk can do."""
    if disk.speed is None:
        return '-'
    return f'{(disk.read_bytes + disk.write_bytes) / disk.speed:.0%}'


def _weights(disk: status.Disk) -> str:
    """Return the controller, with what its settings cost."""
    if disk.error:
        return 'ERROR'
    if disk.left_out:
        return 'left out'
    cost = '' if disk.lost is None else f' -{disk.lost:.0%}'
    return f'{disk.controller}{cost}' or '-'


def _activity(disk: status.Disk) -> str:
    if disk.in_standby:
        return 'standby'
    return 'idle' if disk.idle else '-'


def _server_rows(state: status.Status, long: bool) -> list[Row]:
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
        (
            _server(pairs.servers[row], long),
            terminal.printable(pairs.projects[row][:_UUID_LENGTH]) or '-',
            terminal.printable(pairs.domains[row]) or '-',
            devices.get(pairs.disks[row], pairs.disks[row][:_UUID_LENGTH]),
            _mb(pairs.read_bytes[row]),
            _mb(pairs.write_bytes[row]),
            f'{pairs.reads[row] + pairs.writes[row]:.0f}',
            _milliseconds(pairs.guest_latencies[row]),
            _number(pairs.budgets[row], '.0%'),
            _number(pairs.classes[row], '.0f'),
            _weight(pairs.weights[row], state.mode),
            'ERROR' if pairs.errors[row] else pairs.reasons[row] or '-',
        )
        for row in order
    ]


def _server(key: str, long: bool) -> str:
    if long:
        return terminal.printable(key)
    # cgroups differ by the ends of their paths
    if '/' in key:
        return terminal.printable(key.rpartition('/')[2][:_CGROUP_LENGTH])
    return terminal.printable(key[:_UUID_LENGTH])


def _weight(weight: int | None, mode: str) -> str:
    """Return a weight, in a dry run after the kernel's default."""
    shown = _number(weight, 'd')
    if mode == 'dry_run' and _would_change(weight):
        return f'{controllers.DEFAULT_WEIGHT}→{shown}'
    return shown


def _would_change(weight: int | None) -> bool:
    return weight is not None and weight < controllers.DEFAULT_WEIGHT


def _milliseconds(seconds: float | None) -> str:
    return '-' if seconds is None else f'{seconds * 1000:.1f}'


def _mb(bytes_: float) -> str:
    return f'{bytes_ / 1e6:.1f}'


def _number(value: float | None, format_: str) -> str:
    return '-' if value is None else format(value, format_)
