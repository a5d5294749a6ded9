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

"""How much sooner short tasks end beside a scan with the agent, by size.

A server reads without end. Others begin one after the other, and read 500 to
12 MB each, when the first one has a low weight. They are cgroups in which fio
reads, and then guests of QEMU, which read through virtio. The disks are those
of contention, as slow as it has them with --guests, and sizes are as much
smaller, but at least one MiB. All servers are of one project. Weights of 100
and 10 would let a task end 45 % sooner than equal ones.
"""

import argparse
import signal
import sys

import _contention_setup as setup
import _in_guest
import _report
from diskplacer_measure import stats

SCALE_MB = 6
SCAN_MB = 12000
SIZES_MB = (500, 250, 100, 50, 12)
# Seconds: no task is left when the next one begins, and the first one finds
# that the scan has used much.
LAG_S = 12
ARMS = ('without', 'with')
READERS = ('cgroups', 'guests')

# The gain in guests is that in cgroups, less at most this part.
KEPT = 0.9

# How long each task took, the scan first.
Seconds = list[float]


def check(seconds: Seconds) -> None:
    """Check that each task was beside the scan, and no other one.

    :raises ValueError: one was not.
    """
    scan, *tasks = seconds
    if max(tasks) > LAG_S or len(tasks) * LAG_S + tasks[-1] > scan:
        raise ValueError(f'tasks were not alone beside the scan: {seconds}')


def evaluate(
    figure: str, arms: tuple[list[Seconds], list[Seconds]]
) -> _report.Figures:
    """Return the figures of one kind of servers on a disk.

    :param arms: of each run without the agent, and with it.
    """
    found: _report.Figures = {}
    for task, size in enumerate(SIZES_MB, 1):
        name = f'{figure}_{size}'
        without, with_ = ([seconds[task] for seconds in runs] for runs in arms)
        for arm, values in zip(ARMS, (without, with_), strict=True):
            found[f'{name}_{arm}_s'] = stats.spread(values).median
        # pairs, as the machine may change from one run to the next
        changes = stats.spread(
            [
                100 * (after / before - 1)
                for before, after in zip(without, with_, strict=True)
            ]
        )
        found[f'{name}_change'] = changes.median
        found[f'{name}_change_min'] = changes.low
        found[f'{name}_change_max'] = changes.high
    return found


def compared(name: str, figures: _report.Figures) -> _report.Figures:
    """Return the gain in guests divided by that in cgroups, by size.

    It is None where nothing is gained in cgroups.
    """
    found: _report.Figures = {}
    for size in SIZES_MB:
        cgroups, guests = (
            figures[f'{name}_{reader}_{size}_change'] for reader in READERS
        )
        assert cgroups is not None and guests is not None
        found[f'{name}_{size}_kept'] = (
            guests / cgroups if cgroups < 0 else None
        )
    return found


def goals(name: str) -> list[_report.Goal]:
    """Return the goals of a controller."""
    return [
        _report.Goal(f'{name}_{size}_kept', '>=', KEPT) for size in SIZES_MB
    ]


def measure(args: argparse.Namespace, disks: setup.Disks) -> _report.Figures:
    """Return the figures of all controllers and kinds of servers."""
    found: _report.Figures = {}
    # the second one of a run finds a machine that may be another
    agents = [
        arm for run in range(args.runs) for arm in (run % 2, 1 - run % 2)
    ]
    with disks.prepared() as bed:
        for name in disks.names:
            for reader in READERS:
                setup.progress(f'{name}: {reader}')
                got = _in_guest.run(
                    bed,
                    setup.GUEST,
                    'tasks',
                    **disks.settings([name]),
                    projects=['project'] * len(disks.sizes),
                    sizes=disks.sizes,
                    lag=LAG_S,
                    agents=agents,
                    guests=reader == 'guests',
                )
                arms: tuple[list[Seconds], list[Seconds]] = [], []
                for agent, run in zip(agents, got, strict=True):
                    seconds = run['seconds'][disks.devices[name]]
                    check(seconds)
                    arms[agent].append(seconds)
                found |= evaluate(f'{name}_{reader}', arms)
    return found


def show(name: str, figures: _report.Figures) -> None:
    """Print the figures of a controller."""

    def row(size: int, reader: str) -> tuple[str, ...]:
        figure = f'{name}_{reader}_{size}'
        change, low, high = (
            f'{figures[f"{figure}_change{end}"]:+.1f}'
            for end in ('', '_min', '_max')
        )
        return (
            f'{size} MB, {reader}',
            *(f'{figures[f"{figure}_{arm}_s"]:.2f}' for arm in ARMS),
            f'{change} ({low} to {high})',
        )

    print(f'{name} ({setup.SCHEDULERS[name]}): median (lowest to highest)')
    _report.table(
        ('', 'Without the agent, s', 'With, s', 'Change, %'),
        [row(size, reader) for size in SIZES_MB for reader in READERS],
    )


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    setup.add_arguments(parser)
    parser.set_defaults(scale_mb=SCALE_MB)
    parser.add_argument(
        '--runs', type=int, default=5, help='how often (default: %(default)s)'
    )
    args = parser.parse_args()
    if args.disk == 'seeking':
        parser.error('--disk must be throttled: guests are too slow for it')
    disks = setup.Disks(args, (SCAN_MB, *SIZES_MB))
    figures = measure(args, disks)
    aims: list[_report.Goal] = []
    for name in disks.names:
        figures |= compared(name, figures)
        show(name, figures)
        aims += goals(name)
    _report.show_goals(figures, aims)
    if args.json:
        _report.write(args.json, 'task_sizes', figures, aims)
    return 0


if __name__ == '__main__':
    sys.exit(main())
