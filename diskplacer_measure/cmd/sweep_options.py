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

"""The options of diskplacer-manage sweep plan and run."""

import argparse
import re
import typing

from diskplacer_measure.sweep import cells
from nova_diskplacer import arguments

# Figures of more threads might not fit into a console: see plan.READ_EVERY.
_MOST_JOBS = 128

# P0, section IV-B, but for repetitions and seconds.
_DEFAULTS: dict[str, typing.Any] = {
    'scenario': list(cells.SCENARIOS),
    'jobs': [1, 2, 4, 8, 16],
    'engine': list(cells.ENGINES),
    'depth': [256],
    'guest_scheduler': ['none'],
    'read_ahead_kb': [128],
    'mib': 4096,
    'kib': 4,
    'seconds': 30,
    'repetitions': 5,
}
_QUICK: dict[str, typing.Any] = {
    **_DEFAULTS,
    'shape': [cells.Shape(1, 1024)],
    'jobs': [2],
    'engine': ['async'],
    'depth': [32],
    'host_scheduler': ['none'],
    'mib': 64,
    'kib': 64,
    'seconds': 3,
    'repetitions': 2,
}


def add_grid(command: argparse.ArgumentParser) -> None:
    """Add the options that ``plan`` and ``run`` share."""
    command.add_argument('uuid', metavar='DISK_UUID')
    command.add_argument(
        '--quick',
        action='store_true',
        help='measure a few cells of every scenario, a few seconds each: '
        'change the defaults to that',
    )
    _add_list(command, 'scenario', 'where to measure', choices=cells.SCENARIOS)
    _add_list(
        command,
        'shape',
        'vCPUs and MiB of memory of servers (default: 1:1024 2:4096 4:8192 '
        '8:16384 16:16384, those that fit on this host; with --quick 1:1024)',
        type=_shape,
        metavar='VCPUS:RAM_MIB',
        default_text='',
    )
    _add_list(
        command,
        'jobs',
        'threads at once on bare metal and in one server, and servers at '
        'once of one thread each, of the smallest shape, as far as they fit',
        type=arguments.number(int, 1, _MOST_JOBS),
    )
    _add_list(
        command,
        'engine',
        'blocking calls past the page cache or through it, or asynchronous '
        'I/O past it',
        choices=cells.ENGINES,
    )
    _add_list(
        command,
        'depth',
        'requests in flight of each thread of asynchronous I/O',
        type=arguments.number(int, 1, 4096),
    )
    _add_list(
        command,
        'host_scheduler',
        'I/O schedulers of the disk; blocking calls are measured with the '
        'first only (default: those of mq-deadline, none and bfq that the '
        'kernel has; with --quick none)',
        metavar='NAME',
        default_text='',
    )
    _add_list(
        command,
        'guest_scheduler',
        'I/O schedulers of vdisks in servers',
        type=_word,
        metavar='NAME',
    )
    _add_list(
        command,
        'read_ahead_kb',
        'read-ahead in KiB of the device that fio uses; all but reads through '
        'the page cache are measured with the first only',
        type=arguments.number(int, 0, 1048576),
    )
    _add_number(
        command, 'mib', 'MiB that all threads of a cell move together', 1
    )
    _add_number(command, 'kib', 'size of a request in KiB', 1, 4096)
    _add_number(
        command, 'seconds', 'seconds that fio runs in a cell, at most', 1
    )
    _add_number(command, 'repetitions', 'how often each cell is measured', 1)
    command.add_argument(
        '--boot-timeout',
        type=arguments.number(int, 10, 86400),
        default=300,
        metavar='SECONDS',
        help='time in which servers have to boot (default: %(default)s)',
    )


def add_servers(command: argparse.ArgumentParser) -> None:
    """Add the options of ``run`` alone."""
    command.add_argument(
        '--results',
        required=True,
        metavar='FILE',
        help='file for the results; if it exists, its run is continued',
    )
    command.add_argument(
        '--image',
        metavar='IMAGE',
        help='name or ID of the image of servers, which has fio; needed '
        'unless bare metal alone is measured',
    )
    command.add_argument(
        '--volume-type',
        default='vdisk',
        metavar='TYPE',
        help='volume type of vdisks (default: %(default)s)',
    )


def _add_list(
    command: argparse.ArgumentParser,
    name: str,
    text: str,
    default_text: str | None = None,
    **options: typing.Any,
) -> None:
    """Add an option with several values."""
    if default_text is None:
        default_text = _default_text(name)
    options.setdefault('metavar', None if 'choices' in options else 'N')
    command.add_argument(
        f'--{name.replace("_", "-")}',
        nargs='+',
        action='extend',
        help=f'{text} {default_text}'.rstrip(),
        **options,
    )


def _add_number(
    command: argparse.ArgumentParser,
    name: str,
    text: str,
    least: int,
    most: int = 1 << 30,
) -> None:
    command.add_argument(
        f'--{name}',
        type=arguments.number(int, least, most),
        metavar='N',
        help=f'{text} {_default_text(name)}',
    )


def _default_text(name: str) -> str:
    default, quick = (_shown(values[name]) for values in (_DEFAULTS, _QUICK))
    if default == quick:
        return f'(default: {default})'
    return f'(default: {default}; with --quick {quick})'


def _shown(value: typing.Any) -> str:
    return ' '.join(map(str, value)) if isinstance(value, list) else str(value)


def _word(text: str) -> str:
    # the script of servers divides its lines at blanks
    if not re.fullmatch('[a-z0-9_-]+', text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is no name of lower-case letters, digits, - and _'
        )
    return text


def _shape(text: str) -> cells.Shape:
    vcpus, _, ram = text.partition(':')
    if not (vcpus.isdecimal() and ram.isdecimal() and int(vcpus) * int(ram)):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not VCPUS:RAM_MIB, two integers of at least 1'
        )
    return cells.Shape(int(vcpus), int(ram))


def resolve(args: argparse.Namespace) -> None:
    """Give options that are not set their defaults."""
    for name, value in (_QUICK if args.quick else _DEFAULTS).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
