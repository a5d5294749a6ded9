#!/usr/bin/env python3
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

"""What several vdisks give Hadoop: randomwriter and sort, as in P2 §3.

Prepared disks, each with a limit or with the head of a hard disk, get vdisks
where a mapping places them. Each vdisk has a loop device, ext4 and a directory
that Hadoop spreads HDFS and its intermediate data over. A stripe is one such
directory on vdisks of all disks, which btrfs makes a RAID 0. A cluster of HDFS
and YARN with one node of each writes random data, which a second job sorts.

Hadoop runs on this machine and not in a guest, whose emulated processors would
be the limit. Shown are the mean times of the sort with their 95 % intervals,
the utilization of the disks that hold the vdisks, in samples of five seconds
as by P2's monitor, and that of the processors.
"""

import argparse
import contextlib
import pathlib
import signal
import statistics
import sys
import tempfile
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
from stevedore import driver

import _hadoop_cluster
import _hadoop_meter
import _report
from diskplacer_measure import stats
from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from tools.minicloud import capped
from tools.minicloud import disks as cloud_disks
from tools.minicloud import process
from tools.minicloud import seeking
from tools.minicloud import state as state_
from tools.minicloud.state import Host
from tools.minicloud.state import State

DISKS = 8
VDISK_GB = 2
GIB = 2**30
#: {name of the layout: (mapping, vdisks)}
LAYOUTS = {
    **{
        f'round_robin_{count}': ('round_robin', count)
        for count in (1, 2, 4, 6, 8)
    },
    'consolidated_8': (mapping.CONSOLIDATED, 8),
    'striped_8': ('round_robin', 8),
}
#: Those with one filesystem on all vdisks.
STRIPED = ('striped_8',)
# Bytes of a vdisk that may wait to be written: the disks' limits are felt at
# once, as with data that is larger than the memory.
_DIRTY = 8 << 20


class Run(typing.NamedTuple):
    """What a run of both jobs took, in seconds, and the utilizations.

    The utilizations, 0 to 1, are those while the data is sorted.
    """

    write_s: float
    sort_s: float
    peak: float
    disks: float
    processors: float


def goals() -> list[_report.Goal]:
    """Return what P2 found, and that consolidated vdisks gain nothing."""
    return [
        _report.Goal('less_time_1_to_2', '>=', 0.27),
        _report.Goal('less_time_1_to_8', '>=', 0.70),
        _report.Goal('round_robin_to_consolidated_8', '<=', 0.5),
    ]


@contextlib.contextmanager
def prepared(
    kind: str, mbps: int, path: pathlib.Path
) -> Iterator[list[tuple[typing.Any, str]]]:
    """Yield prepared disks, each with the device that it is made of.

    :param kind: capped or seeking.
    :param mbps: the limit of each capped disk in MB/s.
    """
    host = Host('hadoop', disks=DISKS, disk_gb=20, mbps=mbps)
    state = state_.create(path, (host,))
    (path / 'devices').mkdir()
    try:
        yield [
            _prepare(state, host, kind, path / 'devices' / f'{number}.raw')
            for number in range(DISKS)
        ]
    finally:
        cloud_disks.remove(state)


def _prepare(
    state: State, host: Host, kind: str, backing: pathlib.Path
) -> tuple[typing.Any, str]:
    with backing.open('wb') as stream:
        stream.truncate(host.disk_gb * GIB)
    if kind == 'capped':
        device = capped.attach(state, host, backing)
    else:
        device = seeking.attach(state, backing)
    root = state.disk_root(host.name)
    root.mkdir(parents=True, exist_ok=True)
    fstab = state.host_dir(host.name) / 'fstab'
    disk = prepare.prepare(str(root), device, flavor.HDD, fstab=str(fstab))
    return disk, device


