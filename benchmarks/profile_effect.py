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

"""What a disk gives under each I/O scheduler, and if profiles choose right.

Without SWEEP: on a disk of a testbed guest tools/io_sweep.py reads and writes
in sequence, as P0, "On the Impact of Virtualization on the I/O Performance of
Analytic Workloads", did in section V. Shown are the throughput of all jobs
together, its 95 % confidence interval and Jain's index, and for each profile
of the catalogue whether the scheduler that it prefers was the best one.

The disk is that of tools/seeking_disk: an hdd of 7200 revolutions per minute,
or with --disk ssd one without seeks. With --disk throttled it is a file that
is held to a throughput and to requests per second: a request costs the same
wherever it is, so what a scheduler gains by its order does not show, only what
it gains by merging requests, and loses by idling and by its own work. Nothing
is between fio and the disk, where on a compute host QEMU is.

A profile's scheduler is best unless it is shown to be more than 1 % behind.

With SWEEP: explains what tools/io_sweep.py has printed on a host of yours.
With more than one, from servers of different flavors: compares them.
"""

import argparse
import collections.abc
import json
import pathlib
import signal
import statistics
import sys
import typing

import _measured
import _report
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.sweep import stats
from nova_diskplacer.sweep import verdicts
from tools.testbed import Disk
from tools.testbed import Testbed

TOP = pathlib.Path(__file__).resolve().parents[1]
MOUNTPOINT = '/mnt'
MEDIA = {'throttled': {'hdd', 'ssd'}, 'hdd': {'hdd'}, 'ssd': {'ssd'}}
TITLES = {
    'sync_direct': 'Blocking, direct',
    'sync_cached': 'Blocking, page cache',
    'async': 'Asynchronous, direct',
}

Sweep = dict[str, typing.Any]


def show_loads(measured: _measured.Measured) -> _report.Figures:
    """Print a table for each engine and operation; return all figures."""
    figures: _report.Figures = {}
    rows: dict[tuple[str, str], list[list[str]]] = {}
    for load in measured.mbps:
        row = [str(load.jobs)]
        for arm in measured.arms:
            found = stats.interval(measured.mbps[load][arm])
            jain = statistics.fmean(measured.jain[load][arm])
            name = f'{load.engine}_{load.operation}_{load.jobs}_{arm}'
            figures[f'{name}_mbps'] = found.mean
            figures[f'{name}_mbps_low'] = found.low
            figures[f'{name}_mbps_high'] = found.high
            figures[f'{name}_jain'] = jain
            row.append(f'{found.mean:.1f} ±{found.half:.1f}  {jain:.2f}')
        rows.setdefault((load.engine, load.operation), []).append(row)
    for (engine, operation), found_rows in rows.items():
        print(f'{TITLES[engine]}, {operation}: MB/s ± 95 % CI, Jain index')
        _report.table(('Jobs', *measured.arms), found_rows)
    return figures


def show_profiles(
    measured: _measured.Measured,
    profiles: collections.abc.Mapping[str, catalogue.Profile],
    media: collections.abc.Iterable[str],
) -> tuple[_report.Figures, list[_report.Goal]]:
    """Print whether profiles prefer what was best."""
    figures: _report.Figures = {}
    goals, rows, silent = [], [], []
    for (name, profile), medium in (
        (item, medium) for item in profiles.items() for medium in media
    ):
        workload = verdicts.WORKLOADS.get(name)
        loads = workload.of(measured.mbps) if workload else []
        queue = profile.queue.get(medium, catalogue.Queue())
        arm = verdicts.preferred(queue.schedulers, measured.arms)
        if not loads or not arm or len(measured.arms) < 2:
            silent.append(f'{name} ({medium})')
            continue
        whole = verdicts.judge(
            arm, verdicts.scores([measured.mbps[load] for load in loads])
        )
        each = [verdicts.judge(arm, measured.mbps[load]) for load in loads]
        best_at = sum(one.was_best for one in each)
        weakest, where = min(
            zip((one.ratio for one in each), loads, strict=True),
            key=lambda pair: pair[0],
        )
        figure = f'{name}_{medium}'
        figures[f'{figure}_best'] = float(whole.was_best)
        figures[f'{figure}_of_best'] = whole.ratio
        figures[f'{figure}_of_best_low'] = whole.low
        figures[f'{figure}_of_best_high'] = whole.high
        figures[f'{figure}_best_at'] = best_at / len(loads)
        goals.append(_report.Goal(f'{figure}_best', '==', 1))
        rows.append(
            (
                f'{name} ({medium})',
                arm,
                whole.text,
                whole.best,
                f'{whole.ratio:.3f} ({whole.low:.3f} to {whole.high:.3f})',
                f'{best_at} of {len(loads)}',
                f'{weakest:.2f} {where.engine} {where.operation} {where.jobs}',
                f'{whole.lowest:.3f} {whole.worst}',
            )
        )
    _report.table(
        ('Profile', 'Prefers', 'Best?', 'Highest', 'Of the highest (CI)')
        + ('Best at', 'Weakest at', 'Lowest of the highest'),
        rows,
    )
    if silent:
        print(
            'Not judged, without a preference, another scheduler, or a load '
            'like theirs: ' + ', '.join(silent)
        )
    return figures, goals


