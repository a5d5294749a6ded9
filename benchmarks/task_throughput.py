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

"""The throughput of Fennel's tasks in each second, without and with the agent.

P4 §V-A, Fig. 4 and 5: without weights each task has an equal share of the
disk. With them the first task has less than the second one at first, and as
much later, and as much as before when it is alone again.

The tasks and disks are those of contention, one disk after the other. The
series is that of the first run: bfq_with_task3_mbps_12 is what the third task
read in the twelfth second with the agent, on the disk with BFQ. It is null
before the task and after it. ``python -m tools.weights_picture`` draws it.
"""

import argparse
import signal
import statistics
import sys

import _contention_setup as setup
import _in_guest
import _report
import contention
from diskplacer_measure import stats

GUEST = '_task_throughput_guest.py'
ARMS = contention.ARMS

# Seconds of the first and the last part in which two tasks are compared.
FIRST_S = 4
LAST_S = 10

# The MB/s of each task in each second, shape (tasks, seconds).
Rates = list[list[float]]


def whole_seconds(rates: list[float]) -> range:
    """Return the seconds that a task reads in from begin to end."""
    reads = [second for second, rate in enumerate(rates) if rate]
    return range(reads[0] + 1, reads[-1])


def fairness(rates: Rates) -> float:
    """Return the mean of Jain's index while two tasks or more read."""
    found = []
    present = [whole_seconds(task) for task in rates]
    for second in range(len(rates[0])):
        active = [
            task[second]
            for task, seconds in zip(rates, present, strict=True)
            if second in seconds
        ]
        if len(active) > 1:
            found.append(stats.jain(active))
    return statistics.fmean(found)


def first_to_second(rates: Rates, seconds: range) -> float:
    """Return the first task's throughput divided by the second one's."""
    first, second = (
        sum(task[at] for at in seconds) for task in (rates[0], rates[1])
    )
    return first / second


def alone(rates: list[float]) -> float:
    """Return the mean of the last seconds of the first task."""
    return statistics.fmean(
        rates[second] for second in whole_seconds(rates)[-LAST_S:]
    )


def summary(without: Rates, with_: Rates) -> dict[str, float]:
    """Return the figures of a run."""
    found = {}
    for arm, rates in zip(ARMS, (without, with_), strict=True):
        both = whole_seconds(rates[1])
        found[f'{arm}_fairness'] = fairness(rates)
        found[f'{arm}_at_first'] = first_to_second(rates, both[:FIRST_S])
        found[f'{arm}_later'] = first_to_second(rates, both[-LAST_S:])
    found['alone_again'] = alone(with_[0]) / alone(without[0])
    return found


def series(name: str, arm: str, rates: Rates) -> _report.Figures:
    """Return the figures of each second."""
    found: _report.Figures = {}
    for number, task in enumerate(rates, 1):
        reads = [second for second, rate in enumerate(task) if rate]
        for second, rate in enumerate(task):
            is_there = reads[0] <= second <= reads[-1]
            found[f'{name}_{arm}_task{number}_mbps_{second + 1}'] = (
                round(rate, 3) if is_there else None
            )
    return found


def evaluate(name: str, runs: list[tuple[Rates, Rates]]) -> _report.Figures:
    """Return the figures of a disk: medians of all runs, and a series.

    :param runs: without the agent and with it.
    """
    found: _report.Figures = {}
    every = [summary(*run) for run in runs]
    for figure in every[0]:
        spread = stats.spread([one[figure] for one in every])
        found[f'{name}_{figure}'] = spread.median
        found[f'{name}_{figure}_min'] = spread.low
        found[f'{name}_{figure}_max'] = spread.high
    for arm, rates in zip(ARMS, runs[0], strict=True):
        found |= series(name, arm, rates)
    return found


def show(name: str, figures: _report.Figures) -> None:
    """Print the figures of a disk, without the series."""

    def text(figure: str) -> str:
        median, low, high = (
            figures[f'{name}_{figure}{end}'] for end in ('', '_min', '_max')
        )
        return f'{median:.2f} ({low:.2f} to {high:.2f})'

    print(f'{name} ({setup.SCHEDULERS[name]}): median (lowest to highest)')
    _report.table(
        ('', 'Without the agent', 'With'),
        [
            *(
                (title, *(text(f'{arm}_{figure}') for arm in ARMS))
                for title, figure in (
                    ("Jain's index of the tasks", 'fairness'),
                    ('First task to the second, at first', 'at_first'),
                    ('... later', 'later'),
                )
            ),
            ('First task alone, to without', '', text('alone_again')),
        ],
    )


def measure(args: argparse.Namespace) -> _report.Figures:
    """Return the figures of all disks."""
    found: _report.Figures = {}
    disks = setup.Disks(args, contention.SIZES_MB)
    # the second one of a run finds a machine that may be another
    agents = [
        arm for run in range(args.runs) for arm in (run % 2, 1 - run % 2)
    ]
    with disks.prepared() as bed:
        for name in disks.names:
            setup.progress(name)
            got = _in_guest.run(
                bed,
                GUEST,
                **disks.settings([name]),
                projects=['project'] * len(disks.sizes),
                sizes=disks.sizes,
                lag=contention.LAG_S,
                agents=agents,
            )
            arms: tuple[list[Rates], list[Rates]] = [], []
            for agent, by_device in zip(agents, got, strict=True):
                arms[agent].append(by_device[disks.devices[name]])
            of_disk = evaluate(name, list(zip(*arms, strict=True)))
            show(name, of_disk)
            found |= of_disk
    return found


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    setup.add_arguments(parser)
    parser.add_argument(
        '--runs', type=int, default=5, help='how often (default: %(default)s)'
    )
    args = parser.parse_args()
    figures = measure(args)
    if args.json:
        _report.write(args.json, 'task_throughput', figures, [])
    return 0


if __name__ == '__main__':
    sys.exit(main())
