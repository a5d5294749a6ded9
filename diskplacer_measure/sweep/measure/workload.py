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

"""The script that measures cells, and what it prints.

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

_SERVER = (
    r'ready booted=(?P<booted>\d+) now=(?P<now>\d+) fill=(?P<fill>\d+) end'
)
_CELL = (
    r'cell (?P<id>\S+) began=(?P<began>\d+) took=(?P<took>\d+) '
    r'kib=(?P<kib>[\d,]+) ms=(?P<ms>[\d,]+) latency=(?P<latency>[\d.]+) '
    r'usr=(?P<usr>[\d.]+) sys=(?P<sys>[\d.]+) ctx=(?P<ctx>\d+) '
    r'cpu=(?P<cpu>[\d,]+) end'
)
_CPU = ('user', 'system', 'idle', 'iowait', 'steal')


@dataclasses.dataclass(frozen=True)
class Ready:
    """A server is ready to measure.

    ``booted`` and ``now`` are times by its clock, in seconds since the epoch:
    when its script began, and when its vdisk was filled, ``fill_seconds``
    later.
    """

    booted: int
    now: int
    fill_seconds: float


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one machine measured for a cell.

    ``began`` is in seconds since the epoch, ``seconds`` the time that fio took
    with its start and end. ``kib`` and ``ms`` are what each thread moved, and
    the time it took. ``latency_us`` is the mean completion latency of all
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


@dataclasses.dataclass(frozen=True)
class Console:
    """What a machine has printed so far.

    ``measured`` and ``failed`` (with the reason) are by the cell's id.
    ``error`` says why it measures nothing, '' if it does.
    """

    ready: Ready | None
    measured: dict[str, Measured]
    failed: dict[str, str]
    error: str
    done: bool


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
    """Return a script that measures cells and prints what it finds.

    :param lines: see :func:`line`.
    :param token: marks what it prints.
    :param mib: MiB that the threads of a cell move together.
    :param kib: size of a request in KiB.
    :param seconds: what a cell may take.
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


def parse(text: str, token: str) -> Console:
    """Return what the script with a token has printed.

    Lines that are incomplete, or that others have run into, are ignored; each
    is printed twice.
    """
    ready, error, done = None, '', False
    measured: dict[str, Measured] = {}
    failed: dict[str, str] = {}
    for found in re.finditer(
        rf'sweep {re.escape(token)} (\w+)([^\r\n]*)', text
    ):
        kind, rest = found.groups()
        whole = f'{kind}{rest}'.rstrip()
        if match := re.fullmatch(_SERVER, whole):
            ready = Ready(
                int(match['booted']),
                int(match['now']),
                int(match['fill']) / 100,
            )
        elif match := re.fullmatch(_CELL, whole):
            one = _measured(match)
            if one is not None:
                measured[match['id']] = one
        elif match := re.fullmatch(r'late (\S+)', whole):
            failed[match[1]] = 'a server came to the cell too late'
        elif match := re.fullmatch(r'failed (\S+) (.*)', whole):
            failed[match[1]] = match[2]
        elif kind == 'error':
            error = error or rest.strip()
        elif whole == 'done end':
            done = True
    return Console(ready, measured, failed, error, done)


def _measured(match: re.Match[str]) -> Measured | None:
    kib, ms, cpu = (
        [int(number) for number in match[name].split(',') if number]
        for name in ('kib', 'ms', 'cpu')
    )
    if len(kib) != len(ms) or len(cpu) != len(_CPU) or not all(ms):
        return None
    return Measured(
        int(match['began']),
        int(match['took']) / 100,
        tuple(kib),
        tuple(ms),
        float(match['latency']),
        min(1.0, (float(match['usr']) + float(match['sys'])) / 100),
        int(match['ctx']),
        {
            name: jiffies / max(1, sum(cpu))
            for name, jiffies in zip(_CPU, cpu, strict=True)
        },
    )
