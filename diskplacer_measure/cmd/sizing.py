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

"""diskplacer-manage sizing: causes of the running time of a load."""

import argparse
import collections.abc
import contextlib
import dataclasses
import sys
from typing import Any

from oslo_config import cfg

from diskplacer_measure.cmd import sizing_collect
from diskplacer_measure.cmd import sizing_view
from diskplacer_measure.sizing import advice
from diskplacer_measure.sizing import analysis
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import samples
from diskplacer_measure.sizing.key_value import load
from diskplacer_measure.sizing.key_value import mixes
from diskplacer_measure.sizing.key_value import postgresql
from nova_diskplacer import arguments
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell

# P1 §III, Fig. 3: operations of a run.
_OPERATIONS = 800_000


def register(subparsers: Any) -> None:
    """Add the ``sizing`` commands to an argparse parser's subparsers."""
    sizing = subparsers.add_parser(
        'sizing',
        help='measure what the running time of servers depends on',
    )
    commands = sizing.add_subparsers(dest='sizing_command', required=True)
    _register_load(commands)
    sizing_collect.register(commands)
    command = shell.add_command(
        commands,
        'analyse',
        _analyse,
        'tell what measured runs depend on',
        'Fits the running times of all runs of a file by the counters. Tells '
        'what CPU migrations cost, if there are pinned and floating runs. The '
        'regressions of P1 are shown beside it.',
    )
    command.add_argument('file', metavar='FILE', help='made by sizing collect')
    command.add_argument(
        '--counters',
        type=lambda text: text.split(','),
        default=[],
        metavar='NAME[,NAME]',
        help='counters of the regression (default: those of '
        f'{", ".join(analysis.DEFAULT)} that are not the same in all runs)',
    )
    shell.add_format(command)
    _register_advise(commands)


def _register_load(commands: Any) -> None:
    command = shell.add_command(
        commands,
        'load',
        _load,
        'run operations of YCSB against PostgreSQL',
        'Runs one of the core workloads A, B and C of YCSB against a table of '
        'PostgreSQL, diskplacer_key_value, and prints how long all operations '
        'and each kind of them took. It needs psycopg.',
    )
    command.add_argument(
        'url',
        metavar='URL',
        help='database, as postgresql://USER@HOST/DATABASE; the password '
        'belongs in PGPASSWORD or ~/.pgpass',
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument(
        '--prepare',
        type=arguments.number(int, 1),
        metavar='RECORDS',
        help='only make the table, with so many records of 1 kB; one that is '
        'there is replaced',
    )
    what.add_argument(
        '--workload',
        choices=tuple(mixes.READS),
        help='a: half reads, half updates; b: 95 %% reads; c: reads only',
    )
    what.add_argument(
        '--remove', action='store_true', help='only remove the table'
    )
    command.add_argument(
        '--operations',
        type=arguments.number(int, 1),
        default=_OPERATIONS,
        help='number of operations of all clients (default: %(default)s, as '
        'in P1)',
    )
    command.add_argument(
        '--clients',
        type=arguments.number(int, 1, 64),
        default=1,
        help='operations at once; all clients share one CPU (default: '
        '%(default)s, as in P1)',
    )
    command.add_argument(
        '--seed',
        type=arguments.number(int, 0),
        default=0,
        help='number that decides the operations (default: %(default)s)',
    )
    shell.add_format(command)


def _register_advise(commands: Any) -> None:
    command = shell.add_command(
        commands,
        'advise',
        _advise,
        'tell whether the memory of a server suffices',
        'Tells whether the memory of a server holds what it reads again and '
        'again, by the size of that data, or by a counter of the guest. The '
        'size of its disks says nothing. The exit status is 3 if it does not.',
    )
    command.add_argument(
        '--memory-gb',
        type=arguments.number(float, 0.001),
        required=True,
        metavar='GIB',
        help='memory of the server',
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        '--data-gb',
        type=arguments.number(float, 0.001),
        metavar='GIB',
        help='size of the data that is read again and again',
    )
    source.add_argument(
        '--refaults',
        type=arguments.number(int, 0),
        metavar='PAGES',
        help='growth of workingset_refault_file in /proc/vmstat of the guest',
    )
    command.add_argument(
        '--seconds',
        type=arguments.number(float, 1),
        help='the time in which it grew so',
    )
    shell.add_format(command)


def _load(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    try:
        return _use_store(args)
    except KeyboardInterrupt:
        shell.write_progress('\nInterrupted.\n')
        return exit_status.INTERRUPTED


def _use_store(args: argparse.Namespace) -> int:
    with contextlib.closing(postgresql.connect(args.url)) as store:
        if args.remove:
            store.remove()
            return exit_status.OK
        if args.prepare is not None:
            store.fill(args.prepare, _progress('records', args.prepare))
            return exit_status.OK
        about = store.describe()
    plan = load.Plan(
        reads=mixes.READS[args.workload],
        records=about.records,
        operations=args.operations,
        clients=args.clients,
        seed=args.seed,
    )
    result = load.run(
        plan,
        lambda: postgresql.connect(args.url),
        _progress('operations', args.operations),
    )
    if args.format == 'json':
        fields = {
            'workload': args.workload,
            'operations': args.operations,
            'clients': args.clients,
            'seed': args.seed,
            **dataclasses.asdict(about),
            **dataclasses.asdict(result),
        }
        shell.print_json(fields)
    else:
        sizing_view.print_load(about, result)
    return exit_status.OK


def _analyse(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    result = analysis.analyse(samples.read(args.file), args.counters)
    if args.format == 'json':
        shell.print_json(
            {**dataclasses.asdict(result), 'warning': analysis.WARNING}
        )
    else:
        sizing_view.print_analysis(result)
    return exit_status.OK


def _advise(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    if (args.refaults is None) != (args.seconds is None):
        raise errors.SizingError('--refaults and --seconds need each other')
    memory = round(args.memory_gb * advice.GIB)
    if args.data_gb is not None:
        result = advice.by_data(memory, round(args.data_gb * advice.GIB))
    else:
        result = advice.by_refaults(memory, args.refaults, args.seconds)
    if args.format == 'json':
        shell.print_json(result)
    else:
        sizing_view.print_advice(result)
    return exit_status.of(not result.enough)


def _progress(noun: str, total: int) -> collections.abc.Callable[[int], None]:
    """Return a function that writes progress to a terminal."""

    def write(done: int) -> None:
        if sys.stderr.isatty():
            end = '\n' if done == total else ''
            shell.write_progress(f'\r{done} of {total} {noun}{end}')

    return write
