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

"""Fennel's Table II: four tasks on one disk, without and with the agent.

P4, §V-A: tasks that read 10 GB, 3 GB, 500 MB and 250 MB begin five seconds
after each other; each MB of use costs a 128th of a class of 10. Here fio reads
them in sequence in four cgroups in a testbed guest. All are of one project, as
the servers of a tenant are, or with --own-projects of four. With --guests,
guests of QEMU read from vdisks.

The disk is held to a throughput from outside. It is as much slower than the
paper's, which does 166 MB/s, as the agent's scale is smaller, and so are all
sizes, so that times compare. With --disk seeking it is that of
tools/seeking_disk instead, which is as fast as the paper's, and seeks.

One disk has BFQ, another one mq-deadline, on which the agent has io.cost share
it. Without the agent neither has weights, nor io.cost. With it, it does its
rounds as it does on a compute node. Its Python is about ten times slower in
the guest.

Then a server reads 3 MB/s at random places beside a scan, on a disk as much
slower again as above, and is compared with itself alone, as often as the tasks
are run; one disk after the other.
"""

import argparse
import collections.abc
import functools
import signal
import statistics
import sys
import typing

import _contention_goals
import _contention_setup as setup
import _in_guest
import _report
from diskplacer_measure import stats

# P4, Table II, and section V-A for what was read and the aggregate in MB/s.
SIZES_MB = (10000, 3000, 500, 250)
LAG_S = 5
GUESTS_SCALE_MB = 6
PAPER = ((83.0, 81.9), (44.6, 40.1), (12.4, 7.1), (6.9, 3.7))
PAPER_AGGREGATE = (166.0, 166.2)

# How long each part of the steady server's takes in a run.
STEADY_S = {'alone': 30, 'without': 90, 'with': 180}
QUICK_STEADY_S = {'alone': 20, 'without': 20, 'with': 60}

# --quick: all but the first have ended long before it
QUICK_SIZES_MB = (5000, *SIZES_MB[1:])

ARMS = ('without', 'with')
TASKS, STEADY = 'tasks', 'steady'
PARTS = (TASKS, STEADY)
Seconds = list[float]
# What the steady server and the scan get, by arm, server and figure.
Steady = dict[str, dict[str, dict[str, float]]]


class Times(typing.NamedTuple):
    """How long the tasks took on a disk, run by run."""

    without: list[Seconds]
    with_: list[Seconds]


def aggregate(sizes: typing.Sequence[int], seconds: Seconds) -> float:
    """Return the MB/s of all tasks together.

    :raises ValueError: the first was not there from beginning to end, so
        that its time is not that of all.
    """
    last = max(task * LAG_S + took for task, took in enumerate(seconds[1:], 1))
    if last > seconds[0]:
        raise ValueError(f'the first task has not ended last: {seconds}')
    return sum(sizes) / seconds[0] / setup.MB


def change(before: float, after: float) -> float:
    """Return by how many per cent something has changed."""
    return 100 * (after / before - 1)


def evaluate(
    name: str, times: Times, sizes: typing.Sequence[int]
) -> _report.Figures:
    """Return the figures of a disk."""
    found: _report.Figures = {}

    def add(figure: str, arms: typing.Iterable[Seconds]) -> None:
        pair = list(arms)
        medians = []
        for arm, values in zip(ARMS, pair, strict=True):
            spread = stats.spread(values)
            medians.append(spread.median)
            found[f'{figure}_{arm}'] = spread.median
            found[f'{figure}_{arm}_min'] = spread.low
            found[f'{figure}_{arm}_max'] = spread.high
        changes = [change(*values) for values in zip(*pair, strict=True)]
        found[f'{figure}_change'] = change(*medians)
        found[f'{figure}_change_min'] = min(changes)
        found[f'{figure}_change_max'] = max(changes)

    for task in range(len(sizes)):
        add(
            f'{name}_task{task + 1}_s',
            ([seconds[task] for seconds in arm] for arm in times),
        )
    add(
        f'{name}_aggregate_mbps',
        ([aggregate(sizes, seconds) for seconds in arm] for arm in times),
    )
    return found


