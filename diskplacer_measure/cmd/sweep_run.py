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

"""diskplacer-manage sweep run: measures a disk of this host, and servers."""

import argparse
import collections.abc
import contextlib
import os
import typing

from oslo_config import cfg

from diskplacer_measure.cmd import sweep_cells
from diskplacer_measure.cmd import sweep_options
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import bare
from diskplacer_measure.sweep.measure import claims
from diskplacer_measure.sweep.measure import host_facts
from diskplacer_measure.sweep.measure import measured_disk
from diskplacer_measure.sweep.measure import run
from diskplacer_measure.sweep.measure import server_boots
from diskplacer_measure.sweep.measure import servers
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer import terminal
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import conditions
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import files
from nova_diskplacer.placement import client as placement_client


def register(commands: typing.Any) -> None:
    """Add the command to the subparsers of ``diskplacer-manage sweep``."""
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


def _run(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise exception.DiskError('measuring a disk needs root')
    terminal.exit_on_signals()
    try:
        with _only_sweep(), conditions.locked(args.uuid):
            problems = _measure(conf, args)
    except KeyboardInterrupt:
        shell.write_progress(
            '\nInterrupted: the same command continues, and removes what may '
            'be left.\n'
        )
        return exit_status.INTERRUPTED
    for result in problems:
        shell.write_progress(f'{labels.cell(result.cell)}: {result.problem}\n')
    if problems:
        shell.write_progress(
            f'{len(problems)} results do not count: the same command repeats '
            'these cells.\n'
        )
    return exit_status.of(problems)


def _only_sweep() -> contextlib.AbstractContextManager[None]:
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
    """Measure the cells without a result; return results with a problem.

    :raises DiskPlacerError: the disk or this host cannot be measured, the
        arguments differ from those of the run that is continued, or an API
        fails.
    """
    host, planned = sweep_cells.read(conf, args)
    connection = _connect(conf, args, planned)
    resumed = os.path.exists(args.results)
    sweep_run = _read_run(conf, args, host, planned, connection)
    header = sweep_run.header
    need_gb = sweep_cells.needed_gb(planned, args.mib)
    run_claims = _make_claims(conf, host, header, need_gb)
    run_servers = _make_servers(conf, args, connection, header)
    _report_other_servers(run_servers)
    with contextlib.ExitStack() as stack:
        if resumed:
            _remove_leftovers(conf, args.uuid, run_servers, run_claims)
        disk = stack.enter_context(_borrowed_disk(conf, host, need_gb))
        writer = stack.enter_context(
            results.Writer(args.results)
            if resumed
            else results.Writer.create(args.results, header)
        )
        stack.callback(run_claims.release)
        measurers: dict[bool, run.Measurer] = {
            False: bare.BareMetal(header, disk, run_claims)
        }
        if run_servers:
            measurers[True] = server_boots.ServerBoots(
                header, disk, run_claims, run_servers
            )
        sweep = run.Sweep(sweep_run, writer, measurers, _write_line)
        return sweep.measure(sweep_cells.timing(args, host))


def _write_line(line: str) -> None:
    shell.write_progress(line + '\n')


def _connect(
    conf: cfg.ConfigOpts,
    args: argparse.Namespace,
    planned: collections.abc.Iterable[cells.Cell],
) -> typing.Any:
    """Return the connection to Nova, None if bare metal alone is measured.

    :raises DiskPlacerError: the agent weighs the I/O of servers.
    """
    if not any(cell.servers for cell in planned):
        return None
    if conf.diskplacer_weights.mode == 'on':
        raise exception.DiskPlacerError(
            '[diskplacer_weights] mode=on: the agent weighs the I/O of '
            'servers, and so changes what is measured; set it to off or '
            'dry_run, and restart the agent'
        )
    return cloud.connection(args)


def _read_run(
    conf: cfg.ConfigOpts,
    args: argparse.Namespace,
    host: host_facts.Host,
    planned: tuple[cells.Cell, ...],
    connection: typing.Any,
) -> results.Run:
    """Return the run of the results file, a new one without such a file.

    :raises DiskPlacerError: options or versions differ from those of the run.
    """
    header = host_facts.make_header(
        conf,
        host,
        planned,
        data_mib=args.mib,
        seconds=args.seconds,
        block_kib=args.kib,
        repetitions=args.repetitions,
        connection=connection,
    )
    if not os.path.exists(args.results):
        return results.Run(header, ())
    earlier = results.read(args.results)
    sweep_cells.require_same(args.results, earlier.header, header)
    return earlier


def _make_claims(
    conf: cfg.ConfigOpts,
    host: host_facts.Host,
    header: results.Header,
    need_gb: int,
) -> claims.Claims:
    agent = conf.diskplacer_agent
    return claims.Claims(
        placement_client.PlacementClient.from_conf(conf),
        conf.diskplacer.disk_root,
        host.disk,
        header.id,
        need_gb,
        # until the agent has reported a change of a disk
        int(2 * agent.watch_interval + agent.report_interval),
    )


def _make_servers(
    conf: cfg.ConfigOpts,
    args: argparse.Namespace,
    connection: typing.Any,
    header: results.Header,
) -> servers.Servers | None:
    """Return the servers of the run, None if bare metal alone is measured.

    :raises DiskPlacerError: there is no image, or Glance does not answer.
    """
    if connection is None:
        return None
    if not args.image:
        raise exception.DiskPlacerError(
            '--image is missing: servers boot from an image with fio'
        )
    with cloud.convert_errors(f'--image {args.image}'):
        image = connection.image.find_image(args.image, ignore_missing=False)
    request = servers.Request(
        conf.host, str(image.id), args.volume_type, header.disk.medium
    )
    return servers.Servers(connection, header.id, request)


def _report_other_servers(run_servers: servers.Servers | None) -> None:
    if run_servers and (others := run_servers.count_others()):
        shell.write_progress(
            f'Other servers on this host: {others}. What they do is in the '
            'figures.\n'
        )


def _remove_leftovers(
    conf: cfg.ConfigOpts,
    uuid: str,
    run_servers: servers.Servers | None,
    run_claims: claims.Claims,
) -> None:
    """Remove the leftovers of a killed run, but not the settings of a queue.

    They are restored when the queue is borrowed again.
    """
    if run_servers:
        run_servers.remove()
    run_claims.release()
    measured_disk.free_temporary_space(conf.diskplacer.disk_root, uuid)


@contextlib.contextmanager
def _borrowed_disk(
    conf: cfg.ConfigOpts, host: host_facts.Host, need_gb: int
) -> collections.abc.Iterator[measured_disk.MeasuredDisk]:
    """Yield the disk; restore the settings of its queue at the end.

    :raises DiskError: it has vdisks, or no room for the cells.
    """
    disk_root, uuid = conf.diskplacer.disk_root, host.disk.uuid
    with plain_queue.borrowed(
        conf.diskplacer_agent.state_dir, uuid, host.device
    ) as change:
        disk = discover.inspect(disk_root, uuid)
        measured_disk.require_empty(disk)
        sweep_cells.require_room(disk, need_gb)
        yield measured_disk.MeasuredDisk.borrow(
            disk_root, uuid, host.device, change
        )
