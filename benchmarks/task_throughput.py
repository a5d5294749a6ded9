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

The tasks and disks are those of contention, one disk after the other. The
figures are of one run: bfq_with_task3_mbps_12 is what the third task read in
the twelfth second with the agent, on the disk with BFQ. It is null before the
task and after it. ``python -m tools.weights_picture`` draws them.
"""

import argparse
import signal
import sys

import _contention_setup as setup
import _in_guest
import _report
import contention

GUEST = '_task_throughput_guest.py'
ARMS = contention.ARMS


def evaluate(
    name: str, runs: list[dict[str, list[list[float]]]]
) -> _report.Figures:
    """Return the figures of a disk.

    :param runs: by device, task and second; of each arm.
    """
    found: _report.Figures = {}
    for arm, by_device in zip(ARMS, runs, strict=True):
        (tasks,) = by_device.values()
        for task, rates in enumerate(tasks, 1):
            reads = [second for second, rate in enumerate(rates) if rate]
            for second, rate in enumerate(rates):
                is_there = reads[0] <= second <= reads[-1]
                found[f'{name}_{arm}_task{task}_mbps_{second + 1}'] = (
                    round(rate, 3) if is_there else None
                )
    return found


def show(name: str, figures: _report.Figures) -> None:
    """Print what the tasks read in every fifth second."""

    def rate(arm: str, task: int, second: int) -> str:
        value = figures.get(f'{name}_{arm}_task{task}_mbps_{second}')
        return '' if value is None else f'{value:.1f}'

    tasks = range(1, len(contention.SIZES_MB) + 1)
    last = max(int(figure.rpartition('_')[2]) for figure in figures)
    print(f'{name} ({setup.SCHEDULERS[name]}): MB/s in a second')
    _report.table(
        ('Second', *(f'Task {task}, {arm}' for arm in ARMS for task in tasks)),
        [
            (
                f'{second}',
                *(rate(arm, task, second) for arm in ARMS for task in tasks),
            )
            for second in range(5, last + 1, 5)
        ],
    )


def measure(args: argparse.Namespace) -> _report.Figures:
    """Return the figures of all disks."""
    found: _report.Figures = {}
    disks = setup.Disks(args, contention.SIZES_MB)
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
                agents=list(range(len(ARMS))),
            )
            found |= evaluate(name, got)
    return found


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    setup.add_arguments(parser)
    args = parser.parse_args()
    figures = measure(args)
    for name in setup.SCHEDULERS:
        of_disk = {
            figure: value
            for figure, value in figures.items()
            if figure.startswith(f'{name}_')
        }
        if of_disk:
            show(name, of_disk)
    if args.json:
        _report.write(args.json, 'task_throughput', figures, [])
    return 0


if __name__ == '__main__':
    sys.exit(main())
