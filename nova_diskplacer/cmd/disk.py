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
import dataclasses
import os
import sys
from importlib import metadata
from typing import Any

from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import measure
from nova_diskplacer.cmd import plugins
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import files
from nova_diskplacer.host import fstab
from nova_diskplacer.host import probes

_DISK_COLUMNS = {
    'UUID': 'uuid',
    'Device': 'device',
    'Medium': 'medium',
    'Model': 'model',
    'NUMA node': 'numa_node',
    'Total GiB': 'total_gb',
    'Free GiB': 'free_gb',
    'MB/s': 'mbps',
    'VDisks': 'vdisks',
    'Health': 'health',
}
_VDISK_COLUMNS = {
    'Name': 'name',
    'Kind': 'kind',
    'Owner': 'volume_id',
    'Bound for server': 'server_id',
    'GiB': 'size_gb',
}

#: Entry points that add commands, given argparse's subparsers.
COMMANDS = 'nova_diskplacer.cmd.disk'


def register(subparsers: Any) -> None:
    """Add the ``disk`` command to an argparse parser's subparsers."""
    disk = subparsers.add_parser('disk', help='local disks of this host')
    commands = disk.add_subparsers(dest='disk_command', required=True)

    command = shell.add_command(
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
        type=arguments.number(int, 1, constants.MAX_FIGURE),
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
    shell.add_format(command)

    command = shell.add_command(commands, 'list', _list, 'list the disks')
    shell.add_format(command)

    command = shell.add_command(
        commands, 'show', _show, 'show a disk and its vdisks'
    )
    command.add_argument('uuid', metavar='UUID')
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'forget',
        _forget,
        'unmount or export a disk without vdisks, and forget it for good: '
        'volumes that were on it can be deleted then; its data stays',
    )
    command.add_argument('uuid', metavar='UUID')
    _add_fstab(command)

    command = shell.add_command(
        commands,
        'remove-vdisk',
        _remove_vdisk,
        'delete a vdisk that Cinder does not know, with all its data; a '
        'vdisk that is in use, or that snapshots depend on, is refused',
    )
    command.add_argument('uuid', metavar='UUID', help='of the disk')
    command.add_argument('name', metavar='NAME', help='of the vdisk')

    measure.register(commands)

    # it may set args.configure to read another configuration
    for further in metadata.entry_points(group=COMMANDS):
        plugins.add(commands, further)


def _add_fstab(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--fstab',
        default=fstab.PATH,
        help='file that mounts the disk at boot (default: %(default)s)',
    )


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
    if disk.draining:
        print(
            'The disk gets no new vdisks: it is to be emptied or forgotten. '
            f'"diskplacer-manage disk drain {disk.uuid} --cancel" offers it '
            'again.',
            file=sys.stderr,
        )
    return 0


def _list(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    disks = _discover(conf.diskplacer.disk_root)
    if args.format == 'json':
        shell.print_json([_fields(disk) for disk in disks])
        return 0
    rows = [
        {
            **_fields(disk),
            'vdisks': len(disk.vdisks),
            'health': disk.health + ', draining' * disk.draining,
        }
        for disk in disks
    ]
    _print_table(_DISK_COLUMNS, rows)
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
    return common.run_in_child(lambda: discover.wait_for_all(disk_root))


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
    present = files.exists(os.path.join(disk_root, args.uuid))
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
        for leg in volumes.legs(args.uuid, args.name):
            volumes.delete(args.uuid, leg)
    else:
        vdisks.delete(disk.path, args.name)
    present = any(vdisk.name == args.name for vdisk in disk.vdisks)
    print(f'{args.name} was {"removed" if present else "not there"}')
    return 0


def _print_disk(
    disk: discover.Disk, format_: str, model: io_model.Model | None = None
) -> None:
    fields = _fields(disk)
    figures = dataclasses.asdict(model) if model else {}
    if format_ == 'json':
        shell.print_json(fields | ({'io_model': figures} if figures else {}))
        return
    vdisks_of_disk = fields.pop('vdisks')
    fields |= {f'io_model {name}': value for name, value in figures.items()}
    rows = [{'name': name, 'value': fields[name]} for name in fields]
    _print_table({'Field': 'name', 'Value': 'value'}, rows)
    if vdisks_of_disk:
        _print_table(_VDISK_COLUMNS, vdisks_of_disk)


def _print_table(columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Print a table.

    :param columns: the key of each column's values in the rows.
    """
    cells = [
        ['' if row[key] is None else row[key] for key in columns.values()]
        for row in rows
    ]
    print(shell.make_table(list(columns), cells))


def _fields(disk: discover.Disk) -> dict[str, Any]:
    return {
        **dataclasses.asdict(disk),
        'free_gb': disk.free_gb,
        'vdisks': [
            {
                **dataclasses.asdict(vdisk),
                'size_gb': vdisk.size_gb,
                'kind': _kind(vdisk),
            }
            for vdisk in disk.vdisks
        ],
    }


def _kind(vdisk: VDisk) -> str:
    if not vdisk.volume_id:
        return 'unmanaged'
    return 'snapshot' if vdisk.is_snapshot else 'volume'
