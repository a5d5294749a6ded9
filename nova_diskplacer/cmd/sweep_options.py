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
import collections.abc
import typing

from nova_diskplacer import exception
from nova_diskplacer.client import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.sweep import cells
from nova_diskplacer.sweep import grid
from nova_diskplacer.sweep import host_facts
from nova_diskplacer.sweep import plan
from nova_diskplacer.sweep import results
from nova_diskplacer.sweep import workload

_SCHEDULERS = ('mq-deadline', 'none', 'bfq')

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

# The option of each field of a cell.
_OPTIONS = {
    'scenario': '--scenario',
    'servers': '--jobs',
    'vcpus': '--shape',
    'ram_mib': '--shape',
    'engine': '--engine',
    'jobs': '--jobs',
    'depth': '--depth',
    'host_scheduler': '--host-scheduler',
    'guest_scheduler': '--guest-scheduler',
    'cache_mode': '--cache-mode',
    'read_ahead_kb': '--read-ahead-kb',
}
_HEADER_OPTIONS = {
    'data_mib': '--mib',
    'seconds': '--seconds',
    'block_kib': '--kib',
    'repetitions': '--repetitions',
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
        type=shell.number(int, 1, 1024),
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
        type=shell.number(int, 1, 4096),
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
        metavar='NAME',
    )
    _add_list(
        command,
        'read_ahead_kb',
        'read-ahead in KiB of the device that fio uses; all but reads through '
        'the page cache are measured with the first only',
        type=shell.number(int, 0, 1048576),
    )
    _add_list(
        command,
        'cache_mode',
        "cache mode of vdisks; only this host's own can be measured, because "
        'nova-compute has one for all',
        metavar='MODE',
        default_text="(default: this host's)",
    )
    _add_number(
        command, 'mib', 'MiB that all threads of a cell move together', 1
    )
    _add_number(command, 'kib', 'size of a request in KiB', 1, 4096)
    _add_number(command, 'seconds', 'what a cell may take; it ends there', 1)
    _add_number(command, 'repetitions', 'how often each cell is measured', 1)
    command.add_argument(
        '--boot-timeout',
        type=shell.number(int, 10, 86400),
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
    command.add_argument(
        '--network',
        default='',
        metavar='ID',
        help='network of servers, which need none (default: none)',
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
        type=shell.number(int, least, most),
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


def cells_of(
    args: argparse.Namespace,
    host: host_facts.Host,
    capacity: host_facts.Capacity,
) -> tuple[cells.Cell, ...]:
    """Return the cells that options ask for, one or more.

    :param args: with defaults; see :func:`resolve`.
    :raises DiskPlacerError: an option is not possible on this host.
    """
    _check_threads(args)
    shapes: list[cells.Shape] = []
    at_once: list[int] = []
    mode = ''
    if set(args.scenario) - {'bare'}:
        shapes = _shapes(args, capacity)
        mode = _cache_mode(args, host)
    if 'servers' in args.scenario:
        at_once = _servers_at_once(args, min(shapes), capacity)
    if 'bare' in args.scenario:
        _check_read_ahead(args, host)
    return grid.build(
        grid.Grid(
            scenarios=args.scenario,
            shapes=shapes,
            jobs=args.jobs,
            at_once=at_once,
            engines=args.engine,
            depths=args.depth,
            host_schedulers=_schedulers(args, host),
            guest_schedulers=args.guest_scheduler,
            read_ahead_kb=args.read_ahead_kb,
            cache_mode=mode,
        )
    )


def _check_threads(args: argparse.Namespace) -> None:
    threads = max(args.jobs)
    if args.mib // threads * 1024 < args.kib:
        raise exception.DiskPlacerError(
            f'--mib {args.mib} is too little for --jobs {threads}: each '
            f'thread moves at least a MiB, and a request of --kib {args.kib}'
        )


def _shapes(
    args: argparse.Namespace, capacity: host_facts.Capacity
) -> list[cells.Shape]:
    """Return the shapes of servers; the default ones that fit."""
    wanted: list[cells.Shape] = args.shape
    if not wanted:
        wanted = [shape for shape in grid.SHAPES if capacity.fits(shape)]
    if not wanted:
        raise exception.DiskPlacerError(
            f'no default of --shape fits on this host: {_describe(capacity)}'
        )
    for shape in wanted:
        if not capacity.fits(shape):
            raise exception.DiskPlacerError(
                f'--shape {shape.vcpus}:{shape.ram_mib} does not fit on this '
                f'host: {_describe(capacity)}'
            )
    return wanted


def _servers_at_once(
    args: argparse.Namespace, shape: cells.Shape, capacity: host_facts.Capacity
) -> list[int]:
    """Return the numbers of servers that run at once: those that fit."""
    found = [
        jobs for jobs in args.jobs if jobs > 1 and capacity.fits(shape, jobs)
    ]
    if not found:
        raise exception.DiskPlacerError(
            f'--jobs {_shown(args.jobs)} has no number of 2 or more servers '
            f'of {shape.vcpus}:{shape.ram_mib} that fit on this host: '
            f'{_describe(capacity)}; --scenario leaves out servers'
        )
    return found


def _describe(capacity: host_facts.Capacity) -> str:
    return (
        f'Placement has {capacity.vcpus} vCPUs of it, '
        f'{capacity.vcpus_of_one} for one server, and {capacity.ram_mib} MiB'
    )


def _check_read_ahead(args: argparse.Namespace, host: host_facts.Host) -> None:
    fixed = host.fixed_read_ahead
    for kib in args.read_ahead_kb:
        if fixed is not None and kib != fixed:
            raise exception.DiskPlacerError(
                f'--read-ahead-kb {kib} cannot be had on bare metal: the '
                f'filesystem is on {host.disk.device}, whose read-ahead is '
                f'{fixed}'
            )


def _schedulers(
    args: argparse.Namespace, host: host_facts.Host
) -> collections.abc.Sequence[str]:
    wanted: list[str] = args.host_scheduler or [
        name for name in _SCHEDULERS if name in host.schedulers
    ]
    for name in wanted:
        if name not in host.schedulers:
            raise exception.DiskPlacerError(
                f'--host-scheduler {name} is not one of those of '
                f'{host.device}: {", ".join(host.schedulers) or "none at all"}'
            )
    if not wanted:
        raise exception.DiskPlacerError(
            f'{host.device} has no I/O scheduler that could be chosen'
        )
    return wanted


def _cache_mode(args: argparse.Namespace, host: host_facts.Host) -> str:
    if not host.cache_mode:
        raise exception.DiskPlacerError(
            'the cache mode of vdisks is not known: [diskplacer_agent] '
            'nova_conf names no file of nova-compute'
        )
    for mode in args.cache_mode or ():
        if mode != host.cache_mode:
            raise exception.DiskPlacerError(
                f'--cache-mode {mode} is not available here: nova-compute '
                f'attaches all vdisks with {host.cache_mode}, see [libvirt] '
                'disk_cachemodes'
            )
    return host.cache_mode


def require_room(
    args: argparse.Namespace,
    planned: collections.abc.Iterable[cells.Cell],
    disk: discover.Disk,
) -> None:
    """Check that all boots find room on a disk.

    :raises DiskError: one would not.
    """
    for body in {plan.Body.of(cell) for cell in planned}:
        wanted = workload.size_gb(body.share_mib(args.mib))
        wanted *= max(body.servers, 1)
        if wanted > disk.free_gb:
            raise exception.DiskError(
                f'disk {disk.uuid} has {disk.free_gb} GiB free, --mib '
                f'{args.mib} needs {wanted} GiB'
                + (f' for {body.servers} servers' if body.servers else '')
            )


def require_same(
    path: str, before: results.Header, now: results.Header
) -> None:
    """Check that a run is continued with the options that it began with.

    :raises DiskPlacerError: they differ; names each, and both values.
    """
    changes = [
        f'{option} was {getattr(before, name)}, is {getattr(now, name)}'
        for name, option in _HEADER_OPTIONS.items()
        if getattr(before, name) != getattr(now, name)
    ]
    if before.disk.uuid != now.disk.uuid:
        changes.append(f'DISK_UUID was {before.disk.uuid}')
    if before.host != now.host:
        changes.append(f'the host was {before.host}')
    if before.plan != now.plan and not changes:
        changes = [
            f'{option} was {was}, is {is_}'
            for name, option in _OPTIONS.items()
            if (was := _values(before, name)) != (is_ := _values(now, name))
        ] or ['the combinations of options differ']
    if changes:
        raise exception.DiskPlacerError(
            f'{path} has results of a run with other options: '
            f'{"; ".join(changes)}. Use these, or another file.'
        )


def _values(header: results.Header, name: str) -> str:
    found = sorted({getattr(cell, name) for cell in header.plan})
    return ' '.join(str(value) for value in found if value != '')


def find_image(connection: typing.Any, args: argparse.Namespace) -> str:
    """Return the ID of the image of servers.

    :raises DiskPlacerError: there is none, or Glance does not answer.
    """
    if not args.image:
        raise exception.DiskPlacerError(
            '--image is missing: servers boot from an image with fio'
        )
    with cloud.convert_errors(f'--image {args.image}'):
        image = connection.image.find_image(args.image, ignore_missing=False)
    return str(image.id)
