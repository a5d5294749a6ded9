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
"""diskplacer-manage disk measure: measures the speed of disks."""

import argparse
import collections.abc
import contextlib
import dataclasses
import datetime
import os
from typing import Any

from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer import terminal
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import conditions
from nova_diskplacer.disks.measure import fio
from nova_diskplacer.disks.measure import hwdb
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import files
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers

MIB = 1 << 20

# Size in MiB of the measured space; the default is larger than disk caches.
_DEFAULT_SIZE = 8192
_MIN_SIZE = 64
_SECONDS = 15


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``diskplacer-manage disk``."""
    command = shell.add_command(
        commands,
        'measure',
        _measure,
        'measure the speed of disks',
        'Measures disks with fio in free space, which it frees '
        'afterwards. It saves the result on the disk: the model for io.cost, '
        'and the MB/s that servers may claim in Placement, those of long '
        'sequential reads or writes, whichever is slower. I/O weights use no '
        'io.cost on hard disks. Nothing else should '
        'use the disk meanwhile. It has no I/O scheduler then, and merges no '
        'requests; the command restores its queue.',
    )
    command.add_argument('uuids', nargs='+', metavar='UUID')
    command.add_argument(
        '--size',
        type=arguments.number(int, _MIN_SIZE),
        metavar='MIB',
        help=f'size of the measured space (default: {_DEFAULT_SIZE}, at most '
        'a quarter of the free space)',
    )
    command.add_argument(
        '--seconds',
        type=arguments.number(int, 1),
        default=_SECONDS,
        help='duration of each of seven loads (default: %(default)s)',
    )
    command.add_argument(
        '--force',
        action='store_true',
        help='measure disks with vdisks of running servers too: this slows '
        'the servers down, and their I/O makes the figures too low; with '
        '--like, take the figures of another model of drive',
    )
    source = command.add_mutually_exclusive_group()
    source.add_argument(
        '--like',
        metavar='UUID',
        help='measure nothing, and take the figures of this disk, which must '
        'be the same model of drive',
    )
    source.add_argument(
        '--from',
        dest='file',
        metavar='FILE',
        help='measure nothing, and take the figures of a file: the output of '
        'this command with --format json for one disk, or rbps=... and the '
        'other coefficients of io.cost.model',
    )
    source.add_argument(
        '--from-hwdb',
        action='store_true',
        help='measure nothing, and take the figures that the hardware '
        'database of systemd has for the model of drive (iocost.conf(5))',
    )
    shell.add_format(command)


def _measure(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('measuring a disk needs root')
    disk_root = conf.diskplacer.disk_root
    disks = _measurable_disks(disk_root, args.uuids)
    models = _known_models(disk_root, disks, args)
    if models:
        for uuid, model in models.items():
            with conditions.locked(uuid):
                io_model.save(disk_root, uuid, model)
        _report(disks, models, args.format)
        return 0
    if not args.force:
        check_unused(conf.diskplacer_agent.libvirt_uri, disks)
    sizes = [size_mib(disk, args.size) for disk in disks]
    terminal.exit_on_signals()
    try:
        for disk, size in zip(disks, sizes, strict=True):
            models[disk.uuid] = measure(conf, disk, size * MIB, args.seconds)
    except KeyboardInterrupt:
        shell.write_progress(
            '\nInterrupted: the space of the disk is free again.\n'
        )
        return exit_status.INTERRUPTED
    _report(disks, models, args.format)
    return 0


def _known_models(
    disk_root: str, disks: list[discover.Disk], args: argparse.Namespace
) -> dict[str, io_model.Model]:
    """Return the models that need no measurement, by the UUID of the disk.

    :raises DiskError: there is no model where the arguments say.
    """
    if args.from_hwdb:
        return {disk.uuid: hwdb.read_model(disk) for disk in disks}
    if args.file:
        model = io_model.read_file(args.file)
    elif args.like:
        model = _model_like(disk_root, args.like, disks, args.force)
    else:
        return {}
    return {disk.uuid: model for disk in disks}


def _model_like(
    disk_root: str, uuid: str, disks: list[discover.Disk], force: bool
) -> io_model.Model:
    """Return the model of a measured disk, for others of its kind.

    :raises DiskError: it was never measured, or is another model of drive.
    """
    (source,) = _measurable_disks(disk_root, [uuid])
    for disk in disks:
        if not force and (not disk.model or disk.model != source.model):
            raise exception.DiskError(
                f'disk {disk.uuid} is a drive of model {disk.model!r}, disk '
                f'{uuid} of {source.model!r}: measure it, or take the figures '
                'nevertheless with --force'
            )
    model = io_model.load(disk_root, uuid)
    if model is None:
        raise exception.DiskError(f'disk {uuid} was never measured')
    return model


def _report(
    disks: list[discover.Disk], models: dict[str, io_model.Model], format_: str
) -> None:
    _print(models, format_)
    for disk in disks:
        if models[disk.uuid].mbps < disk.mbps:
            shell.write_progress(
                f'Servers may claim {models[disk.uuid].mbps} MB/s of disk '
                f'{disk.uuid}, before {disk.mbps}. Existing claims stay, even '
                'if they are more.\n'
            )
        if disk.medium == constants.HDD:
            shell.write_progress(
                f'Disk {disk.uuid} is a hard disk: I/O weights are those of '
                'bfq there, and io.cost is refused. Of these figures the MB/s '
                'count, in Placement.\n'
            )


def _measurable_disks(disk_root: str, uuids: list[str]) -> list[discover.Disk]:
    """Return the disks with these UUIDs, each once.

    :raises DiskError: there is no such disk, or it is not healthy.
    """
    disks = {disk.uuid: disk for disk in discover.wait_for_all(disk_root)}
    for uuid in uuids:
        if uuid not in disks:
            raise exception.DiskError(f'no disk {uuid} in {disk_root}')
        if disks[uuid].health != discover.OK:
            raise exception.DiskError(
                f'disk {uuid} is {disks[uuid].health}: it cannot be measured'
            )
    return [disks[uuid] for uuid in dict.fromkeys(uuids)]


def check_unused(uri: str, disks: list[discover.Disk]) -> None:
    """Check that no running server has vdisks on the disks.

    :param uri: URI of libvirt, which is asked only if there are vdisks.
    :raises DiskPlacerError: one has, or libvirt does not answer.
    """
    with_vdisks = [disk for disk in disks if _vdisks(disk)]
    if not with_vdisks:
        return
    if libvirt_connection.import_libvirt() is None:
        raise exception.DiskError(
            f'disk {with_vdisks[0].uuid} has vdisks, and without '
            'libvirt-python it is unknown if servers use them; --force '
            'measures it'
        )
    running = [
        server
        for server in libvirt_servers.list_servers(uri)
        if server.running
    ]
    for uuid, servers in usage.servers_by_disk(running, with_vdisks).items():
        names = ', '.join(server.uuid for server in servers)
        raise exception.DiskError(
            f'disk {uuid} has vdisks of running servers, {names}: measuring '
            'slows them down, and their I/O makes the figures too low; '
            '--force measures it'
        )


def _vdisks(disk: discover.Disk) -> list[str]:
    names = [vdisk.name for vdisk in disk.vdisks]
    return [name for name in names if name != volumes.TEMPORARY]


def size_mib(disk: discover.Disk, requested: int | None) -> int:
    """Return the size in MiB of the space to measure.

    :param requested: the value of ``--size``, None for the default.
    :raises DiskError: the size is too small, or larger than the free space.
    """
    free = disk.free_bytes
    if _vdisks(disk):
        # vdisks that share blocks may need more space later
        free = min(free, disk.free_gb << 30)
    free //= MIB
    size = min(_DEFAULT_SIZE, free // 4) if requested is None else requested
    if size < _MIN_SIZE or size > free:
        raise exception.DiskError(
            f'disk {disk.uuid} has {free} MiB free: --size must be from '
            f'{_MIN_SIZE} to that; the default needs {4 * _MIN_SIZE} MiB free'
        )
    return size


def measure(
    conf: cfg.ConfigOpts, disk: discover.Disk, size_bytes: int, seconds: int
) -> io_model.Model:
    """Measure a disk, and save the model on it.

    :param seconds: duration of each load.
    :raises DiskError: it is being measured already, or fio or the disk fails.
    """
    disk_root = conf.diskplacer.disk_root
    with (
        conditions.locked(disk.uuid),
        fio.temporary_space(disk_root, disk.uuid, size_bytes) as path,
    ):
        runner = fio.Fio(path, size_bytes, conditions.root_cgroup())
        shell.write_progress(
            f'disk {disk.uuid}: filling {size_bytes // MIB} MiB ...'
        )
        runner.fill()
        shell.write_progress(' done\n')
        with _plain_queue(conf, disk) as scheduler:
            model = _run_loads(runner, disk, seconds)
            with files.disk_errors(path):
                runner.flush()
        model = dataclasses.replace(model, scheduler=scheduler)
        io_model.save(disk_root, disk.uuid, model)
        # this takes long if a volume is zeroed
        shell.write_progress(f'disk {disk.uuid}: freeing the space ...')
    shell.write_progress(' done\n')
    return model


@contextlib.contextmanager
def _plain_queue(
    conf: cfg.ConfigOpts, disk: discover.Disk
) -> collections.abc.Iterator[str]:
    """Make the queue plain, and yield its I/O scheduler.

    A queue that serves other devices too stays as it is, and '' is yielded.
    """
    try:
        device = block_queue.exclusive_device(disk.device)
    except exception.DiskError as error:
        shell.write_progress(
            f'disk {disk.uuid}: its queue is measured as it is: {error}\n'
        )
        yield ''
        return
    state_dir = conf.diskplacer_agent.state_dir
    with plain_queue.applied(state_dir, disk.uuid, device):
        yield plain_queue.SCHEDULER


def _run_loads(
    runner: fio.Fio, disk: discover.Disk, seconds: int
) -> io_model.Model:
    loads = fio.loads_for(disk.medium)
    rates = {}
    for count, (name, load) in enumerate(loads.items(), 1):
        shell.write_progress(
            f'disk {disk.uuid}: {count} of {len(loads)}, {load.title} ...'
        )
        result = runner.measure(load, seconds)
        if load.unit == 'MB/s':
            rates[name] = result.bps
            shell.write_progress(f' {result.bps / 1e6:.1f} MB/s\n')
        else:
            rates[name] = result.iops
            shell.write_progress(f' {result.iops:.1f} {load.unit}\n')
    coefficients: dict[str, Any] = {
        name: round(rates[name]) for name in io_model.COEFFICIENTS
    }
    return io_model.Model(
        **coefficients,
        latency=max(1, round(1e6 / rates['latency'])),
        measured=datetime.datetime.now(datetime.UTC).isoformat(
            timespec='seconds'
        ),
    )


def _print(models: dict[str, io_model.Model], format_: str) -> None:
    records = [
        {'uuid': uuid, 'mbps': model.mbps, **dataclasses.asdict(model)}
        for uuid, model in models.items()
    ]
    if format_ == 'json':
        shell.print_json(records)
        return
    names = (*io_model.COEFFICIENTS, 'latency', 'scheduler')
    columns = ('uuid', 'mbps', *names)
    rows = [[record[name] for name in columns] for record in records]
    print(shell.make_table(('UUID', 'MB/s', *names), rows))