def evaluate_steady(
    name: str, runs: typing.Sequence[Steady]
) -> _report.Figures:
    """Return the figures of the server with a steady rate.

    They are medians with the lowest and the highest; one run has no ends.
    """
    every = []
    for run in runs:
        plain: _report.Figures = {
            f'{name}_{who}_{arm}_{figure}': value
            for arm, servers in run.items()
            for who, told in servers.items()
            for figure, value in told.items()
        }
        every.append(plain | _contention_goals.compared(name, plain))
    figures: _report.Figures = {}
    for figure in every[0]:
        spread = stats.spread(
            [typing.cast(float, one[figure]) for one in every]
        )
        figures[figure] = spread.median
        if len(every) > 1:
            figures[f'{figure}_min'] = spread.low
            figures[f'{figure}_max'] = spread.high
    return figures


def show(name: str, figures: _report.Figures) -> None:
    """Print a disk's part of the table beside the paper's."""

    def row(title: str, paper: tuple[float, float], figure: str) -> list[str]:
        def measured(arm: str) -> str:
            median, low, high = (
                figures[f'{figure}_{arm}{end}'] for end in ('', '_min', '_max')
            )
            return f'{median:.2f} ({low:.2f} to {high:.2f})'

        return [
            title,
            *(f'{one:.1f}' for one in paper),
            f'{change(*paper):+.1f}',
            *(measured(arm) for arm in ARMS),
            f'{figures[f"{figure}_change"]:+.2f}',
        ]

    print(f'{name} ({setup.SCHEDULERS[name]}): median (lowest to highest)')
    _report.table(
        ('', 'Paper: baseline', 'Fennel', 'Change, %')
        + ('Without the agent', 'With', 'Here, %'),
        [
            *(
                row(f'Task {task}, s', paper, f'{name}_task{task}_s')
                for task, paper in enumerate(PAPER, 1)
            ),
            row('All, MB/s', PAPER_AGGREGATE, f'{name}_aggregate_mbps'),
        ],
    )


def show_steady(name: str, figures: _report.Figures) -> None:
    """Print what a server with a steady rate gets: medians of the runs."""

    def row(arm: str) -> list[str]:
        parts = [
            f'steady_{arm}_{one}' for one in ('mbps', 'latency_ms', 'p99_ms')
        ]
        return [
            f'{figures[f"{name}_{part}"]:.2f}'
            for part in (*parts, f'scan_{arm}_mbps')
            if f'{name}_{part}' in figures
        ]

    print(f'{name}: a server that reads {setup.STEADY_MBPS:g} MB/s, scaled')
    _report.table(
        ('', 'MB/s', 'Mean latency, ms', '99 %, ms', 'Scan, MB/s'),
        [
            ('alone', *row('alone'), ''),
            *((f'{arm} the agent, beside', *row(arm)) for arm in ARMS),
        ],
    )


class Measured(typing.NamedTuple):
    """What was measured, by disk, and what the agent took of a core."""

    times: dict[str, Times]
    steady: dict[str, list[Steady]]
    agents: list[dict[str, float]]


def measure(args: argparse.Namespace, disks: setup.Disks) -> Measured:
    """Measure all that is asked for."""
    found = Measured(
        {name: Times([], []) for name in disks.names if TASKS in args.part},
        {name: [] for name in disks.names if STEADY in args.part},
        [],
    )
    with disks.prepared() as bed:

        def in_guest(
            names: list[str],
        ) -> collections.abc.Callable[..., typing.Any]:
            settings = disks.settings(names) | {
                'projects': []
                if args.own_projects
                else ['project'] * len(SIZES_MB)
            }
            return functools.partial(
                _in_guest.run, bed, setup.GUEST, **settings
            )

        if found.times:
            for names in disks.at_once():
                _measure_tasks(args, disks, in_guest(names), found)
        # latencies on a disk tell of the other one, too, if both are busy
        for name in found.steady:
            _measure_steady(args, disks, in_guest([name]), found)
    return found


