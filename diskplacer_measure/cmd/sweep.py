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
import collections.abc
import typing

from oslo_config import cfg

from diskplacer_measure.cmd import sweep_cells
from diskplacer_measure.cmd import sweep_options
from diskplacer_measure.cmd import sweep_report
from diskplacer_measure.cmd import sweep_run
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import plan
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell


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
    sweep_run.register(commands)
    sweep_report.register(commands)


def _plan(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    host, planned = sweep_cells.read(conf, args)
    limits = plan.Limits(args.mib, args.seconds)
    timing = sweep_cells.timing(args, host)
    batches = plan.batches(plan.repetitions_of(planned, args.repetitions), '')
    boots = sum(bool(batch.target.servers) for batch in batches)
    seconds = plan.duration(batches, timing, limits)
    if args.format == 'json':
        shell.print_json(
            {
                'disk': host.disk.uuid,
                'cells': planned,
                'repetitions': args.repetitions,
                'boots': boots,
                'seconds': round(seconds),
            }
        )
        return exit_status.OK
    print(_table(planned, batches, timing, limits))
    print(
        f'{len(planned)} cells, {args.repetitions} repetitions, '
        f'{boots} boots of servers: about {labels.duration(seconds)}'
    )
    return exit_status.OK


def _table(
    planned: tuple[cells.Cell, ...],
    batches: list[plan.BootBatch],
    timing: plan.Timing,
    limits: plan.Limits,
) -> typing.Any:
    by_target = collections.defaultdict(list)
    for batch in batches:
        by_target[batch.target].append(batch)
    rows = []
    for target, members in sorted(by_target.items()):
        target_cells = [
            cell for cell in planned if plan.Target.of(cell) == target
        ]
        rows.append(
            [
                labels.place(target),
                len(target_cells),
                _distinct(cell.jobs for cell in target_cells),
                _distinct(cell.engine for cell in target_cells),
                _distinct(cell.host_scheduler for cell in target_cells),
                len(members) if target.servers else '',
                labels.duration(plan.duration(members, timing, limits)),
            ]
        )
    columns = (
        'Where', 'Cells', 'Threads', 'Engines', 'Schedulers', 'Boots', 'Time',
    )  # fmt: skip
    return shell.make_table(columns, rows)


def _distinct(values: collections.abc.Iterable[typing.Any]) -> str:
    return ' '.join(map(str, sorted(set(values))))
