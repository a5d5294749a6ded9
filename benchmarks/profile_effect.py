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

The script of ``diskplacer-manage sweep run`` reads and writes a disk of a
testbed guest in sequence, as P0, "On the Impact of Virtualization on the I/O
Performance of Analytic Workloads", did in section V. Shown are the throughput
of all jobs together, its 95 % confidence interval and Jain's index, and for
each profile of the catalogue whether the scheduler that it prefers was the
best one.

The disk is that of tools/seeking_disk: an hdd of 7200 revolutions per minute,
or with --disk ssd one without seeks. With --disk throttled it is a file that
is held to a throughput and to requests per second: a request costs the same
wherever it is, so what a scheduler gains by its order does not show, only what
it gains by merging requests, and loses by idling and by its own work. Nothing
is between fio and the disk, where on a compute host QEMU is.

A profile's scheduler is best unless it is shown to be more than 1 % behind.
"""

import argparse
import collections
import collections.abc
import dataclasses
import signal
import statistics
import sys
import time

import _report
from diskplacer_measure import stats
from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import grid
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from tools.testbed import bed
from tools.testbed import commands
from tools.testbed import machine

SCHEDULERS = ('none', 'mq-deadline', 'bfq', 'kyber')
# Long enough for neither the burst that the throttle lets pass nor that jobs
# start one after the other to count for much.
MIB = 256
SECONDS = 5
MEDIA = {'throttled': {'hdd', 'ssd'}, 'hdd': {'hdd'}, 'ssd': {'ssd'}}
TITLES = {
    'sync_direct': 'Blocking, direct',
    'sync_cached': 'Blocking, page cache',
    'async': 'Asynchronous, direct',
}
# Marks what it prints.
TOKEN = 'effect'
GUEST = cells.Shape(machine.NODES, bed.MEMORY_MIB)

# {load: {scheduler: [one value for each repetition]}}; a load is a cell whose
# scheduler is ''
Values = dict[cells.Cell, dict[str, list[float]]]


def by_load(
    results: collections.abc.Iterable[cells.Result],
    figure: collections.abc.Callable[[cells.Result], float],
) -> Values:
    """Return a figure of results by load and scheduler."""
    found: Values = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for result in sorted(results, key=lambda one: one.repetition):
        load = dataclasses.replace(result.cell, guest_scheduler='')
        found[load][result.cell.guest_scheduler].append(figure(result))
    return found


def show_loads(results: list[cells.Result]) -> _report.Figures:
    """Print a table for each engine and operation; return all figures."""
    figures: _report.Figures = {}
    mbps = by_load(results, lambda result: result.mbps)
    jain = by_load(results, lambda result: stats.jain(result.rates))
    arms = sorted({arm for values in mbps.values() for arm in values})
    rows: dict[tuple[str, str], list[list[str]]] = {}
    for load in sorted(
        mbps, key=lambda load: (cells.ENGINES.index(load.engine), load)
    ):
        row = [str(load.jobs)]
        for arm in arms:
            found = stats.interval(mbps[load][arm])
            fairness = statistics.fmean(jain[load][arm])
            name = f'{load.engine}_{load.operation}_{load.jobs}_{arm}'
            figures[f'{name}_mbps'] = found.mean
            figures[f'{name}_mbps_low'] = found.low
            figures[f'{name}_mbps_high'] = found.high
            figures[f'{name}_jain'] = fairness
            row.append(f'{found.mean:.1f} ±{found.half:.1f}  {fairness:.2f}')
        rows.setdefault((load.engine, load.operation), []).append(row)
    for (engine, operation), found_rows in rows.items():
        print(f'{TITLES[engine]}, {operation}: MB/s ± 95 % CI, Jain index')
        _report.table(('Jobs', *arms), found_rows)
    bound = sum(result.problem == outcome.CPU_BOUND for result in results)
    print(f'Bound by the CPU: {bound} of {len(results)} measurements')
    return figures


def show_profiles(
    mbps: Values,
    profiles: collections.abc.Mapping[str, definitions.Profile],
    media: collections.abc.Iterable[str],
) -> tuple[_report.Figures, list[_report.Goal]]:
    """Print whether profiles prefer what was best."""
    figures: _report.Figures = {}
    goals, rows, silent = [], [], []
    arms = {arm for values in mbps.values() for arm in values}
    for (name, profile), medium in (
        (item, medium) for item in profiles.items() for medium in media
    ):
        its = arm_comparison.WORKLOADS.get(name)
        loads = its.of(mbps) if its else []
        queue = profile.queue.get(medium, definitions.Queue())
        arm = arm_comparison.preferred(queue.schedulers, arms)
        if not loads or not arm or len(arms) < 2:
            silent.append(f'{name} ({medium})')
            continue
        whole = arm_comparison.judge(
            arm, arm_comparison.scores([mbps[load] for load in loads])
        )
        each = [arm_comparison.judge(arm, mbps[load]) for load in loads]
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


def planned(quick: bool) -> tuple[cells.Cell, ...]:
    """Return the cells; the guest's scheduler is that of the disk."""
    engines = ('sync_cached', 'async') if quick else cells.ENGINES
    return grid.build(
        grid.Grid(
            scenarios=('server',),
            shapes=(GUEST,),
            jobs=(1, 16) if quick else (1, 2, 4, 8, 16),
            at_once=(),
            engines=engines,
            depths=(256,),
            host_schedulers=('',),
            guest_schedulers=SCHEDULERS,
            read_ahead_kb=(128,),
            cache_mode='',
        )
    )


