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

"""diskplacer-manage sweep: measures the I/O of servers of this host."""

import argparse
import collections
import contextlib
import os
import typing

from oslo_config import cfg

from diskplacer_measure.cmd import sweep_cells
from diskplacer_measure.cmd import sweep_options
from diskplacer_measure.cmd import sweep_report
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import words
from diskplacer_measure.sweep.measure import bare
from diskplacer_measure.sweep.measure import claims
from diskplacer_measure.sweep.measure import host_facts
from diskplacer_measure.sweep.measure import measured_disk
from diskplacer_measure.sweep.measure import run
from diskplacer_measure.sweep.measure import server_boots
from diskplacer_measure.sweep.measure import servers
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import conditions
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import files
from nova_diskplacer.placement import client as placement_client

# Share of a disk's throughput at which space is filled while nothing is known.
_CAUTION = 0.5


def register(subparsers: typing.Any) -> None:
    """Add the ``sweep`` command to an argparse parser's subparsers."""
    sweep = subparsers.add_parser(
        'sweep', help='measure the I/O of servers of this host'
    )
    commands = sweep.add_subparsers(dest='sweep_command', required=True)

    command = shell.add_command(
        commands,
        'plan',
        _plan,
        'show what a run would measure',
        'Shows where a run with the same options measures, how often it boots '
        'servers, and about how long it takes. It changes nothing.',
    )
    sweep_options.add_grid(command)
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'run',
        _run,
        'measure bare metal and servers on a disk of this host',
        'Measures a disk without vdisks with fio: on bare metal, in one '
        'server, and in several servers at once, which it boots on this host '
        'through Nova and deletes afterwards. It changes the queue of the '
        'disk meanwhile, and restores it. Nothing else should run on this '
        'host. Each result is saved at once; the same command continues a run '
        'that was interrupted, and first removes what that has left.',
    )
    sweep_options.add_grid(command)
    sweep_options.add_servers(command)
    cloud.add_arguments(command)

    sweep_report.register(commands)