def _measure_tasks(
    args: argparse.Namespace,
    disks: setup.Disks,
    in_guest: collections.abc.Callable[..., typing.Any],
    found: Measured,
) -> None:
    # the second one of a run finds a machine that may be another
    agents = [
        arm for run in range(args.runs) for arm in (run % 2, 1 - run % 2)
    ]
    for agent, got in zip(
        agents,
        in_guest(
            'tasks',
            sizes=disks.sizes,
            lag=LAG_S,
            agents=agents,
            guests=args.guests,
        ),
        strict=True,
    ):
        for device, seconds in got['seconds'].items():
            found.times[disks.name_of(device)][agent].append(seconds)
        if agent:
            found.agents.append(got['agent'])


def _measure_steady(
    args: argparse.Namespace,
    disks: setup.Disks,
    in_guest: collections.abc.Callable[..., typing.Any],
    found: Measured,
) -> None:
    for run in range(args.runs):
        setup.progress(f'a steady server beside a scan, run {run + 1}')
        got = in_guest(
            'steady', seconds=QUICK_STEADY_S if args.quick else STEADY_S
        )
        for device, arms in got.items():
            found.steady[disks.name_of(device)].append(arms)


def run(
    args: argparse.Namespace,
) -> tuple[_report.Figures, list[_report.Goal]]:
    """Measure and show everything."""
    disks = setup.Disks(args, QUICK_SIZES_MB if args.quick else SIZES_MB)
    measured = measure(args, disks)
    figures: _report.Figures = {}
    aims: list[_report.Goal] = []
    for name in disks.names:
        if name in measured.times:
            figures |= evaluate(name, measured.times[name], disks.sizes)
            show(name, figures)
        if name in measured.steady:
            figures |= evaluate_steady(name, measured.steady[name])
            show_steady(name, figures)
        aims += _contention_goals.goals(name, figures, args.prefer)
    if measured.agents:
        figures['agent_round_cpu_s'] = statistics.median(
            one['round_cpu_s'] for one in measured.agents
        )
    return figures, aims


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    setup.add_arguments(parser)
    parser.set_defaults(scale_mb=None)
    parser.add_argument('--runs', type=int, help='how often (default: 5)')
    parser.add_argument(
        '--quick',
        action='store_true',
        help='one run unless --runs says more, and 5 GB for the first task: '
        'its time and the aggregate do not compare to the paper',
    )
    parser.add_argument(
        '--part',
        action='append',
        choices=PARTS,
        help='only this one; by default both, and the tasks with --guests',
    )
    parser.add_argument(
        '--own-projects',
        action='store_true',
        help='each task is of a project of its own',
    )
    parser.add_argument(
        '--guests',
        action='store_true',
        help='guests of QEMU read, 128 KiB at a time, not fio; they have a '
        'throttled disk, no server beside a scan, and a scale of '
        f'{GUESTS_SCALE_MB} MB unless --scale-mb says another',
    )
    args = parser.parse_args()
    if args.guests and args.disk == 'seeking':
        parser.error('--guests: --disk must be throttled')
    if args.guests and STEADY in (args.part or ()):
        parser.error(f'--guests: --part must be {TASKS}')
    args.part = args.part or ((TASKS,) if args.guests else PARTS)
    args.scale_mb = args.scale_mb or (
        GUESTS_SCALE_MB if args.guests else setup.DEFAULT_SCALE_MB
    )
    args.runs = args.runs or (1 if args.quick else 5)
    figures, aims = run(args)
    _report.show_goals(figures, aims)
    if args.json:
        _report.write(args.json, 'contention', figures, aims)
    return 0


if __name__ == '__main__':
    sys.exit(main())
