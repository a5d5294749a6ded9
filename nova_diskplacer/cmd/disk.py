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

"""diskplacer-manage disk: prepare, measure, list and forget disks."""

import argparse
import collections.abc
import dataclasses
import json
import os
from typing import Any

import prettytable
from oslo_config import cfg
from stevedore import extension

from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import measure
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import fstab
from nova_diskplacer.host import probes

#: Entry points that add commands, given argparse's subparsers.
COMMANDS = 'nova_diskplacer.cmd.disk'

Handler = collections.abc.Callable[[cfg.ConfigOpts, argparse.Namespace], int]


def register(subparsers: Any) -> None:
    """Add the ``disk`` command to an argparse parser's subparsers.

    Each command sets ``args.handler``, which is called with (conf, args),
    returns the exit status and raises ``DiskError``.
    """
    disk = subparsers.add_parser('disk', help='local disks of this host')
    commands = disk.add_subparsers(dest='disk_command', required=True)

    command = _command(
        commands, 'prepare', _prepare, 'make a device or directory a disk'
    )
    command.add_argument(
        'target',
        metavar='DEVICE|DIRECTORY',
        help='a block device, or a directory that is a filesystem of its own',
    )
    command.add_argument(
        '--medium',
        choices=sorted(identity.DEFAULT_MBPS),
        help='medium of the disk (default: as the kernel reports it)',
    )
    command.add_argument(
        '--mbps',
        type=_mbps,
        help='throughput of the disk in MB/s (default: '
        + ', '.join(
            f'{mbps} for {medium}'
            for medium, mbps in sorted(identity.DEFAULT_MBPS.items())
        )
        + ')',
    )
    command.add_argument(
        '--wipe',
        action='store_true',
        help='destroy all data on the device; a device in use is refused',
    )
    command.add_argument(
        '--backend',
        choices=(discover.FILESYSTEM, discover.LVM),
        default=discover.FILESYSTEM,
        help='storage of vdisks on a device: an XFS filesystem, or an LVM '
        'volume group (default: %(default)s)',
    )
    command.add_argument(
        '--thin',
        action='store_true',
        help='with --backend lvm: make a thin pool of the whole device; '
        'it is never overprovisioned',
    )
    command.add_argument(
        '--no-zero',
        action='store_true',
        help='with --backend lvm: do not zero the whole device once; each '
        'volume is zeroed when it is bound instead',
    )
    _add_fstab(command)
    _add_format(command)

    command = _command(commands, 'list', _list, 'list the disks')
    _add_format(command)

    command = _command(commands, 'show', _show, 'show a disk and its vdisks')
    command.add_argument('uuid', metavar='UUID')
    _add_format(command)

    command = _command(
        commands,
        'forget',
        _forget,
        'unmount or export a disk without vdisks, and forget it for good: '
        'volumes that were on it can be deleted then; its data stays',
    )
    command.add_argument('uuid', metavar='UUID')
    _add_fstab(command)

    command = _command(
        commands,
        'remove-vdisk',
        _remove_vdisk,
        'delete a vdisk that Cinder does not know, with all its data; a '
        'vdisk that is in use, or that snapshots depend on, is refused',
    )
    command.add_argument('uuid', metavar='UUID', help='of the disk')
    command.add_argument('name', metavar='NAME', help='of the vdisk')

    measure.register(commands)

    # a further command may set args.configure to read another configuration
    for found in extension.ExtensionManager(COMMANDS):
        found.plugin(commands)


def _command(
    commands: Any, name: str, handler: Handler, help_: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=help_, description=help_
    )
    command.set_defaults(handler=handler)
    return command


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )


def _add_fstab(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--fstab',
        default=fstab.PATH,
        help='file that mounts the disk at boot (default: %(default)s)',
    )


def _mbps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a positive integer')
    return int(text)


