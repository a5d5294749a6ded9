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

"""The script that measures cells, and the parser of its output.

The same script, ``worker.sh``, runs in servers and on bare metal.
"""

import collections.abc
import dataclasses
import functools
import importlib.resources
import re
import shlex

from diskplacer_measure.sweep import cells

MIB = 1 << 20

_CPU = ('user', 'system', 'idle', 'iowait', 'steal')


@dataclasses.dataclass(frozen=True)
class Ready:
    """The line of a server that is ready to measure.

    ``booted`` and ``now`` are times by its clock, in seconds since the epoch:
    when its script began, and when its vdisk was filled, ``fill_seconds``
    later.
    """

    booted: int
    now: int
    fill_seconds: float


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measurement of a cell by one machine.

    ``began`` is in seconds since the epoch, ``seconds`` the time that fio took
    with its start and end. ``kib`` and ``ms`` are the data and the time of
    each thread. ``latency_us`` is the mean completion latency of all
    requests. ``executing`` is the share of time in which the threads executed,
    ``switches`` the number of their context switches. ``cpu`` are the shares
    of all processor time.
    """

    began: int
    seconds: float
    kib: tuple[int, ...]
    ms: tuple[int, ...]
    latency_us: float
    executing: float
    switches: int
    cpu: dict[str, float]


@dataclasses.dataclass
class Console:
    """The output of a machine so far.

    ``measured`` and ``failed`` (with the reason) are by the cell's id.
    ``error`` is the reason that it measures nothing, '' if it does.
    """

    ready: Ready | None = None
    measured: dict[str, Measured] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    error: str = ''
    done: bool = False


def size_gb(mib: int) -> int:
    """Return the GiB of a vdisk with room for MiB."""
    return -(-mib // 1024)


def line(id_: str, cell: cells.Cell, start: int) -> str:
    """Return the line that asks for a cell.

    :param start: in seconds since the epoch, 0 for at once.
    """
    queue = ('-', '-')
    if cell.servers:
        queue = (cell.guest_scheduler, str(cell.read_ahead_kb))
    return ' '.join(
        (
            id_,
            str(start),
            cell.engine,
            cell.operation,
            str(cell.jobs),
            str(cell.depth),
            *queue,
        )
    )


def script(
    lines: collections.abc.Iterable[str],
    *,
    token: str,
    mib: int,
    kib: int,
    seconds: int,
    device: str = '',
    size_bytes: int = 0,
    launch: str = '',
) -> str:
    """Return a script that measures cells and prints the results.

    :param lines: see :func:`line`.
    :param token: marks its output.
    :param mib: MiB that the threads of a cell move together.
    :param kib: size of a request in KiB.
    :param seconds: the time of a cell at most.
    :param device: the measured file or device; '' for the vdisk of a server,
        which has ``size_bytes``.
    :param launch: command that runs fio.
    """
    settings = {
        'token': token,
        'device': device,
        'bytes': size_bytes,
        'mib': mib,
        'kib': kib,
        'seconds': seconds,
        'launch': launch,
        'cells': '\n'.join(lines),
    }
    return '\n'.join(
        (
            '#!/bin/sh',
            *(f'{k}={shlex.quote(str(v))}' for k, v in settings.items()),
            _worker(),
        )
    )


@functools.cache
def _worker() -> str:
    files = importlib.resources.files(__package__)
    return files.joinpath('worker.sh').read_text(encoding='utf-8')


def _set_ready(console: Console, line: re.Match[str]) -> None:
    console.ready = Ready(
        int(line['booted']), int(line['now']), int(line['fill']) / 100
    )


def _add_measured(console: Console, line: re.Match[str]) -> None:
    kib, ms, cpu = (
        [int(number) for number in line[name].split(',') if number]
        for name in ('kib', 'ms', 'cpu')
    )
    if len(kib) != len(ms) or len(cpu) != len(_CPU) or not all(ms):
        return
    console.measured[line['id']] = Measured(
        int(line['began']),
        int(line['took']) / 100,
        tuple(kib),
        tuple(ms),
        float(line['latency']),
        min(1.0, (float(line['usr']) + float(line['sys'])) / 100),
        int(line['ctx']),
        {
            name: jiffies / max(1, sum(cpu))
            for name, jiffies in zip(_CPU, cpu, strict=True)
        },
    )


def _add_late(console: Console, line: re.Match[str]) -> None:
    console.failed[line['id']] = 'a server came to the cell too late'


def _add_failed(console: Console, line: re.Match[str]) -> None:
    console.failed[line['id']] = line['reason']


def _set_error(console: Console, line: re.Match[str]) -> None:
    console.error = console.error or line['reason'].strip()


def _set_done(console: Console, line: re.Match[str]) -> None:
    console.done = True


# The lines of the script, after its token.
_LINES: tuple[
    tuple[str, collections.abc.Callable[[Console, re.Match[str]], None]], ...
] = (
    (
        r'ready booted=(?P<booted>\d+) now=(?P<now>\d+) '
        r'fill=(?P<fill>\d+) end',
        _set_ready,
    ),
    (
        r'cell (?P<id>\S+) began=(?P<began>\d+) took=(?P<took>\d+) '
        r'kib=(?P<kib>[\d,]+) ms=(?P<ms>[\d,]+) latency=(?P<latency>[\d.]+) '
        r'usr=(?P<usr>[\d.]+) sys=(?P<sys>[\d.]+) ctx=(?P<ctx>\d+) '
        r'cpu=(?P<cpu>[\d,]+) end',
        _add_measured,
    ),
    (r'late (?P<id>\S+)', _add_late),
    (r'failed (?P<id>\S+) (?P<reason>.*)', _add_failed),
    (r'error\b(?P<reason>.*)', _set_error),
    (r'done end', _set_done),
)


def parse(text: str, token: str) -> Console:
    """Return the output of the script with a token.

    Lines that are incomplete, or that others have run into, are ignored; each
    is printed twice.
    """
    console = Console()
    for line in re.findall(rf'sweep {re.escape(token)} (\w[^\r\n]*)', text):
        for pattern, add in _LINES:
            if match := re.fullmatch(pattern, line.rstrip()):
                add(console, match)
                break
    return console
