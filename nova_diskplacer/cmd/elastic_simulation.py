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

"""diskplacer-manage elastic plan --load: simulates the width of a vdisk."""

import argparse
from typing import Any

from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell
from nova_diskplacer.conf import elastic as options
from nova_diskplacer.disks import identity
from nova_diskplacer.elastic import settings
from nova_diskplacer.elastic import simulation

# Periods of a load that are simulated by default: enough for doubled times.
_PERIODS = 8

# Most intervals that are simulated; they take some ten seconds.
_MAX_STEPS = 200_000

_COLUMNS = ('From s', 'To s', 'Width', 'Demand MB/s', 'Got MB/s', 'Why')


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of a simulation to ``elastic plan``."""
    group = command.add_argument_group('simulation')
    load = group.add_mutually_exclusive_group()
    load.add_argument(
        '--load',
        type=_period,
        metavar='ON:OFF',
        help='simulate a periodic load: seconds with the demand of --demand, '
        'and seconds without any',
    )
    load.add_argument(
        '--series',
        metavar='FILE',
        help='simulate the load of a file of JSON lines, each such as '
        '{"seconds": 60, "mbps": 120}',
    )
    group.add_argument(
        '--demand',
        type=arguments.number(float, 0),
        metavar='MB/S',
        help='demand of --load in MB/s',
    )
    _add_vdisk(group)
    group.add_argument(
        '--seconds',
        type=arguments.number(float, 1),
        help=f'time to simulate (default: {_PERIODS} periods of --load, or '
        'all lines of --series)',
    )
    group.add_argument(
        '--set',
        action='append',
        default=[],
        metavar='OPTION=VALUE',
        help='option of [diskplacer_elastic] to try, such as widen_after=30; '
        'may be repeated',
    )


def _add_vdisk(group: Any) -> None:
    width = arguments.number(int, 1, constants.MAX_STRIPE_DISKS)
    group.add_argument(
        '--min',
        type=width,
        default=1,
        metavar='DISKS',
        help='least width (default: %(default)s)',
    )
    group.add_argument(
        '--max',
        type=width,
        metavar='DISKS',
        help='largest width',
    )
    group.add_argument(
        '--size-gb',
        type=arguments.number(int, 1),
        metavar='GIB',
        help='size of the vdisk',
    )
    group.add_argument(
        '--mbps',
        type=arguments.number(float, 1),
        default=identity.DEFAULT_MBPS[constants.HDD],
        metavar='MB/S',
        help='throughput of each disk in MB/s (default: %(default)s)',
    )
    group.add_argument(
        '--medium',
        choices=constants.MEDIA,
        default=constants.HDD,
        help='medium of the disks: a move is slower on hard disks, which seek '
        '(default: %(default)s)',
    )


def _period(text: str) -> tuple[float, float]:
    """Return the type of ``--load``: seconds on and off."""
    on, colon, off = text.partition(':')
    seconds = arguments.number(float, 0, 1e9)
    try:
        period = seconds(on), seconds(off)
    except argparse.ArgumentTypeError:
        period = (0.0, 0.0)
    if not colon or not period[0]:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not ON:OFF, two numbers of seconds such as 600:600, '
            'the first above 0'
        )
    return period


def run(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Simulate a load, and print what it gives.

    :raises DiskPlacerError: an argument or an option is not valid.
    """
    if args.max is None or args.size_gb is None:
        raise exception.ElasticError('a simulation needs --max and --size-gb')
    if args.min >= args.max:
        raise exception.ElasticError(
            f'--min {args.min} is not less than --max {args.max}'
        )
    if args.max % args.min:
        raise exception.ElasticError(
            f'--max {args.max} is no multiple of --min {args.min}'
        )
    _override(conf, args.set)
    used = settings.from_conf(conf)
    load, seconds = _load(args)
    setup = simulation.Setup(
        args.size_gb, args.min, args.max, args.mbps, args.medium
    )
    if seconds > _MAX_STEPS * used.interval:
        raise exception.ElasticError(
            f'{seconds:g} s are more than {_MAX_STEPS} intervals of '
            f'{used.interval:g} s: set a lower --seconds'
        )
    steps = simulation.run(load, setup, seconds, used)
    if not steps:
        raise exception.ElasticError(
            f'{seconds:g} s are less than [diskplacer_elastic] '
            f'interval={used.interval:g}: set a higher --seconds'
        )
    phases = simulation.phases(steps)
    summary = simulation.summary(steps, setup)
    if args.format == 'json':
        shell.print_json({'phases': phases, 'summary': summary})
    else:
        rows = [_row(phase) for phase in phases]
        print(shell.make_table(_COLUMNS, rows, ('Why',)))
        print(_text(summary, setup))
    return exit_status.OK


def _override(conf: cfg.ConfigOpts, settings_: list[str]) -> None:
    """Set options of the group for this command.

    :raises ElasticError: there is no such option, or it allows no such value.
    """
    names = [option.name for option in options.OPTS]
    for text in settings_:
        name, _, value = text.partition('=')
        if name not in names:
            raise exception.ElasticError(
                f'--set {text}: {name} is not one of: {", ".join(names)}'
            )
        if not value:
            raise exception.ElasticError(f'--set {text} is not OPTION=VALUE')
        try:
            conf.set_override(name, value, options.GROUP.name)
        except ValueError as error:
            raise exception.ElasticError(f'--set {text}: {error}') from error


def _load(args: argparse.Namespace) -> tuple[simulation.Load, float]:
    """Return the load and the seconds to simulate."""
    if args.series is not None:
        if args.demand is not None:
            raise exception.ElasticError('--demand needs --load')
        series = simulation.read(args.series)
        return series, args.seconds or series.seconds
    if args.demand is None:
        raise exception.ElasticError('--load needs --demand')
    on, off = args.load
    period = simulation.Period(on, off, args.demand)
    return period, args.seconds or _PERIODS * (on + off)


def _row(phase: simulation.Phase) -> tuple[str, ...]:
    width = f'{phase.width}'
    if phase.target is not None:
        width += f'→{phase.target}'
    return (
        f'{phase.begin:.0f}',
        f'{phase.end:.0f}',
        width,
        f'{phase.demand:.1f}',
        f'{phase.served:.1f}',
        phase.why,
    )


def _text(summary: simulation.Summary, setup: simulation.Setup) -> str:
    return (
        f'{summary.moves} moves, {summary.copied_gb:.0f} GiB copied, mean '
        f'width {summary.mean_width:.2f}. The vdisk gets '
        f'{summary.served:.0%} of its demand; with a fixed width of '
        f'{setup.minimum} it would get {summary.narrow:.0%}, with '
        f'{setup.maximum} {summary.wide:.0%}.'
    )