def show_flavors(measured: _measured.Measured) -> None:
    """Print which sweep is the best for each profile."""
    rows = []
    for name, workload in verdicts.WORKLOADS.items():
        if loads := workload.of(measured.mbps):
            scores = verdicts.scores([measured.mbps[load] for load in loads])
            found = [verdicts.judge(arm, scores) for arm in measured.arms]
            best = found[0].best
            others = [
                one.arm for one in found if one.was_best and one.arm != best
            ]
            score = statistics.geometric_mean(scores[best])
            rows.append((name, best, f'{score:.1f}', ', '.join(others) or '-'))
    _report.table(('For', 'Highest', 'MB/s', 'Not told apart from it'), rows)


def in_testbed(args: argparse.Namespace) -> Sweep:
    """Return what is measured on a disk of a guest."""
    # Long enough for neither the burst that the throttle lets pass nor that
    # jobs start one after the other to count for much.
    options = ['--mib=256', '--seconds=5', f'--kib={args.kib}']
    options += [f'--repetitions={args.repetitions}']
    if args.quick:
        options += ['--jobs', '1', '16']
        options += ['--engine', 'sync_cached', 'async']

    def say(name: str, text: str) -> None:
        if name == 'err':
            sys.stderr.write(text)

    if args.disk == 'throttled':
        disk = Disk(gib=4, mbps=args.mbps, iops=args.iops)
    else:
        disk = Disk(gib=8, kind=args.disk)
    with Testbed([disk]) as bed:
        bed.run('mkfs.xfs', '-q', bed.device(0))
        bed.run('mount', bed.device(0), MOUNTPOINT)
        printed = bed.run(
            'python', str(TOP / 'tools' / 'io_sweep.py'), MOUNTPOINT, *options,
            timeout=4 * 3600,
            say=say,
        ).out  # fmt: skip
    return json.loads(printed)


def run(
    args: argparse.Namespace,
) -> tuple[_report.Figures, list[_report.Goal]]:
    """Measure, or read, and show everything."""
    sweeps = {
        path.stem: json.loads(path.read_text()) for path in args.sweep
    } or {'testbed': in_testbed(args)}
    measured = _measured.Measured.of(sweeps)
    figures = show_loads(measured)
    if len(sweeps) > 1:
        show_flavors(measured)
        return figures, []
    media = {sweep['medium'] for sweep in sweeps.values()}
    if not args.sweep:
        # a throttled disk stands for either medium
        media = MEDIA[args.disk]
    found, goals = show_profiles(
        measured, catalogue.load(args.profiles), sorted(media)
    )
    return figures | found, goals


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('sweep', nargs='*', type=pathlib.Path, metavar='SWEEP')
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--quick',
        action='store_true',
        help='1 and 16 jobs, no direct blocking requests',
    )
    parser.add_argument(
        '--repetitions', type=int, help='default: 10, with --quick 3'
    )
    parser.add_argument(
        '--disk',
        choices=sorted(MEDIA),
        default='hdd',
        help='what the disk is (default: %(default)s)',
    )
    parser.add_argument(
        '--mbps', type=int, default=60, help='MB/s of a throttled disk'
    )
    parser.add_argument(
        '--iops', type=int, default=800, help='its requests per second'
    )
    parser.add_argument(
        '--kib', type=int, default=16, help="KiB of each of fio's requests"
    )
    parser.add_argument(
        '--profiles',
        action='append',
        default=[],
        metavar='DIRECTORY',
        help='judge the profiles there, too',
    )
    args = parser.parse_args()
    args.repetitions = args.repetitions or (3 if args.quick else 10)
    if len({path.stem for path in args.sweep}) < len(args.sweep):
        parser.error('SWEEP: names must differ, as flavors are told by them')
    figures, goals = run(args)
    if goals:
        _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'profile_effect', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
