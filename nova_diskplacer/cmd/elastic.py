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

"""diskplacer-manage elastic: the widths of elastic vdisks, and overrides.

Entry points add the commands that move vdisks.
"""

import argparse
import collections.abc
import dataclasses
from importlib import metadata
from typing import Any

from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import elastic_simulation
from nova_diskplacer.cmd import plugins
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import status
from nova_diskplacer.elastic.processes import operator_overrides as overrides
from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import status_socket

#: Entry points that add commands, given argparse's subparsers.
COMMANDS = 'nova_diskplacer.cmd.elastic'


def register(subparsers: Any) -> None:
    """Add the ``elastic`` commands to an argparse parser's subparsers."""
    elastic = subparsers.add_parser(
        'elastic', help='width of the elastic vdisks of this host'
    )
    commands = elastic.add_subparsers(dest='elastic_command', required=True)
    command = shell.add_command(
        commands,
        'plan',
        _plan,
        'show the width of elastic vdisks and what is decided',
        'Shows the width of each elastic vdisk of this host, what the agent '
        'has decided and why, and the move under way. The agent must run, and '
        'the command needs root. With a load, it simulates what would be '
        'decided instead: it replays the load of one vdisk, on equal disks '
        'that nothing else uses, and tells when the vdisk would be moved and '
        'what throughput it would have. Changes nothing.',
    )
    elastic_simulation.add_arguments(command)
    shell.add_format(command)
    command = shell.add_command(
        commands,
        'forbid',
        _forbid,
        'keep an elastic vdisk where it is',
        'Forbids moves of a vdisk, or of all, until they are allowed. A step '
        'that is under way is taken back.',
    )
    _add_volume(command)
    command = shell.add_command(
        commands,
        'allow',
        _allow,
        'have the load decide on an elastic vdisk again',
        'Takes back what forbids moves of a vdisk or forces its width; with '
        '--all, only what forbids all moves.',
    )
    _add_volume(command)
    command = shell.add_command(
        commands,
        'force',
        _force,
        'move an elastic vdisk to a width, and keep it',
        'Has a vdisk moved to a width, whatever its load, and keeps that '
        'until "elastic allow". The agent must run with [diskplacer_elastic] '
        'enabled, and so must "elastic run".',
    )
    command.add_argument('volume', metavar='VOLUME', help='its ID')
    command.add_argument(
        '--width',
        type=arguments.number(int, 1, constants.MAX_STRIPE_DISKS),
        required=True,
        metavar='DISKS',
        help='number of disks',
    )
    for further in metadata.entry_points(group=COMMANDS):
        plugins.add(commands, further)


def _add_volume(command: argparse.ArgumentParser) -> None:
    group = command.add_mutually_exclusive_group(required=True)
    group.add_argument('volume', nargs='?', metavar='VOLUME', help='its ID')
    group.add_argument('--all', action='store_true', help='all of this host')


def _plan(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if args.load or args.series is not None:
        return elastic_simulation.run(conf, args)
    state = status_socket.fetch(conf.diskplacer_agent.state_dir)
    if state is None or state.elastic is None:
        raise exception.ElasticError(
            'the agent has decided nothing on elastic vdisks yet: is '
            '[diskplacer_elastic] enabled=true on this host?'
        )
    if args.format == 'json':
        shell.print_json(state.elastic)
        return exit_status.OK
    rows = [status.row(vdisk) for vdisk in state.elastic.vdisks]
    if not rows:
        print('This host has no elastic vdisks.')
        return exit_status.OK
    print(shell.make_table(status.COLUMNS, rows, ('WHY',)))
    print('\n'.join(_lines(state.elastic)))
    return exit_status.OK


def _lines(state: elastic_status.ElasticStatus) -> list[str]:
    """Return what is next, in words."""
    lines = []
    if step := state.step:
        (vdisk,) = [
            vdisk for vdisk in state.vdisks if vdisk.uuid == step.vdisk
        ]
        if vdisk.left_bytes and vdisk.left_seconds:
            rate = vdisk.left_bytes / vdisk.left_seconds / 1e6
            lines.append(
                f'Move of {step.vdisk} from {vdisk.width} to {vdisk.target} '
                f'disks: {vdisk.left_bytes / GIB:.1f} GiB left, at '
                f'{rate:.1f} MB/s {vdisk.left_seconds:.0f} s.'
            )
        lines.append(
            f'Next step: {step.size_bytes / GIB:.1f} GiB, to '
            f'{Location(step.location)}.'
        )
    lines.append(f'The executor: {state.executor}.')
    return lines


def _forbid(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if not args.all:
        _find(conf, args.volume)
    return _override(
        conf,
        lambda given: (
            dataclasses.replace(given, forbid_all=True)
            if args.all
            else overrides.forbid(given, args.volume)
        ),
    )


def _allow(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    return _override(
        conf,
        lambda given: (
            dataclasses.replace(given, forbid_all=False)
            if args.all
            else overrides.allow(given, args.volume)
        ),
    )


def _force(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    vdisk = _find(conf, args.volume)
    if not vdisk.minimum <= args.width <= vdisk.maximum:
        raise exception.ElasticError(
            f'--width {args.width} is not from {vdisk.minimum} to '
            f'{vdisk.maximum}, as volume {args.volume} allows'
        )
    return _override(
        conf,
        lambda given: overrides.force(given, args.volume, args.width),
    )


def _override(
    conf: cfg.ConfigOpts,
    changed: collections.abc.Callable[[inputs.Overrides], inputs.Overrides],
) -> int:
    """Change the overrides of the host, and print them."""
    disk_root = conf.diskplacer.disk_root
    overrides.change(disk_root, changed)
    given = overrides.read(disk_root)
    lines = [f'Moves of {vdisk} are forbidden.' for vdisk in given.forbidden]
    lines += [
        f'{volume} is moved to {width} disks.'
        for volume, width in given.forced.items()
    ]
    if given.forbid_all:
        lines.append('All moves on this host are forbidden.')
    print('\n'.join(sorted(lines)) or 'The load decides on all vdisks.')
    return exit_status.OK


def _find(conf: cfg.ConfigOpts, volume: str) -> inputs.ElasticVDisk:
    """Return an elastic vdisk of this host.

    :raises ElasticError: there is no such one.
    """
    disk_root = conf.diskplacer.disk_root
    disks = common.run_in_child(lambda: discover.wait_for_all(disk_root))
    return discovery.require(disks, volume)
