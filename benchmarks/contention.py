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
them in sequence in four cgroups, on a disk that is held to a throughput from
outside, in a testbed guest. The disk is as much slower than the paper's, which
does 166 MB/s, as the agent's scale is smaller, and so are all sizes, so that
times compare.

Two disks at the same time, each alone with its four tasks: one with BFQ, one
with mq-deadline, on which the agent has io.cost share it. Without the agent
neither has weights, nor io.cost. With it, it does its rounds as it does on a
compute node. Its Python is about ten times slower in the guest.

No slower, of a long task, is: by less than the 0.5 % of the throughput that
may be lost, or than the times without the agent differ among each other.
"""

import argparse
import json
import pathlib
import signal
import statistics
import sys
import typing

import _report
import _stats
from tools.testbed import Disk
from tools.testbed import Testbed

GUEST = pathlib.Path(__file__).with_name('_contention_guest.py')
TOP = GUEST.parents[1]
SCHEDULERS = {'bfq': 'bfq', 'io_cost': 'mq-deadline'}
MIB = 1 << 20
MB = 10**6

# P4, Table II, and section V-A for what was read and the aggregate in MB/s.
PAPER_MBPS = 166.0
SIZES_MB = (10000, 3000, 500, 250)
SCALE_MB = 128
LAG_S = 5
PAPER = ((83.0, 81.9), (44.6, 40.1), (12.4, 7.1), (6.9, 3.7))
PAPER_AGGREGATE = (166.0, 166.2)
# by how many per cent they are to change, by the number of the task
SMALL = {3: -43.0, 4: -46.0}
LONG = (1, 2)
TOLERANCE = 0.5

# --quick: all but the first have ended long before it
QUICK_SIZES_MB = (5000, *SIZES_MB[1:])

ARMS = ('without', 'with')
Seconds = list[float]


class Times(typing.NamedTuple):
    """How long the tasks took on a disk, run by run."""

    without: list[Seconds]
    with_: list[Seconds]


def scaled(sizes_mb: typing.Iterable[float], mbps: float) -> list[int]:
    """Return sizes in bytes, whole MiB, as much smaller as the disk is."""
    return [
        max(1, round(size * MB * mbps / PAPER_MBPS / MIB)) * MIB
        for size in sizes_mb
    ]


def aggregate(sizes: typing.Sequence[int], seconds: Seconds) -> float:
    """Return the MB/s of all tasks together.

    :raises ValueError: the first was not there from beginning to end, so
        that its time is not that of all.
    """
    last = max(task * LAG_S + took for task, took in enumerate(seconds[1:], 1))
    if last > seconds[0]:
        raise ValueError(f'the first task has not ended last: {seconds}')
    return sum(sizes) / seconds[0] / MB


def change(before: float, after: float) -> float:
    """Return by how many per cent something has changed."""
    return 100 * (after / before - 1)


def evaluate(
    name: str, times: Times, sizes: typing.Sequence[int]
) -> _report.Figures:
    """Return the figures of a disk."""
    found: _report.Figures = {}

    def add(figure: str, arms: typing.Iterable[Seconds]) -> None:
        medians = []
        for arm, values in zip(ARMS, arms, strict=True):
            spread = _stats.spread(values)
            medians.append(spread.median)
            found[f'{figure}_{arm}'] = spread.median
            found[f'{figure}_{arm}_min'] = spread.low
            found[f'{figure}_{arm}_max'] = spread.high
        found[f'{figure}_change'] = change(*medians)

    for task in range(len(sizes)):
        add(
            f'{name}_task{task + 1}_s',
            ([seconds[task] for seconds in arm] for arm in times),
        )
    add(
        f'{name}_aggregate_mbps',
        ([aggregate(sizes, seconds) for seconds in arm] for arm in times),
    )
    for task in LONG:
        values = [seconds[task - 1] for seconds in times.without]
        found[f'{name}_task{task}_noise'] = change(min(values), max(values))
    return found


def goals(
    name: str, figures: _report.Figures
) -> typing.Iterator[_report.Goal]:
    for task, least in SMALL.items():
        yield _report.Goal(f'{name}_task{task}_s_change', '<=', least)
    yield _report.Goal(f'{name}_aggregate_mbps_change', '>=', -TOLERANCE)
    for task in LONG:
        noise = figures[f'{name}_task{task}_noise']
        assert noise is not None
        yield _report.Goal(
            f'{name}_task{task}_s_change', '<=', max(TOLERANCE, noise)
        )


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

    print(f'{name} ({SCHEDULERS[name]}): median (lowest to highest)')
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


def in_guest(bed: Testbed, what: str, **settings: typing.Any) -> typing.Any:
    """Run one part in the guest and return what it tells."""

    def say(name: str, text: str) -> None:
        if name == 'err':
            sys.stderr.write(text)

    printed = bed.run(
        'python', '-W', 'ignore', str(GUEST), what, json.dumps(settings),
        env={'PYTHONPATH': str(TOP)},
        timeout=3600,
        say=say,
    ).out  # fmt: skip
    return json.loads(printed.splitlines()[-1])


def measure(
    args: argparse.Namespace, mbps: float, sizes: list[int]
) -> tuple[dict[str, Times], list[dict[str, float]]]:
    """Return what is measured: of each disk, and of the agent."""
    found = {name: Times([], []) for name in args.controller}
    agents = []
    with Testbed([Disk(gib=8, mbps=mbps) for _ in found]) as bed:
        devices = {name: bed.device(index) for index, name in enumerate(found)}
        for index in range(len(devices)):
            bed.throttle(index)
        progress('laying out the files')
        uuids = in_guest(
            bed,
            'prepare',
            schedulers={devices[name]: SCHEDULERS[name] for name in found},
            mbps=round(mbps),
            scale_mb=args.scale_mb,
            sizes=sizes,
        )
        for index in range(len(devices)):
            bed.throttle(index, mbps=mbps)
        if 'io_cost' in found:
            in_guest(
                bed, 'measure', uuids=[uuids[devices['io_cost']]], seconds=5
            )
        for number in range(args.runs):
            # the second one of a run finds a machine that may be another
            order = ARMS if number % 2 == 0 else ARMS[::-1]
            for arm in order:
                got = in_guest(
                    bed,
                    'tasks',
                    uuids=uuids,
                    tasks=len(sizes),
                    lag=LAG_S,
                    block=args.block,
                    depth=args.depth,
                    agent=arm == 'with',
                )
                for name, times in found.items():
                    seconds = got['seconds'][devices[name]]
                    times[ARMS.index(arm)].append(seconds)
                    shown = ', '.join(f'{one:.2f}' for one in seconds)
                    progress(
                        f'run {number + 1} of {args.runs}, {name} {arm} the '
                        f'agent: {shown} s; '
                        f'{aggregate(sizes, seconds):.3f} MB/s'
                    )
                if arm == 'with':
                    agents.append(got['agent'])
    return found, agents


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(
    args: argparse.Namespace,
) -> tuple[_report.Figures, list[_report.Goal]]:
    """Measure and show everything."""
    mbps = args.scale_mb * PAPER_MBPS / SCALE_MB
    sizes = scaled(QUICK_SIZES_MB if args.quick else SIZES_MB, mbps)
    times, agents = measure(args, mbps, sizes)
    figures: _report.Figures = {}
    aims: list[_report.Goal] = []
    for name, one in times.items():
        figures |= evaluate(name, one, sizes)
        aims += goals(name, figures)
        show(name, figures)
    figures['agent_round_cpu_s'] = statistics.median(
        one['round_cpu_s'] for one in agents
    )
    return figures, aims


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument('--runs', type=int, help='how often (default: 5)')
    parser.add_argument(
        '--quick',
        action='store_true',
        help='one run unless --runs says more, and 5 GB for the first task: '
        'its time and the aggregate do not compare to the paper',
    )
    parser.add_argument(
        '--controller',
        action='append',
        choices=sorted(SCHEDULERS),
        help='only this one; may be repeated',
    )
    parser.add_argument(
        '--scale-mb',
        type=int,
        default=15,
        help="the agent's scale_mb, which the speed of the disks and all "
        f'sizes follow from; {SCALE_MB} is a disk as fast as in the paper '
        '(default: %(default)s)',
    )
    parser.add_argument(
        '--block',
        default='128k',
        help="size of each of fio's requests (default: %(default)s)",
    )
    parser.add_argument(
        '--depth',
        type=int,
        default=4,
        help='how many a task has in flight (default: %(default)s)',
    )
    args = parser.parse_args()
    args.controller = args.controller or sorted(SCHEDULERS)
    args.runs = args.runs or (1 if args.quick else 5)
    figures, aims = run(args)
    _report.show_goals(figures, aims)
    if args.json:
        _report.write(args.json, 'contention', figures, aims)
    return 0


if __name__ == '__main__':
    sys.exit(main())
