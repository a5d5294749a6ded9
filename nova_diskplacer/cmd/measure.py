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
"""diskplacer-manage disk measure: find out how fast disks are."""

import argparse
import collections.abc
import contextlib
import dataclasses
import datetime
import json
import os
import signal
import sys
import types
from typing import Any
from typing import NoReturn

import prettytable
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import fio
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.measure import tempspace
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import locks

MIB = 1 << 20

# MiB to measure in: what there is of a large disk is more than its cache.
_DEFAULT_SIZE = 8192
_MIN_SIZE = 64
_SECONDS = 15

_STATUS_INTERRUPTED = 130

Say = collections.abc.Callable[[str], None]


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``diskplacer-manage disk``."""
    command = commands.add_parser(
        'measure',
        help='find out how fast disks are',
        description='Measures disks with fio, in a part of each that is free '
        'and is given back. What it finds is kept on the disk: the model that '
        'io.cost takes, and the MB/s that may be claimed in Placement, which '
        'are those of long sequential reads or writes, whichever is slower. '
        'Nothing else should use the disk meanwhile. Its queue is left as it '
        'is: measure again after it was given another I/O scheduler.',
    )
    command.add_argument('uuids', nargs='+', metavar='UUID')
    command.add_argument(
        '--size',
        type=_number(_MIN_SIZE),
        metavar='MIB',
        help=f'space that is measured in (default: {_DEFAULT_SIZE}, at the '
        'most a quarter of what is free)',
    )
    command.add_argument(
        '--seconds',
        type=_number(1),
        default=_SECONDS,
        help='duration of each of seven loads (default: %(default)s)',
    )
    command.add_argument(
        '--force',
        action='store_true',
        help='measure a disk with vdisks of running servers too: they are '
        'slowed down, and what they do makes the figures too low',
    )
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )
    command.set_defaults(handler=_measure)


def _number(least: int) -> collections.abc.Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f'{text!r} is not an integer of at least {least}'
            )
        return int(text)

    return number


def _measure(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('measuring a disk takes root')
    disk_root = conf.diskplacer.disk_root
    disks = _chosen(disk_root, args.uuids)
    if not args.force:
        check_unused(conf.diskplacer_agent.libvirt_uri, disks)
    sizes = [size_mib(disk, args.size) for disk in disks]
    models = {}
    try:
        with _terminable():
            for disk, size in zip(disks, sizes, strict=True):
                models[disk.uuid] = measure(
                    disk_root, disk, size * MIB, args.seconds, _say
                )
    except KeyboardInterrupt:
        _say('\nInterrupted: the disk has its space back.\n')
        return _STATUS_INTERRUPTED
    _print(models, args.format)
    for disk in disks:
        if models[disk.uuid].mbps < disk.mbps:
            _say(
                f'Less may be claimed of disk {disk.uuid} than before, '
                f'{models[disk.uuid].mbps} MB/s of {disk.mbps}. Claims that '
                'were made stay, also if they are more; new ones wait.\n'
            )
    return 0


def _chosen(disk_root: str, uuids: list[str]) -> list[discover.Disk]:
    """Return the disks, each once.

    :raises DiskError: there is no such disk, or it cannot be written.
    """
    known = {disk.uuid: disk for disk in discover.discover(disk_root)}
    for uuid in uuids:
        if uuid not in known:
            raise exception.DiskError(f'no disk {uuid} in {disk_root}')
        if known[uuid].health != discover.OK:
            raise exception.DiskError(
                f'disk {uuid} is {known[uuid].health}: it cannot be measured'
            )
    return [known[uuid] for uuid in dict.fromkeys(uuids)]


def check_unused(uri: str, disks: list[discover.Disk]) -> None:
    """Check that no running server has vdisks on the disks.

    :param uri: the libvirt to ask, if there are vdisks at all.
    :raises DiskPlacerError: one has, or it cannot be told.
    """
    held = [disk for disk in disks if _vdisks(disk)]
    if not held:
        return
    if libvirt_connection.import_libvirt() is None:
        raise exception.DiskError(
            f'disk {held[0].uuid} has vdisks, and without libvirt-python it '
            'is not known whether servers use them; --force measures it'
        )
    running = [
        server
        for server in libvirt_servers.list_servers(uri)
        if server.running
    ]
    for uuid, servers in usage.servers_by_disk(running, held).items():
        names = ', '.join(server.uuid for server in servers)
        raise exception.DiskError(
            f'disk {uuid} has vdisks of running servers, {names}: they would '
            'be slowed down, and what they do makes the figures too low; '
            '--force measures it'
        )


def _vdisks(disk: discover.Disk) -> list[str]:
    names = [vdisk.name for vdisk in disk.vdisks]
    return [name for name in names if name != volumes.TEMPORARY]


def size_mib(disk: discover.Disk, wanted: int | None) -> int:
    """Return how many MiB of a disk to measure in.

    :param wanted: what was asked for, None if nothing was.
    :raises DiskError: the disk has less.
    """
    free = disk.free_bytes
    if _vdisks(disk):
        # that they may share blocks is no reason to take what they need
        free = min(free, disk.free_gb << 30)
    free //= MIB
    size = min(_DEFAULT_SIZE, free // 4) if wanted is None else wanted
    if size < _MIN_SIZE or size > free:
        raise exception.DiskError(
            f'disk {disk.uuid} has {free} MiB free: --size takes '
            f'{_MIN_SIZE} to that, and unless it is given a quarter of it '
            'must be that much'
        )
    return size


def measure(
    disk_root: str,
    disk: discover.Disk,
    size_bytes: int,
    seconds: int,
    say: Say,
) -> io_model.Model:
    """Measure a disk, and save the model on it.

    :param seconds: how long each load is measured.
    :param say: gets messages of the progress.
    :raises DiskError: it is being measured, fio fails or the disk refuses.
    """
    loads = fio.loads_for(disk.medium)
    found = {}
    with (
        _alone(disk.uuid),
        tempspace.allocated(disk_root, disk.uuid, size_bytes) as path,
    ):
        runner = fio.Fio(path, size_bytes, _root_cgroup())
        say(f'disk {disk.uuid}: filling {size_bytes // MIB} MiB ...')
        runner.fill()
        say(' done\n')
        for count, (name, load) in enumerate(loads.items(), 1):
            say(f'disk {disk.uuid}: {count} of {len(loads)}, {load.title} ...')
            result = runner.measure(load, seconds)
            found[name] = result
            say(f' {_shown(load, result)}\n')
        model = _model(disk, loads, found)
        io_model.save(disk_root, disk.uuid, model)
        # a volume may have to be zeroed
        say(f'disk {disk.uuid}: giving the space back ...')
    say(' done\n')
    return model


def _model(
    disk: discover.Disk,
    loads: dict[str, fio.Load],
    found: dict[str, fio.Result],
) -> io_model.Model:
    latency = 1e6 / found['latency'].iops
    return io_model.Model(
        **{
            name: round(
                found[name].bps
                if loads[name].unit == 'MB/s'
                else found[name].iops
            )
            for name in io_model.COEFFICIENTS
        },
        latency=max(1, round(latency)),
        scheduler=_scheduler(disk),
        measured=datetime.datetime.now(datetime.UTC).isoformat(
            timespec='seconds'
        ),
    )


def _shown(load: fio.Load, result: fio.Result) -> str:
    value = result.bps / 1e6 if load.unit == 'MB/s' else result.iops
    return f'{value:.1f} {load.unit}'


def _scheduler(disk: discover.Disk) -> str:
    try:
        return block_queue.read(
            block_queue.exclusive_device(disk.device)
        ).values.get('scheduler', '')
    except (exception.DiskError, OSError):
        # several devices, of which each has one
        return ''


def _root_cgroup() -> str:
    """Return the cgroup whose I/O no controller holds back."""
    try:
        return cgroups.hierarchy().root
    except exception.ContentionError:
        return ''


@contextlib.contextmanager
def _alone(uuid: str) -> collections.abc.Iterator[None]:
    """Keep other processes from measuring a disk."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.hold(f'measure-{uuid}', wait=False))
        except BlockingIOError as error:
            raise exception.DiskError(
                f'disk {uuid} is being measured already'
            ) from error
        yield


@contextlib.contextmanager
def _terminable() -> collections.abc.Iterator[None]:
    """Clean up before the process ends by SIGTERM or SIGHUP."""
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: types.FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _say(text: str) -> None:
    print(text, end='', file=sys.stderr, flush=True)


def _print(models: dict[str, io_model.Model], format_: str) -> None:
    if format_ == 'json':
        found = [
            {
                'uuid': uuid,
                'mbps': model.mbps,
                **dataclasses.asdict(model),
            }
            for uuid, model in models.items()
        ]
        print(json.dumps(found, indent=2))
        return
    table = prettytable.PrettyTable(
        ['UUID', 'MB/s', *io_model.COEFFICIENTS, 'latency', 'scheduler']
    )
    table.align = 'l'
    for uuid, model in models.items():
        fields = dataclasses.asdict(model)
        fields.pop('measured')
        table.add_row([uuid, model.mbps, *fields.values()])
    print(table)
