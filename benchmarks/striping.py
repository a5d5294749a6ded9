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

"""Vdisks on four disks, one on each, beside one striped over all of them.

Streams read in sequence in a testbed guest with four disks, 128 KiB at a time
(a request of contention, and Linux' read-ahead), 16 requests of a stream in
flight: a row of the stripe's chunks, so that one stream can have all disks
work. Layouts are:

round_robin   a vdisk on each disk; streams take turns with them
striped       one vdisk, which the host's device-mapper stripes over all disks
md            RAID 0 of four vdisks in the server, as guest-config --layout
              stripe makes it
elastic_N     one vdisk, which device-mapper stripes over N of the disks

elastic_4 is the same as striped: how far they differ is noise. All stripes
have chunks of 512 KiB, mdadm's default. Shown are the throughput of all
streams together, the latency that 99 % of the requests are within, and Jain's
index of the streams, with their 95 % confidence intervals. A repetition visits
all layouts in random order.

Then one disk after the other dies under eight streams: shown are the shares
of the streams and of the vdisks that get errors, on average over the disks.

The disks are held to a throughput from outside, or with --disk seeking are
those of tools/seeking_disk, in slow motion: all takes four times as long, as
emulated processors do not keep up with four disks. Both read as fast in
sequence, so that they differ by seeks alone.
"""

import argparse
import collections
import collections.abc
import json
import random
import signal
import statistics
import sys
import time
import typing

import _report
import _striping_layouts as layouts
from diskplacer_measure import stats
from diskplacer_measure.sweep.measure import host_cpu
from diskplacer_measure.sweep.measure import outcome
from tools.seeking_disk import model
from tools.testbed import Disk
from tools.testbed import Testbed

COUNTS = (1, 2, 4, 8, 16)
SLOWER = 4
MB = 10**6
MBPS = model.HardDisk(1).slowed(SLOWER).bytes_per_s / MB
SETTINGS: dict[str, dict[str, typing.Any]] = {
    'throttled': {'mbps': MBPS},
    'seeking': {'kind': 'hdd', 'slower': SLOWER},
}
GIB = 8
DEAD_COUNT = 8
DEAD_S = 6
SHOWN = ('mbps', 'p99_ms', 'jain')

# A layout, and how many streams read it.
Cell = tuple[str, int]


class Run(typing.NamedTuple):
    """The figures of one run of streams.

    ``failed`` are the indexes of the streams that got an error.
    """

    mbps: float
    p99_ms: float
    jain: float
    failed: frozenset[int]
    cpu_bound: bool


class Death(typing.NamedTuple):
    """The shares of streams and vdisks that get errors when a disk dies."""

    streams: float
    vdisks: float


def planned(
    names: collections.abc.Iterable[str],
    counts: collections.abc.Iterable[int],
    repetitions: int,
) -> list[tuple[str, list[int]]]:
    """Return layouts with numbers of streams, in the order to measure."""
    order = []
    for repetition in range(repetitions):
        chance = random.Random(f'striping {repetition}')
        block = [(name, list(counts)) for name in names]
        chance.shuffle(block)
        for _, some in block:
            chance.shuffle(some)
        order += block
    return order


def percentile(
    bins: collections.abc.Iterable[collections.abc.Mapping[str, int]],
    share: float,
) -> float:
    """Return the latency in ms that a share of all requests is within.

    :param bins: of each stream, requests by their latency in ns.
    """
    counts: collections.Counter[int] = collections.Counter()
    for one in bins:
        counts.update({int(latency): found for latency, found in one.items()})
    left = share * counts.total()
    for latency in sorted(counts):
        left -= counts[latency]
        if left <= 0:
            return latency / 1e6
    return 0.0


def parse(printed: str) -> Run:
    """Return what fio and the lines of processors around it tell."""
    text = printed.rstrip()
    before, after = (
        host_cpu.parse(line) for line in (text, text.rpartition('\n')[2])
    )
    found, _ = json.JSONDecoder().raw_decode(text[text.index('{') :])
    jobs = found['jobs']
    rates = [job['read']['bw_bytes'] / MB for job in jobs]
    return Run(
        sum(rates),
        percentile(
            (job['read']['clat_ns'].get('bins', {}) for job in jobs), 0.99
        ),
        stats.jain(rates),
        frozenset(
            number for number, job in enumerate(jobs) if job.get('error')
        ),
        outcome.is_busy(host_cpu.spent(before, after)),
    )


def death(failed: frozenset[int], count: int, devices: int) -> Death:
    """Return what a dead disk takes of streams that take turns with vdisks."""
    return Death(
        len(failed) / count,
        len({number % devices for number in failed}) / min(count, devices),
    )


def measure(
    args: argparse.Namespace,
) -> tuple[dict[Cell, list[Run]], dict[str, list[Death]]]:
    """Measure all that is asked for."""
    runs: dict[Cell, list[Run]] = collections.defaultdict(list)
    deaths: dict[str, list[Death]] = collections.defaultdict(list)
    order = planned(args.layout, args.streams, args.repetitions)
    disks = [
        Disk(node=number % 2, gib=GIB, **SETTINGS[args.disk])
        for number in range(layouts.DISKS)
    ]
    with Testbed(disks) as bed:
        host = layouts.Host(bed)
        for number, (name, counts) in enumerate(order, 1):
            begun = time.monotonic()
            with host.layout(name) as devices:
                for count in counts:
                    printed = host.read(devices, count, args.seconds)
                    runs[name, count].append(parse(printed))
            progress(f'{number} of {len(order)}, {name}', begun)
        for name in args.layout:
            begun = time.monotonic()
            for disk in range(layouts.DISKS):
                with host.layout(name) as devices:
                    printed = host.read_with_death(
                        devices, DEAD_COUNT, DEAD_S, disk
                    )
                    failed = parse(printed).failed
                    deaths[name].append(
                        death(failed, DEAD_COUNT, len(devices))
                    )
            progress(f'dead disks, {name}', begun)
    return runs, deaths