def _prepare(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('preparing a disk needs root')
    if args.backend != discover.LVM and (args.thin or args.no_zero):
        raise exception.DiskError(
            f'--thin and --no-zero need --backend {discover.LVM}'
        )
    disk = prepare.prepare(
        conf.diskplacer.disk_root,
        args.target,
        args.medium,
        args.mbps,
        args.wipe,
        args.fstab,
        lvm_prepare.Options(args.thin, not args.no_zero)
        if args.backend == discover.LVM
        else None,
    )
    _print_disk(disk, args.format)
    return 0


def _list(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    disks = _discover(conf.diskplacer.disk_root)
    if args.format == 'json':
        print(json.dumps([_fields(disk) for disk in disks], indent=2))
        return 0
    table = _table(
        'UUID', 'Device', 'Medium', 'Model', 'NUMA node', 'Total GiB',
        'Free GiB', 'MB/s', 'VDisks', 'Health',
    )  # fmt: skip
    for disk in disks:
        table.add_row(
            [
                disk.uuid,
                disk.device,
                disk.medium,
                disk.model,
                '' if disk.numa_node is None else disk.numa_node,
                disk.total_gb,
                disk.free_gb,
                disk.mbps,
                len(disk.vdisks),
                disk.health,
            ]
        )
    print(table)
    return 0


def _show(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    disk_root = conf.diskplacer.disk_root
    disks = {disk.uuid: disk for disk in _discover(disk_root)}
    if args.uuid not in disks:
        raise exception.DiskError(f'no disk {args.uuid} in {disk_root}')
    model = common.run_in_child(lambda: _model(disk_root, args.uuid))
    _print_disk(disks[args.uuid], args.format, model)
    return 0


def _discover(disk_root: str) -> list[discover.Disk]:
    return common.run_in_child(lambda: discover.discover(disk_root))


def _model(disk_root: str, uuid: str) -> io_model.Model | None:
    """Return the model of a disk, None if it is not known."""
    job = probes.Job(lambda: io_model.load(disk_root, uuid))
    try:
        return job.result() if job.wait(probes.TIMEOUT) else None
    except exception.DiskError:
        return None


def _forget(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('forgetting a disk needs root')
    disk_root = conf.diskplacer.disk_root
    present = os.path.lexists(os.path.join(disk_root, args.uuid))
    prepare.forget(disk_root, args.uuid, args.fstab)
    if not present:
        print(
            f'Disk {args.uuid} is not in {disk_root}; it counts as forgotten '
            'now.'
        )
    return 0


def _remove_vdisk(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('removing a vdisk needs root')
    disk_root = conf.diskplacer.disk_root
    disk = discover.inspect(disk_root, args.uuid)
    if disk.health != discover.OK:
        raise exception.DiskError(f'disk {args.uuid} is {disk.health}')
    if discover.kind_of(disk_root, args.uuid) == discover.LVM:
        volumes.delete(args.uuid, args.name)
    else:
        vdisks.delete(disk.path, args.name)
    present = any(vdisk.name == args.name for vdisk in disk.vdisks)
    print(f'{args.name} was {"removed" if present else "not there"}')
    return 0


def _print_disk(
    disk: discover.Disk, format_: str, model: io_model.Model | None = None
) -> None:
    fields = _fields(disk)
    if model is not None:
        fields['io_model'] = dataclasses.asdict(model)
    if format_ == 'json':
        print(json.dumps(fields, indent=2))
        return
    table = _table('Field', 'Value')
    for name, value in fields.items():
        if name == 'io_model':
            for figure, measured in value.items():
                table.add_row([f'io_model {figure}', measured])
        elif name != 'vdisks':
            table.add_row([name, '' if value is None else value])
    print(table)
    if disk.vdisks:
        table = _table('Name', 'Kind', 'Owner', 'Bound for server', 'GiB')
        for vdisk in disk.vdisks:
            table.add_row(
                [
                    vdisk.name,
                    _kind(vdisk),
                    vdisk.volume_id,
                    vdisk.server_id or '',
                    vdisk.size_gb,
                ]
            )
        print(table)


def _fields(disk: discover.Disk) -> dict[str, Any]:
    return {
        **dataclasses.asdict(disk),
        'free_gb': disk.free_gb,
        'vdisks': [_vdisk_fields(vdisk) for vdisk in disk.vdisks],
    }


def _vdisk_fields(vdisk: VDisk) -> dict[str, Any]:
    return {
        **dataclasses.asdict(vdisk),
        'size_gb': vdisk.size_gb,
        'kind': _kind(vdisk),
    }


def _kind(vdisk: VDisk) -> str:
    if not vdisk.volume_id:
        return 'unmanaged'
    return 'snapshot' if vdisk.is_snapshot else 'volume'


def _table(*names: str) -> prettytable.PrettyTable:
    table = prettytable.PrettyTable(names)
    table.align = 'l'
    return table