def place(name: str, count: int) -> list[int]:
    """Return the disk of each vdisk by a mapping, from 0."""
    chosen = driver.DriverManager(
        mapping.NAMESPACE, name, invoke_on_load=True
    ).driver
    slots = np.full((1, DISKS), 8)
    per_disk = 1 if chosen.spreads else count
    (counts,) = chosen.place(slots, np.zeros((1, DISKS)), count, per_disk)
    return np.repeat(np.arange(DISKS), counts).tolist()


@contextlib.contextmanager
def mounted(
    places: Sequence[typing.Any], path: pathlib.Path, striped: bool = False
) -> Iterator[list[pathlib.Path]]:
    """Yield where vdisks are mounted, each on a prepared disk.

    :param places: the disk of each.
    :param striped: they have one filesystem.
    """
    with contextlib.ExitStack() as stack:
        found = []
        for number, disk in enumerate(places):
            name = f'volume-{number}'
            vdisks.create(disk.path, name, name, None, VDISK_GB * GIB)
            stack.callback(vdisks.delete, disk.path, name)
            vdisks.attach_device(disk.path, name)
            found.append(devices.path(disk.uuid, name))
        if striped:
            groups = [found]
        else:
            groups = [[device] for device in found]
        yield [
            stack.enter_context(_mounted(group, path / f'filesystem-{number}'))
            for number, group in enumerate(groups)
        ]


@contextlib.contextmanager
def _mounted(
    group: Sequence[str], mount: pathlib.Path
) -> Iterator[pathlib.Path]:
    """Yield where devices are mounted: a stripe if there are several."""
    first, *others = group
    options = 'noatime'
    if others:
        process.run(
            'mkfs.btrfs', '-q', '-f', '-K', '-d', 'raid0', '-m', 'raid0',
            *group,
        )  # fmt: skip
        # in place, as ext4 writes
        options += ',nodatacow'
        options += ''.join(f',device={device}' for device in others)
    else:
        extended = 'lazy_itable_init=0,lazy_journal_init=0,nodiscard'
        process.run('mkfs.ext4', '-q', '-F', '-E', extended, first)
    mount.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        stack.callback(mount.rmdir)
        process.run('mount', '-o', options, first, str(mount))
        stack.callback(process.run, 'umount', str(mount))
        _limit_dirty(first, len(group))
        yield mount


def _limit_dirty(device: str, count: int) -> None:
    node = pathlib.Path(device).resolve().name
    bdi = pathlib.Path('/sys/block', node, 'bdi')
    # the writeback of btrfs is not that of its devices
    for found in pathlib.Path('/sys/fs/btrfs').glob(f'*/devices/{node}'):
        bdi = found.parents[1] / 'bdi'
    (bdi / 'max_bytes').write_text(str(count * _DIRTY))
    (bdi / 'strict_limit').write_text('1')


def measure(
    layout: str,
    disks: Sequence[tuple[typing.Any, str]],
    job: _hadoop_cluster.Job,
) -> Run:
    """Write and sort with the vdisks of a layout."""
    name, count = LAYOUTS[layout]
    places = place(name, count)
    used = [disks[at][1] for at in sorted(set(places))]
    with tempfile.TemporaryDirectory(
        prefix='diskplacer-hadoop-', dir='/var/tmp'
    ) as directory:
        work = pathlib.Path(directory)
        with (
            mounted(
                [disks[at][0] for at in places],
                work / 'vdisks',
                layout in STRIPED,
            ) as mounts,
            _hadoop_cluster.Cluster(work, mounts, job) as cluster,
        ):
            with _hadoop_meter.Meter(used, mounts):
                write_s = cluster.run('RandomWriter', '/random')
            with _hadoop_meter.Meter(used, mounts) as meter:
                sort_s = cluster.run(
                    'Sort', '-r', str(job.reduces), '/random', '/sorted'
                )
    return Run(write_s, sort_s, meter.peak, meter.disks, meter.processors)