def _plan(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    host, grid = _read(conf, args)
    limits = plan.Limits(args.mib, args.seconds)
    timing = _timing(host, args)
    boots = plan.boots(plan.items_of(grid, args.repetitions), '')
    seconds = plan.duration(boots, timing, limits)
    if args.format == 'json':
        shell.print_json(
            {
                'disk': host.disk.uuid,
                'cells': grid,
                'repetitions': args.repetitions,
                'boots': sum(bool(boot.body.servers) for boot in boots),
                'seconds': round(seconds),
            }
        )
        return exit_status.OK
    print(_table(grid, boots, timing, limits))
    print(
        f'{len(grid)} cells, {args.repetitions} repetitions, '
        f'{sum(bool(boot.body.servers) for boot in boots)} boots of servers: '
        f'about {words.duration(seconds)}'
    )
    return exit_status.OK


def _table(
    grid: tuple[cells.Cell, ...],
    boots: list[plan.Boot],
    timing: plan.Timing,
    limits: plan.Limits,
) -> typing.Any:
    number = collections.Counter(boot.body for boot in boots)
    rows = []
    for body, count in sorted(number.items()):
        inside = [cell for cell in grid if plan.Body.of(cell) == body]
        taken = [boot for boot in boots if boot.body == body]
        rows.append(
            [
                words.place(body),
                len(inside),
                ' '.join(map(str, sorted({cell.jobs for cell in inside}))),
                ' '.join(sorted({cell.engine for cell in inside})),
                ' '.join(sorted({cell.host_scheduler for cell in inside})),
                count if body.servers else '',
                words.duration(plan.duration(taken, timing, limits)),
            ]
        )
    columns = (
        'Where', 'Cells', 'Threads', 'Engines', 'Schedulers', 'Boots', 'Time',
    )  # fmt: skip
    return shell.make_table(columns, rows)


def _timing(host: host_facts.Host, args: argparse.Namespace) -> plan.Timing:
    return plan.Timing(args.boot_timeout, max(1, host.disk.mbps) * _CAUTION)


def _run(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('measuring a disk needs root')
    shell.exit_on_signals()
    try:
        with _alone(), conditions.locked(args.uuid):
            problems = _measure(conf, args)
    except KeyboardInterrupt:
        shell.say(
            '\nInterrupted: the same command continues, and removes what may '
            'be left.\n'
        )
        return exit_status.INTERRUPTED
    for result in problems:
        shell.say(f'{words.cell(result.cell)}: {result.problem}\n')
    if problems:
        shell.say(
            f'{len(problems)} results do not count: the same command repeats '
            'these cells.\n'
        )
    return exit_status.of(problems)


def _alone() -> contextlib.AbstractContextManager[None]:
    """Keep other sweeps from this host, whose processors they would use.

    :raises DiskPlacerError: there is another one.
    """
    return files.sole(
        'sweep',
        exception.DiskPlacerError(
            'another diskplacer-manage sweep run measures on this host'
        ),
    )


def _measure(
    conf: cfg.ConfigOpts, args: argparse.Namespace
) -> list[cells.Result]:
    """Measure what has no result yet; return what cannot be measured.

    :raises DiskPlacerError: the disk or this host cannot be measured, the
        arguments differ from those of the run that is continued, or an API
        fails.
    """
    host, grid = _read(conf, args)
    connection = None
    if any(cell.servers for cell in grid):
        _check_weights(conf)
        connection = cloud.connection(args)
    resumed = os.path.exists(args.results)
    header = host_facts.make_header(
        conf,
        host,
        grid,
        data_mib=args.mib,
        seconds=args.seconds,
        block_kib=args.kib,
        repetitions=args.repetitions,
        connection=connection,
    )
    known = results.Run(header, ())
    if resumed:
        known = results.read(args.results)
        sweep_cells.require_same(args.results, known.header, header)
        header = known.header
    disk_root = conf.diskplacer.disk_root
    need_gb = sweep_cells.needed_gb(grid, args.mib)
    held = claims.Claims(
        _placement(conf),
        disk_root,
        host.disk,
        header.id,
        need_gb,
        _settle_seconds(conf),
    )
    made = _servers(conf, args, connection, header)
    if made and (others := made.count_others()):
        shell.say(
            f'Other servers on this host: {others}. What they do is in the '
            'figures.\n'
        )
    with contextlib.ExitStack() as stack:
        if resumed:
            _remove_leftovers(disk_root, args.uuid, made, held)
        change = stack.enter_context(
            plain_queue.borrowed(
                conf.diskplacer_agent.state_dir, args.uuid, host.device
            )
        )
        disk = discover.inspect(disk_root, args.uuid)
        measured_disk.require_empty(disk)
        sweep_cells.require_room(disk, need_gb)
        writer = stack.enter_context(
            results.Writer(args.results)
            if resumed
            else results.Writer.create(args.results, header)
        )
        stack.callback(held.release)
        measured = measured_disk.MeasuredDisk.borrow(
            disk_root, args.uuid, host.device, change
        )
        measurers: dict[bool, run.Measurer] = {
            False: bare.BareMetal(header, measured, held)
        }
        if made:
            measurers[True] = server_boots.ServerBoots(
                header, measured, held, made
            )
        sweep = run.Sweep(
            known, writer, measurers, lambda line: shell.say(line + '\n')
        )
        return sweep.measure(_timing(host, args))


def _read(
    conf: cfg.ConfigOpts, args: argparse.Namespace
) -> tuple[host_facts.Host, tuple[cells.Cell, ...]]:
    """Return what is known of the host, and the cells to measure on it.

    Options that are not set get their defaults.

    :raises DiskPlacerError: an option is not possible on this host.
    """
    sweep_options.resolve(args)
    host = host_facts.read(conf, args.uuid)
    capacity = host_facts.read_capacity(_placement(conf), args.uuid)
    return host, sweep_cells.cells_of(args, host, capacity)


def _placement(conf: cfg.ConfigOpts) -> placement_client.PlacementClient:
    return placement_client.PlacementClient.from_conf(conf)


def _settle_seconds(conf: cfg.ConfigOpts) -> int:
    """Return the seconds until the agent has reported a change of a disk."""
    agent = conf.diskplacer_agent
    return int(2 * agent.watch_interval + agent.report_interval)


def _check_weights(conf: cfg.ConfigOpts) -> None:
    """Check that the agent does not weigh the I/O of servers.

    :raises DiskPlacerError: it does.
    """
    if conf.diskplacer_weights.mode == 'on':
        raise exception.DiskPlacerError(
            '[diskplacer_weights] mode=on: the agent weighs the I/O of '
            'servers, and so changes what is measured; set it to off or '
            'dry_run, and restart the agent'
        )


def _servers(
    conf: cfg.ConfigOpts,
    args: argparse.Namespace,
    connection: typing.Any,
    header: results.Header,
) -> servers.Servers | None:
    """Return what boots servers, None if bare metal alone is measured."""
    if connection is None:
        return None
    wanted = servers.Wanted(
        conf.host,
        _find_image(connection, args),
        args.volume_type,
        header.disk.medium,
    )
    return servers.Servers(connection, header.id, wanted)


def _find_image(connection: typing.Any, args: argparse.Namespace) -> str:
    """Return the ID of the image of servers.

    :raises DiskPlacerError: there is none, or Glance does not answer.
    """
    if not args.image:
        raise exception.DiskPlacerError(
            '--image is missing: servers boot from an image with fio'
        )
    with cloud.convert_errors(f'--image {args.image}'):
        image = connection.image.find_image(args.image, ignore_missing=False)
    return str(image.id)


def _remove_leftovers(
    disk_root: str,
    uuid: str,
    made: servers.Servers | None,
    held: claims.Claims,
) -> None:
    """Remove what a killed run has left, but for the settings of the queue."""
    if made:
        made.remove()
    held.release()
    measured_disk.free_temporary_space(disk_root, uuid)
