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

"""diskplacer-manage weights: whether the kernel honours I/O weights here."""

import argparse
import dataclasses
import os
from typing import Any

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import sampler

_HINTS = {
    manager.OFF: 'Weights are off: set [diskplacer_weights] mode=on, or '
    'mode=dry_run to see first what would change, and restart '
    'diskplacer-agent.',
    manager.DRY_RUN: 'No weights are set with [diskplacer_weights] '
    'mode=dry_run: diskplacer-manage top shows which would change.',
}


@dataclasses.dataclass(frozen=True)
class DiskCheck:
    """The result of the check of a disk.

    ``controller`` is the kernel's I/O controller that would honour weights on
    the disk (empty: none), ``problem`` the reason why none would, or why
    another one would be better. ``command`` solves the problem.
    """

    uuid: str
    device: str
    controller: str
    problem: str = ''
    command: str = ''


def register(subparsers: Any) -> None:
    """Add the ``weights`` commands to an argparse parser's subparsers."""
    weights = subparsers.add_parser(
        'weights', help='check whether I/O weights work on this host'
    )
    commands = weights.add_subparsers(dest='weights_command', required=True)
    shell.add_format(
        shell.add_command(
            commands,
            'check',
            _check,
            'tell for each disk whether I/O weights would work',
            'Tells for each prepared disk of this host whether the kernel '
            'would honour I/O weights there, and with which command it would. '
            'Changes nothing. The exit status is 3 if weights would not work '
            'on a disk.',
        )
    )


def _check(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    checks = check(conf)
    if args.format == 'json':
        shell.print_json(checks)
    else:
        columns = ('UUID', 'Device', 'Controller', 'Problem', 'Command')
        rows = [dataclasses.astuple(disk_check) for disk_check in checks]
        print(shell.make_table(columns, rows, ('Problem', 'Command')))
        hint = _HINTS.get(conf.diskplacer_weights.mode)
        if hint:
            print(hint)
    return exit_status.of(
        [disk_check for disk_check in checks if not disk_check.controller]
    )


def check(conf: cfg.ConfigOpts, sys: str = sysfs.SYS) -> list[DiskCheck]:
    """Return the checks of all prepared disks of this host, sorted.

    :raises ContentionError: the host has no cgroup v2 with I/O.
    """
    disks = discover.discover(conf.diskplacer.disk_root)
    devices, missing = sampler.find_devices(disks, sys)
    hierarchy = cgroups.hierarchy()
    checks = [DiskCheck(uuid, '', '', why) for uuid, why in missing.items()]
    checks += [
        _check_disk(conf, device, hierarchy, sys)
        for device in devices.values()
    ]
    return sorted(checks, key=lambda disk_check: disk_check.uuid)


def _check_disk(
    conf: cfg.ConfigOpts,
    device: Device,
    hierarchy: cgroups.Hierarchy,
    sys: str,
) -> DiskCheck:
    choice = conf.diskplacer_weights.controller
    use_bfq = (
        device.rotational
        or choice == controllers.BFQ
        or not _has_io_cost(hierarchy)
    )
    command = (
        f'echo bfq > /sys/block/{device.name}/queue/scheduler'
        if use_bfq
        else f'diskplacer-manage disk measure {device.uuid}'
    )
    try:
        name = controllers.configured_controller(device, choice, sys)
        measured = name == controllers.IO_COST and io_model.load(
            conf.diskplacer.disk_root, device.uuid
        )
        if not measured or not _has_io_cost(hierarchy):
            controllers.active_controller(device, hierarchy, choice, sys)
    except (exception.DiskPlacerError, OSError) as error:
        # the remedy for heads of NVMe multipath is in the error
        command = '' if device.paths else command
        return DiskCheck(device.uuid, device.name, '', str(error), command)
    advice = controllers.advice(device, name)
    return DiskCheck(
        device.uuid, device.name, name, advice, command if advice else ''
    )


def _has_io_cost(hierarchy: cgroups.Hierarchy) -> bool:
    return os.path.exists(hierarchy.path('', controllers.IO_COST_QOS))