def figures_of(runs: dict[str, list[Run]]) -> _report.Figures:
    """Return the figures of all layouts.

    Times and utilizations of two layouts are compared round by round.
    """
    figures: _report.Figures = {}
    for layout, found in runs.items():
        for field in Run._fields:
            values = [getattr(run, field) for run in found]
            _add(figures, f'{layout}_{field}', values)
    for before, after in ((1, 2), (1, 4), (1, 8), (6, 8)):
        ratios = _ratios(runs, f'round_robin_{after}', f'round_robin_{before}')
        less = [1 - ratio for ratio in ratios]
        _add(figures, f'less_time_{before}_to_{after}', less)
    for other in ('consolidated', 'striped'):
        ratios = _ratios(runs, 'round_robin_8', f'{other}_8')
        _add(figures, f'round_robin_to_{other}_8', ratios)
    _add_processors(figures, runs, 'round_robin_8', 'round_robin_1')
    return figures


def _add_processors(
    figures: _report.Figures,
    runs: dict[str, list[Run]],
    one: str,
    other: str,
) -> None:
    """Add the utilization of the processors of a layout by another's."""
    found, others = runs.get(one, []), runs.get(other, [])
    if len(found) != len(others) or len(found) < 2:
        return
    name = f'{one}_to_{other}_processors'
    for end, value in zip(
        ('', '_low', '_high'),
        stats.ratio(
            [run.processors for run in found],
            [run.processors for run in others],
        ),
        strict=True,
    ):
        figures[f'{name}{end}'] = round(value, 4)


def _ratios(runs: dict[str, list[Run]], one: str, other: str) -> list[float]:
    """Return the times to sort of a layout by those of another, by round."""
    pairs = zip(runs.get(one, []), runs.get(other, []), strict=False)
    return [mine.sort_s / theirs.sort_s for mine, theirs in pairs]


def _add(figures: _report.Figures, name: str, values: Sequence[float]) -> None:
    """Add the mean of values with its interval, of two at least."""
    if not values:
        return
    figures[name] = round(statistics.mean(values), 4)
    if len(values) > 1:
        interval = stats.interval(list(values))
        figures[f'{name}_low'] = round(interval.low, 4)
        figures[f'{name}_high'] = round(interval.high, 4)


def show(runs: dict[str, list[Run]]) -> None:
    """Print the means as a table."""
    rows = []
    for layout, found in runs.items():
        means = [
            statistics.mean(values) for values in zip(*found, strict=True)
        ]
        rows.append((layout, *(f'{value:.2f}' for value in means)))
    _report.table(
        ('Mapping and vdisks', 'Write s', 'Sort s', 'Disks, peak')
        + ('Disks, mean', 'CPUs, mean'),
        rows,
    )


def main() -> int:
    # an exit takes all down, a kill would not
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--disk', choices=('capped', 'seeking'), default='capped'
    )
    parser.add_argument(
        '--mbps', type=int, default=5, help='limit of a capped disk in MB/s'
    )
    parser.add_argument(
        '--mib', type=int, default=200, help='MiB to write and sort'
    )
    parser.add_argument('--runs', type=int, default=3, help='of each layout')
    parser.add_argument(
        '--layout', nargs='+', choices=LAYOUTS, default=[*LAYOUTS]
    )
    args = parser.parse_args()
    _hadoop_cluster.fetch()
    job = _hadoop_cluster.Job(args.mib)
    runs: dict[str, list[Run]] = {layout: [] for layout in args.layout}
    with (
        tempfile.TemporaryDirectory(
            prefix='diskplacer-disks-', dir='/var/tmp'
        ) as directory,
        prepared(args.disk, args.mbps, pathlib.Path(directory)) as disks,
    ):
        for _ in range(args.runs):
            for layout in args.layout:
                runs[layout].append(measure(layout, disks, job))
                print(layout, runs[layout][-1], flush=True)
    show(runs)
    figures = figures_of(runs)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'hadoop', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
