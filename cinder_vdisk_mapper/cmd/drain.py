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

"""diskplacer-manage disk drain: moves the vdisks of a disk to other disks.

An entry point adds it to ``diskplacer-manage``.
"""

import argparse
import json
import os
from typing import Any

import prettytable
from oslo_config import cfg

from cinder_vdisk_mapper.cmd import cinder_conf
from cinder_vdisk_mapper.cmd import progress
from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import exit_status


def register(commands: Any) -> None:
    """Add the ``drain`` command to those of ``diskplacer-manage disk``."""
    command = commands.add_parser(
        'drain',
        help='move all vdisks of a disk to other disks of this host',
        description='Moves all vdisks of a disk to other disks of this host '
        'while servers run, and has the disk get no new ones until it is '
        'forgotten or --cancel is given. May be interrupted and repeated. The '
        'exit status is 0 if the disk is empty, 3 if vdisks stay there, 1 on '
        'errors.',
    )
    command.add_argument('uuid', metavar='UUID', help='of the disk')
    mode = command.add_mutually_exclusive_group()
    mode.add_argument(
        '--plan',
        action='store_true',
        help='show where the vdisks would go, or why they would stay, and '
        'change nothing',
    )
    mode.add_argument(
        '--cancel',
        action='store_true',
        help='undo moves that were begun, and offer the disk again',
    )
    command.add_argument(
        '--rate',
        type=arguments.number(int, 1),
        default=0,
        metavar='MIB',
        help='MiB per second at most for the copy of a vdisk (default: no '
        'limit)',
    )
    command.add_argument(
        '--libvirt-uri',
        default='qemu:///system',
        metavar='URI',
        help='URI of libvirt (default: %(default)s)',
    )
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )
    cinder_conf.add_option(command)
    command.set_defaults(handler=_drain, configure=cinder_conf.configure)


def _drain(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    from cinder_vdisk_mapper.drain import setup

    if os.geteuid() != 0:
        raise exception.DiskPlacerError('draining a disk needs root')
    with cinder_conf.database_errors():
        drainer = setup.from_conf(
            cfg.CONF,
            args.uuid,
            args.libvirt_uri,
            args.rate,
            progress.Progress(),
        )
        try:
            return _run(drainer, args)
        except KeyboardInterrupt:
            print(
                'Interrupted. A copy of a running server goes on: repeat the '
                'command to finish, or give --cancel to undo it.'
            )
            return exit_status.INTERRUPTED


def _run(drainer: Any, args: argparse.Namespace) -> int:
    targets: dict[str, str] = {}
    if args.plan:
        _, planned = drainer.plan(args.uuid)
        targets, stays = planned.targets, planned.refusals
    elif args.cancel:
        stays = drainer.cancel(args.uuid)
    else:
        stays = drainer.drain(args.uuid)
    claims = {} if args.cancel else drainer.unfilled_claims(args.uuid)
    if args.format == 'json':
        print(
            json.dumps(
                {'moves': targets, 'stays': stays, 'claims': claims}, indent=2
            )
        )
    else:
        print(_report(args, targets, stays, claims))
    return exit_status.of(stays)


def _report(
    args: argparse.Namespace,
    targets: dict[str, str],
    stays: dict[str, str],
    claims: dict[str, int],
) -> str:
    """Return what was done, or would be, in words."""
    lines = []
    if targets or stays:
        table = prettytable.PrettyTable(
            ['VDisk', 'To disk', 'Stays because'], align='l'
        )
        table.max_width['Stays because'] = 60
        for name in sorted(targets | stays):
            table.add_row([name, targets.get(name, ''), stays.get(name, '')])
        lines.append(table.get_string())
    if args.cancel and not stays:
        lines.append(f'Disk {args.uuid} is offered again.')
    if not (args.plan or args.cancel or stays):
        lines.append(
            f'Disk {args.uuid} is empty and gets no new vdisks: take it out '
            f'with "diskplacer-manage disk forget {args.uuid}", or have it '
            f'offered again with "diskplacer-manage disk drain --cancel '
            f'{args.uuid}".'
        )
        lines += [
            f'Server {server} claims {gb} GiB of it that no vdisk fills: its '
            'volumes were deleted, or are to come.'
            for server, gb in sorted(claims.items())
        ]
    return '\n'.join(lines) or f'Disk {args.uuid} has no vdisks.'