def script(batch: plan.BootBatch, device: str, kib: int) -> str:
    """Return what measures the cells of a repetition in the guest."""
    return workload.script(
        [
            workload.line(str(number), repetition.cell, 0)
            for number, repetition in enumerate(batch.repetitions)
        ],
        token=TOKEN,
        mib=MIB,
        kib=kib,
        seconds=SECONDS,
        device=device,
    )


def results_of(batch: plan.BootBatch, printed: str) -> list[cells.Result]:
    """Return what the script has measured.

    :raises CommandError: a cell was not; says why.
    """
    console = workload.parse(printed, TOKEN)
    found = []
    for number, repetition in enumerate(batch.repetitions):
        measured = console.measured.get(str(number))
        if measured is None:
            why = console.error or console.failed.get(str(number), printed)
            raise commands.CommandError(f'{repetition.cell}: {why}')
        found.append(outcome.combine(repetition, [measured], {}))
    return found


def measure(args: argparse.Namespace) -> list[cells.Result]:
    """Return what is measured on a disk of a guest."""
    batches = plan.batches(
        plan.repetitions_of(planned(args.quick), args.repetitions), 'effect'
    )
    if args.disk == 'throttled':
        disk = machine.Disk(gib=4, mbps=args.mbps, iops=args.iops)
    else:
        disk = machine.Disk(gib=8, kind=args.disk)
    found = []
    with bed.Testbed([disk]) as guest:
        found_at = guest.run('readlink', '--canonicalize', guest.device(0))
        device = found_at.out.strip()
        guest.run(
            'fio', '--name=fill', f'--filename={device}', '--rw=write',
            '--bs=1M', f'--size={MIB}M', '--direct=1',
        )  # fmt: skip
        for number, batch in enumerate(batches, 1):
            begun = time.monotonic()
            printed = guest.run(
                'sh', '-c', script(batch, device, args.kib), timeout=2 * 3600
            ).out
            found += results_of(batch, printed)
            print(
                f'repetition {number} of {len(batches)}: '
                f'{time.monotonic() - begun:.0f} s',
                file=sys.stderr,
                flush=True,
            )
    return found


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
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
    if args.repetitions < 2:
        parser.error(f'--repetitions {args.repetitions}: must be at least 2')
    results = measure(args)
    figures = show_loads(results)
    found, goals = show_profiles(
        by_load(results, lambda result: result.mbps),
        catalogue.load(args.profiles),
        # a throttled disk stands for either medium
        sorted(MEDIA[args.disk]),
    )
    figures |= found
    _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'profile_effect', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
