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


"""What a loop device costs a server, beside the file that it is made for.

A prepared disk has one vdisk, which fio uses as the file and as its loop
device, with direct I/O, in turn: all loads that measure a solid state disk, in
each round, by both paths in random order. Shown are the medians of the rounds,
the ratio of device to file with the lowest and the highest round, and the time
that all processors together take for a request.

The disk is one that is faster than any: memory, so that the ratio shows all
that the loop device costs. On a disk that takes longer for a request than the
processor does, it costs less: with --throttled, the disk is one of the
testbed's guest, which does 100 MB/s and 1,000 requests per second. With
--device it is a device of this host, which is wiped.
"""

import argparse
import contextlib
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import typing
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import _in_guest
import _report
from nova_diskplacer import flavor
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.measure import fio
from tools.testbed import Disk
from tools.testbed import Testbed

NAME = 'volume-benchmark'
PATHS = ('file', 'device')
LOADS = fio.loads_for(flavor.SSD)
GOAL = 0.97
GUEST = '_block_connection_guest.py'
THROTTLED = Disk(gib=4, mbps=100, iops=1000)


class Run(typing.NamedTuple):
    """Bytes or requests per second of a run, and seconds of processors.

    ``cpu_s`` is for one request.
    """

    rate: float
    cpu_s: float


# The runs of a load, in the order of the rounds, by path.
Runs = Mapping[str, Sequence[Run]]


def goals() -> list[_report.Goal]:
    """Return that no load loses more than three percent."""
    return [_report.Goal(f'{load}_ratio', '>=', GOAL) for load in LOADS]


def figures_of(load: str, runs: Runs) -> _report.Figures:
    """Return the figures of a load."""
    found: _report.Figures = {}
    for path in PATHS:
        rate = statistics.median(run.rate for run in runs[path])
        found[f'{load}_{path}'] = rate
        found[f'{load}_{path}_cpu_us'] = 1e6 * statistics.median(
            run.cpu_s for run in runs[path]
        )
    ratios = [
        device.rate / file.rate
        for file, device in zip(runs['file'], runs['device'], strict=True)
    ]
    return found | {
        f'{load}_ratio': statistics.median(ratios),
        f'{load}_ratio_min': min(ratios),
        f'{load}_ratio_max': max(ratios),
    }


@contextlib.contextmanager
def memory(mib: int) -> Iterator[str]:
    """Yield a block device in memory of so many MiB."""
    with tempfile.NamedTemporaryFile(dir='/dev/shm') as file:
        file.truncate(mib << 20)
        node = _output('losetup', '--find', '--show', file.name)
        try:
            yield node
        finally:
            _output('losetup', '--detach', node)


@contextlib.contextmanager
def paths(device: str, mib: int) -> Iterator[dict[str, str]]:
    """Prepare a device, and yield both paths of a vdisk of so many MiB."""
    with tempfile.TemporaryDirectory(prefix='diskplacer-bench-') as directory:
        root = os.path.join(directory, 'disks')
        fstab = os.path.join(directory, 'fstab')
        disk = prepare.prepare(
            root, device, flavor.SSD, wipe=True, fstab=fstab
        )
        try:
            vdisks.create(disk.path, NAME, '1', None, mib << 20)
            vdisks.attach_device(disk.path, NAME)
            try:
                yield {
                    'file': vdisks.path(disk.path, NAME),
                    'device': devices.path(disk.uuid, NAME),
                }
            finally:
                vdisks.delete(disk.path, NAME)
        finally:
            _output('umount', disk.path)


def measure(path: str, mib: int, load: fio.Load, seconds: int) -> Run:
    """Run a load on a path."""
    before = busy_s(pathlib.Path('/proc/stat').read_text())
    result = fio.Fio(path, mib << 20).measure(load, seconds)
    busy = busy_s(pathlib.Path('/proc/stat').read_text()) - before
    rate = result.bps if load.unit == 'MB/s' else result.iops
    # fio starts measuring after some seconds under load
    requests = result.iops * (seconds + min(fio.RAMP_SECONDS, seconds))
    return Run(rate, busy / requests)


def busy_s(stat: str) -> float:
    """Return the seconds that all processors were busy, by /proc/stat."""
    fields = [int(field) for field in stat.split('\n', 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / os.sysconf('SC_CLK_TCK')


def run(device: str, mib: int, rounds: int, seconds: int) -> _report.Figures:
    """Measure everything and return the figures."""
    runs: dict[str, dict[str, list[Run]]] = {
        load: {path: [] for path in PATHS} for load in LOADS
    }
    with paths(device, mib) as places:
        fio.Fio(places['file'], mib << 20).fill()
        for _ in range(rounds):
            for name, load in LOADS.items():
                for path in random.sample(PATHS, len(PATHS)):
                    found = measure(places[path], mib, load, seconds)
                    runs[name][path].append(found)
                    print(name, path, f'{found.rate:.4g}', flush=True)
    figures: _report.Figures = {}
    for name in LOADS:
        figures |= figures_of(name, runs[name])
    return figures


def run_throttled(mib: int, rounds: int, seconds: int) -> _report.Figures:
    """Return the figures of :func:`run` on the throttled disk of a guest."""
    with Testbed([THROTTLED]) as bed:
        found = _in_guest.run(
            bed,
            GUEST,
            device=bed.device(0),
            mib=mib,
            rounds=rounds,
            seconds=seconds,
        )
    return typing.cast(_report.Figures, found)


def show(figures: _report.Figures) -> None:
    """Print the figures as a table."""

    def text(name: str, unit: float = 1.0) -> str:
        return f'{(figures[name] or 0) / unit:.4g}'

    rows = []
    for name, load in LOADS.items():
        unit = 1e6 if load.unit == 'MB/s' else 1.0
        rows.append(
            (
                f'{load.title}, {load.unit}',
                *(text(f'{name}_{path}', unit) for path in PATHS),
                *(text(f'{name}_ratio{end}') for end in ('', '_min', '_max')),
                *(text(f'{name}_{path}_cpu_us') for path in PATHS),
            )
        )
    _report.table(
        ('Load', 'File', 'Loop device', 'Ratio', 'lowest', 'highest')
        + ('File, CPU us', 'Loop device, CPU us'),
        rows,
    )


def _output(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    disk = parser.add_mutually_exclusive_group()
    disk.add_argument(
        '--device', help='block device to use, whose content is lost'
    )
    disk.add_argument(
        '--throttled',
        action='store_true',
        help="the throttled disk of a testbed's guest",
    )
    parser.add_argument(
        '--mib', type=int, default=2048, help='size of the vdisk in MiB'
    )
    parser.add_argument(
        '--rounds', type=int, default=9, help='runs of each load by each path'
    )
    parser.add_argument(
        '--seconds', type=int, default=5, help='duration of a run'
    )
    args = parser.parse_args()
    limits = args.mib, args.rounds, args.seconds
    with contextlib.ExitStack() as stack:
        if args.throttled:
            figures = run_throttled(*limits)
        else:
            device = args.device or stack.enter_context(memory(args.mib + 512))
            figures = run(device, *limits)
    show(figures)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'block_connection', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
