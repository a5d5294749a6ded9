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

"""diskplacer-manage elastic run and move: move the legs of elastic vdisks.

Entry points add them to ``diskplacer-manage``.
"""

import argparse
import collections.abc
import functools
import os
import signal
import threading
from typing import Any

from oslo_config import cfg

from cinder_vdisk_mapper.cmd import cinder_conf
from cinder_vdisk_mapper.cmd import progress
from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.conf import files as config_files
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic.processes import executor
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.monitor import elastic_status


def register_run(commands: Any) -> None:
    """Add ``run`` to the commands of ``diskplacer-manage elastic``."""
    _add(
        commands,
        'run',
        _run,
        'carry out the moves that the agent decides',
        'Moves elastic vdisks of this host as the agent decides, step by '
        'step, until it is stopped: a step that is under way then is taken '
        'back. Runs beside cinder-volume, as a service.',
    )


def register_move(commands: Any) -> None:
    """Add ``move`` to the commands of ``diskplacer-manage elastic``."""
    command = _add(
        commands,
        'move',
        _move,
        'move an elastic vdisk by one disk',
        'Moves legs of an elastic vdisk to one more disk, or from its last '
        'disk to another one of it, and ends. The servers that use it go on. '
        'If interrupted, the step is taken back.',
    )
    command.add_argument('volume', metavar='VOLUME', help='its ID')
    group = command.add_mutually_exclusive_group(required=True)
    group.add_argument('--disk', metavar='UUID', help='the further disk')
    group.add_argument(
        '--narrow', action='store_true', help='have it on one disk less'
    )


def _add(
    commands: Any,
    name: str,
    handler: collections.abc.Callable[..., int],
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description
    )
    cinder_conf.add_option(command)
    command.set_defaults(handler=handler, configure=cinder_conf.configure)
    return command


def _run(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    own = _own_conf(args)
    state_dir = own.diskplacer_agent.state_dir
    fetch_step = functools.partial(step_socket.fetch, state_dir)
    _executor(own, fetch_step).run()
    return exit_status.OK


def _move(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    own = _own_conf(args)
    disks = discover.wait_for_all(own.diskplacer.disk_root)
    vdisk = discovery.require(disks, args.volume)
    location = next_location(vdisk, args.disk)
    steps = _executor(own, lambda: None, progress.Progress())
    reason = steps.step(args.volume, location)
    if reason:
        raise exception.ElasticError(
            f'volume {args.volume} was not moved: {reason}'
        )
    number = location.width
    print(f'Volume {args.volume} is on {number} disks.')
    return exit_status.OK


def next_location(vdisk: inputs.ElasticVDisk, disk: str | None) -> Location:
    """Return the location after a step.

    :param disk: UUID of the further disk, None for one less.
    :raises ElasticError: there is none.
    """
    if disk is None:
        new = vdisk.location.narrowed(vdisk.minimum)
        if new is None:
            raise exception.ElasticError(
                f'--narrow: it is on {vdisk.width} disks, its minimum'
            )
        return new
    try:
        new = vdisk.location.widened(disk)
    except ValueError as error:
        raise exception.ElasticError(f'--disk {disk}: {error}') from error
    if new is None:
        raise exception.ElasticError(
            f'--disk {disk}: it is on {vdisk.width} disks, its maximum'
        )
    return new


def _executor(
    own: cfg.ConfigOpts,
    fetch_step: collections.abc.Callable[[], elastic_status.WantedStep | None],
    show: collections.abc.Callable[[str, int, int], None] | None = None,
) -> executor.Executor:
    """Return an executor that signals stop which would end the process.

    :raises ElasticError: the user is not root.
    """
    if os.geteuid() != 0:
        raise exception.ElasticError('moving vdisks needs root')
    from cinder_vdisk_mapper.moves import leg_mover

    stopped = threading.Event()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: stopped.set())
    return executor.Executor(
        own.diskplacer.disk_root,
        leg_mover.LegMover(),
        fetch_step,
        stopped,
        own.diskplacer_elastic.copy_share,
        show,
    )


def _own_conf(args: argparse.Namespace) -> cfg.ConfigOpts:
    """Return the options of this host, beside those of cinder.conf.

    :raises DiskPlacerError: a file or an option is not valid.
    """
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    config_files.read(conf, args.config_file)
    return conf