def progress(what: str, begun: float) -> None:
    seconds = time.monotonic() - begun
    print(f'{what}: {seconds:.0f} s', file=sys.stderr, flush=True)


def evaluate(
    runs: collections.abc.Mapping[Cell, list[Run]],
) -> _report.Figures:
    """Return the figures of streams; one repetition has no intervals."""
    figures: _report.Figures = {}

    def add(
        figure: str, value: float, low: float | None, high: float | None
    ) -> None:
        figures[figure] = value
        figures[f'{figure}_low'] = low
        figures[f'{figure}_high'] = high

    for (name, count), some in runs.items():
        for what in SHOWN:
            values = [getattr(run, what) for run in some]
            add(f'{name}_{count}_{what}', *mean(values))
            figures[f'{name}_{count}_{what}_median'] = statistics.median(
                values
            )
    for name, count in runs:
        if name == 'striped' and ('round_robin', count) in runs:
            ours, theirs = (
                [run.mbps for run in runs[one, count]]
                for one in ('round_robin', 'striped')
            )
            add(f'round_robin_{count}_of_striped', *ratio(ours, theirs))
    return figures


def mean(values: list[float]) -> tuple[float, float | None, float | None]:
    """Return the mean of repetitions, and the ends of its interval."""
    if len(values) < 2:
        return values[0], None, None
    found = stats.interval(values)
    return found.mean, found.low, found.high


def ratio(
    values: list[float], others: list[float]
) -> tuple[float, float | None, float | None]:
    """Compare repetitions, and return the ends of the interval, too."""
    if len(values) < 2:
        return values[0] / others[0], None, None
    return stats.ratio(values, others)


def evaluate_deaths(
    deaths: collections.abc.Mapping[str, list[Death]],
) -> _report.Figures:
    """Return the mean, lowest and highest share that a dead disk takes."""
    figures: _report.Figures = {}
    for name, some in deaths.items():
        for what in Death._fields:
            values = [getattr(one, what) for one in some]
            figure = f'{name}_dead_{what}'
            figures[figure] = statistics.fmean(values)
            figures[f'{figure}_min'] = min(values)
            figures[f'{figure}_max'] = max(values)
    return figures


def goals() -> list[_report.Goal]:
    """A stripe speeds one stream up, not many, and a dead disk takes it."""
    return [
        _report.Goal('round_robin_1_of_striped', '<=', 0.5),
        *(
            _report.Goal(f'round_robin_{count}_of_striped', '>=', 0.9)
            for count in COUNTS
            if count >= layouts.DISKS
        ),
        _report.Goal('round_robin_dead_streams', '==', 1 / layouts.DISKS),
        _report.Goal('striped_dead_streams', '==', 1),
        _report.Goal('md_dead_streams', '==', 1),
    ]


def show(
    args: argparse.Namespace,
    runs: collections.abc.Mapping[Cell, list[Run]],
    figures: _report.Figures,
) -> None:
    """Print tables of the streams, and of what dead disks took."""

    def shown(figure: str) -> str:
        low, high = (figures[f'{figure}_{end}'] for end in ('low', 'high'))
        text = f'{figures[figure]:.4g}'
        return text if low is None else f'{text} ({low:.4g} to {high:.4g})'

    for count in args.streams:
        _report.table(
            (f'Streams: {count}', 'MB/s (95 % CI)', 'p99, ms', 'Jain index'),
            [
                [name, *(shown(f'{name}_{count}_{what}') for what in SHOWN)]
                for name in args.layout
            ],
        )
    every = [run for some in runs.values() for run in some]
    bound = sum(run.cpu_bound for run in every)
    print(f'Bound by the CPU: {bound} of {len(every)} measurements')
    _report.table(
        ('A dead disk takes, %', 'of streams (range)', 'of vdisks'),
        [
            [
                name,
                *(
                    '{:.0f} ({:.0f} to {:.0f})'.format(
                        *(
                            100 * (figures[f'{name}_dead_{what}{end}'] or 0)
                            for end in ('', '_min', '_max')
                        )
                    )
                    for what in Death._fields
                ),
            ]
            for name in args.layout
        ],
    )


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--disk',
        choices=sorted(SETTINGS),
        default='throttled',
        help='what the disks are (default: %(default)s)',
    )
    parser.add_argument(
        '--repetitions',
        type=int,
        default=5,
        help='how often all is measured; 1 has no intervals (default: '
        '%(default)s)',
    )
    parser.add_argument(
        '--seconds',
        type=int,
        default=10,
        help='how long each is measured (default: %(default)s)',
    )
    parser.add_argument(
        '--layout',
        nargs='+',
        choices=tuple(layouts.LAYOUTS),
        default=tuple(layouts.LAYOUTS),
        help='only these',
    )
    parser.add_argument(
        '--streams',
        nargs='+',
        type=int,
        choices=COUNTS,
        default=COUNTS,
        help='only these numbers of streams',
    )
    args = parser.parse_args()
    for name in ('repetitions', 'seconds'):
        if getattr(args, name) < 1:
            parser.error(f'--{name} {getattr(args, name)}: must be at least 1')
    runs, deaths = measure(args)
    figures = evaluate(runs) | evaluate_deaths(deaths)
    show(args, runs, figures)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'striping', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
