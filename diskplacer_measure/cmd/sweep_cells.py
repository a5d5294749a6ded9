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

"""The cells that the options of diskplacer-manage sweep ask for.

Options that this host cannot have are refused before anything is changed.
"""

import argparse
import collections.abc

from oslo_config import cfg

from diskplacer_measure.cmd import sweep_options
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import grid
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import host_facts
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client

# Share of a disk's throughput at which space is filled, as an estimate.
_CAUTION = 0.5

_SCHEDULERS = ('mq-deadline', 'none', 'bfq')

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
    'cache_mode': '[libvirt] disk_cachemodes',
    'read_ahead_kb': '--read-ahead-kb',
}
_HEADER_OPTIONS = {
    'data_mib': '--mib',
    'seconds': '--seconds',
    'block_kib': '--kib',
    'repetitions': '--repetitions',
}
_VERSIONS = {
    name: name for name in ('kernel', 'fio', 'qemu', 'libvirt', 'nova')
}


def read(
    conf: cfg.ConfigOpts, args: argparse.Namespace
) -> tuple[host_facts.Host, tuple[cells.Cell, ...]]:
    """Return the facts of this host, and the cells to measure on it.

    Options that are not set get their defaults.

    :raises DiskPlacerError: an option is not possible on this host.
    """
    sweep_options.resolve(args)
    host = host_facts.read(conf, args.uuid)
    capacity = host_facts.read_capacity(
        placement_client.PlacementClient.from_conf(conf), args.uuid
    )
    return host, cells_of(args, host, capacity)


def timing(args: argparse.Namespace, host: host_facts.Host) -> plan.Timing:
    """Return the timing of a run before its first boot."""
    return plan.Timing(args.boot_timeout, max(1, host.disk.mbps) * _CAUTION)


def cells_of(
    args: argparse.Namespace,
    host: host_facts.Host,
    capacity: host_facts.Capacity,
) -> tuple[cells.Cell, ...]:
    """Return the cells that options ask for, one or more.

    :param args: with defaults; see :func:`sweep_options.resolve`.
    :raises DiskPlacerError: an option is not possible on this host.
    """
    _check_threads(args)
    shapes: list[cells.Shape] = []
    at_once: list[int] = []
    mode = ''
    if set(args.scenario) - {'bare'}:
        shapes = _shapes(args, capacity)
        mode = _cache_mode(host)
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
    shapes: list[cells.Shape] = args.shape
    if not shapes:
        shapes = [shape for shape in grid.SHAPES if capacity.fits(shape)]
    if not shapes:
        raise exception.DiskPlacerError(
            f'no default of --shape fits on this host: {_describe(capacity)}'
        )
    for shape in shapes:
        if not capacity.fits(shape):
            raise exception.DiskPlacerError(
                f'--shape {shape.vcpus}:{shape.ram_mib} does not fit on this '
                f'host: {_describe(capacity)}'
            )
    return shapes


def _servers_at_once(
    args: argparse.Namespace, shape: cells.Shape, capacity: host_facts.Capacity
) -> list[int]:
    """Return the numbers of servers that run at once: those that fit."""
    numbers = [
        jobs for jobs in args.jobs if jobs > 1 and capacity.fits(shape, jobs)
    ]
    if not numbers:
        raise exception.DiskPlacerError(
            f'--jobs {" ".join(map(str, args.jobs))} has no number of 2 or '
            f'more servers of {shape.vcpus}:{shape.ram_mib} that fit on this '
            f'host: {_describe(capacity)}; --scenario leaves out servers'
        )
    return numbers


def _describe(capacity: host_facts.Capacity) -> str:
    return (
        f'Placement has {capacity.vcpus} vCPUs of the host, '
        f'{capacity.vcpus_of_one} at most for one server, and '
        f'{capacity.ram_mib} MiB of memory'
    )


def _check_read_ahead(args: argparse.Namespace, host: host_facts.Host) -> None:
    fixed = host.fixed_read_ahead
    for kib in args.read_ahead_kb:
        if fixed is not None and kib != fixed:
            raise exception.DiskPlacerError(
                f'--read-ahead-kb {kib} is not possible on bare metal: the '
                f'filesystem is on {host.disk.device}, whose read-ahead is '
                f'{fixed}'
            )


def _schedulers(
    args: argparse.Namespace, host: host_facts.Host
) -> collections.abc.Sequence[str]:
    schedulers: list[str] = args.host_scheduler or [
        name for name in _SCHEDULERS if name in host.schedulers
    ]
    for name in schedulers:
        if name not in host.schedulers:
            raise exception.DiskPlacerError(
                f'--host-scheduler {name} is not one of those of '
                f'{host.device}: {", ".join(host.schedulers) or "none at all"}'
            )
    if not schedulers:
        raise exception.DiskPlacerError(
            f'{host.device} has no I/O scheduler that could be chosen'
        )
    return schedulers


def _cache_mode(host: host_facts.Host) -> str:
    if not host.cache_mode:
        raise exception.DiskPlacerError(
            'the cache mode of vdisks is not known: [diskplacer_agent] '
            'nova_conf names no file of nova-compute'
        )
    return host.cache_mode


def needed_gb(
    planned: collections.abc.Iterable[cells.Cell], data_mib: int
) -> int:
    """Return the GiB that a boot takes on the disk, at most.

    :param data_mib: MiB that the threads of a cell move together.
    """
    return max(
        workload.size_gb(target.share_mib(data_mib)) * max(target.servers, 1)
        for target in {plan.Target.of(cell) for cell in planned}
    )


def require_room(disk: discover.Disk, need_gb: int) -> None:
    """Check that every boot finds room on a disk.

    :raises DiskError: one would not.
    """
    if need_gb > disk.free_gb:
        raise exception.DiskError(
            f'disk {disk.uuid} has {disk.free_gb} GiB free, {need_gb} GiB are '
            'measured: --mib or --jobs is less'
        )


def require_same(
    path: str, earlier: results.Header, current: results.Header
) -> None:
    """Check that a run is continued with the same options and versions.

    :raises DiskPlacerError: options or versions differ; names each, and both
        values.
    """
    changes = _differences(_HEADER_OPTIONS, earlier, current)
    if earlier.disk.uuid != current.disk.uuid:
        changes.append(f'DISK_UUID was {earlier.disk.uuid}')
    if earlier.host != current.host:
        changes.append(f'the host was {earlier.host}')
    if earlier.plan != current.plan and not changes:
        changes = [
            f'{option} was {before}, is {now}'
            for name, option in _OPTIONS.items()
            if (before := _values(earlier, name))
            != (now := _values(current, name))
        ] or ['the combinations of options differ']
    if changes:
        raise exception.DiskPlacerError(
            f'{path} has results of a run with other options: '
            f'{"; ".join(changes)}. Use these, or another file.'
        )
    upgrades = _differences(_VERSIONS, earlier, current)
    if upgrades:
        raise exception.DiskPlacerError(
            f'{path} has results of other versions, which would not compare: '
            f'{"; ".join(upgrades)}. Use another file.'
        )


def _differences(
    labels: collections.abc.Mapping[str, str],
    earlier: results.Header,
    current: results.Header,
) -> list[str]:
    """Return the fields that differ, by their labels, with both values."""
    return [
        f'{label} was {before}, is {now}'
        for name, label in labels.items()
        if (before := getattr(earlier, name))
        != (now := getattr(current, name))
    ]


def _values(header: results.Header, name: str) -> str:
    values = sorted({getattr(cell, name) for cell in header.plan})
    return ' '.join(str(value) for value in values if value != '')
