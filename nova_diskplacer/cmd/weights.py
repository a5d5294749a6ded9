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
import collections.abc
import dataclasses
import os
import sys
from typing import Any

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import sampler
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import in_use
from nova_diskplacer.profiles import queue_policy

_Profiles = collections.abc.Mapping[str, list[definitions.Profile]]

_HINTS = {
    manager.OFF: 'Weights are off in the configuration files that this '
    'command has read: name those of diskplacer-agent with --config-file. If '
    'weights are off there too, set [diskplacer_weights] mode=on, or '
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
    for hint in hints(conf):
        # what reads JSON reads nothing else
        print(hint, file=sys.stderr if args.format == 'json' else sys.stdout)
    return exit_status.of(
        [disk_check for disk_check in checks if not disk_check.controller]
    )


def hints(conf: cfg.ConfigOpts) -> collections.abc.Iterator[str]:
    """Yield what holds for all disks of this host, a line each."""
    if conf.diskplacer_weights.mode in _HINTS:
        yield _HINTS[conf.diskplacer_weights.mode]
    if _sets_schedulers(conf):
        yield from queue_policy.reasons_left_out(
            _catalogue(conf).values(), conf.diskplacer_weights.controller
        )


def check(conf: cfg.ConfigOpts, sys: str = sysfs.SYS) -> list[DiskCheck]:
    """Return the checks of all prepared disks of this host, sorted.

    :raises ContentionError: the host has no cgroup v2 with I/O.
    :raises ProfileError: a profile is invalid.
    """
    disks = list(discover.wait_for_all(conf.diskplacer.disk_root))
    devices, missing = sampler.find_devices(disks, sys)
    hierarchy = cgroups.hierarchy()
    profiles = _profiles_by_disk(conf, disks) if _sets_schedulers(conf) else {}
    checks = [DiskCheck(uuid, '', '', why) for uuid, why in missing.items()]
    checks += [
        _check_disk(conf, device, profiles.get(uuid, []), hierarchy, sys)
        for uuid, device in devices.items()
    ]
    return sorted(checks, key=lambda disk_check: disk_check.uuid)


def _sets_schedulers(conf: cfg.ConfigOpts) -> bool:
    return bool(conf.diskplacer_agent.queue_tuning == 'on')


def _catalogue(conf: cfg.ConfigOpts) -> catalogue.Catalogue:
    return catalogue.load(conf.diskplacer.profile_dirs)


def _profiles_by_disk(
    conf: cfg.ConfigOpts, disks: list[discover.Disk]
) -> _Profiles:
    """Return the profiles of the running servers on each disk, by its UUID.

    There are none while libvirt does not answer, which is told.
    """
    profiles = _catalogue(conf)
    uri: str = conf.diskplacer_agent.libvirt_uri
    try:
        servers = libvirt_servers.list_servers(uri)
    except exception.HypervisorError as error:
        shell.write_progress(
            f'The profiles of running servers are not checked: {error}\n'
        )
        return {}
    return in_use.by_disk(servers, disks, profiles)


def _check_disk(
    conf: cfg.ConfigOpts,
    device: Device,
    profiles: list[definitions.Profile],
    hierarchy: cgroups.Hierarchy,
    sys: str,
) -> DiskCheck:
    choice = conf.diskplacer_weights.controller
    medium = controllers.medium_of(device)
    decision = queue_policy.decide(profiles, medium, choice)
    if decision.left_out:
        return DiskCheck(device.uuid, device.name, '', decision.left_out)
    command = ''
    try:
        name = controllers.configured_controller(device, choice, sys)
        scheduler = controllers.scheduler_of(device, sys)
        if name == controllers.BFQ and scheduler != controllers.BFQ:
            if controllers.kernel_has_bfq(device, sys):
                if _sets_schedulers(conf):
                    # the agent sets it
                    return DiskCheck(device.uuid, device.name, name)
                command = (
                    f'echo bfq > /sys/block/{device.name}/queue/scheduler'
                )
        elif name == controllers.IO_COST and _has_io_cost(hierarchy):
            command = f'diskplacer-manage disk measure {device.uuid}'
        measured = name == controllers.IO_COST and io_model.load(
            conf.diskplacer.disk_root, device.uuid
        )
        if not measured or not _has_io_cost(hierarchy):
            controllers.active_controller(device, hierarchy, choice, sys)
    except (exception.DiskPlacerError, OSError) as error:
        return DiskCheck(device.uuid, device.name, '', str(error), command)
    advice_ = controllers.advice(device, name)
    if advice_:
        command = f'diskplacer-manage disk measure {device.uuid}'
    return DiskCheck(
        device.uuid, device.name, name, advice_, command if advice_ else ''
    )


def _has_io_cost(hierarchy: cgroups.Hierarchy) -> bool:
    return os.path.exists(hierarchy.path('', controllers.IO_COST_QOS))
