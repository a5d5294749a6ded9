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

"""What Cinder's drivers do per second: ours beside Cinder's own for LVM.

In a testbed guest, each driver takes volumes through create, attach
(create_export and initialize_connection), detach, snapshot, clone and delete,
1 and 16 at a time. Ours runs with both of its backends and a Placement of its
own on the guest's loopback. create is nothing for ours, which allocates at
the first attach: compare the two together. Nobody's volumes are attached, so
that Nova is not asked. Then fio loads a vdisk of ours and, before that, the
same disk without anything on it, the disk being held to a throughput and to
requests per second from outside. With --seeks it is the hard disk of
tools/seeking_disk.
"""

import argparse
import functools
import signal
import sys

import _in_guest
import _report
from tools.testbed import Disk
from tools.testbed import Testbed

DRIVERS = ('filesystem', 'lvm', 'stock_lvm')
OURS = DRIVERS[:2]
OPERATIONS = ('create', 'attach', 'detach', 'snapshot', 'clone', 'delete')
LOADS = ('write', 'read', 'randwrite', 'randread')
# what is measured only: the first write of a block takes more of a driver
FIRST = ('first_randwrite',)
AT_ONCE = (1, 16)
EACH = 4
GIB = 128
GUEST = '_driver_ops_guest.py'


def goals() -> list[_report.Goal]:
    """A vdisk whose blocks have been written gives what its disk gives."""
    return [
        _report.Goal(f'{driver}_{load}_ratio', '>=', 0.97)
        for driver in OURS
        for load in LOADS
    ]


def measure_ops(
    bed: Testbed, args: argparse.Namespace, figures: _report.Figures
) -> None:
    """Add the figures of the operations."""
    counts = [(1, 3), (16, 16)] if args.quick else [(1, 8), (16, 32)]
    for number, driver in enumerate(DRIVERS):
        disks = range(number * EACH, (number + 1) * EACH)
        got = _in_guest.run(
            bed,
            GUEST,
            'ops',
            driver,
            devices=[bed.device(index) for index in disks],
            thin=not args.thick,
            gb=1,
            counts=counts,
        )
        for figure, value in got.items():
            figures[f'{driver}_{figure}'] = value
        print(f'{driver}: done', file=sys.stderr, flush=True)
    for at_once in AT_ONCE:
        _report.table(
            (f'{at_once} at a time', *(f'{one} per s' for one in DRIVERS))
            + tuple(f'{one} ms' for one in DRIVERS),
            [
                [operation]
                + [
                    f'{figures[f"{one}_{operation}_per_s_{at_once}"]:.3g}'
                    for one in DRIVERS
                ]
                + [
                    f'{1000 * figures[f"{one}_{operation}_s_{at_once}"]:.0f}'
                    for one in DRIVERS
                ]
                for operation in OPERATIONS
            ],
        )


def measure_fio(
    bed: Testbed, args: argparse.Namespace, figures: _report.Figures
) -> None:
    """Add the figures of vdisks beside their bare disks."""
    rows = []
    for number, driver in enumerate(OURS, len(DRIVERS) * EACH):
        got = _in_guest.run(
            bed,
            GUEST,
            'fio',
            driver,
            devices=[bed.device(number)],
            thin=not args.thick,
            gb=1,
            seconds=10 if args.quick else 40,
        )
        for load in FIRST + LOADS:
            bare, vdisk = got['bare'][load], got['vdisk'][load]
            figures[f'{driver}_{load}_bare'] = bare
            figures[f'{driver}_{load}_vdisk'] = vdisk
            figures[f'{driver}_{load}_ratio'] = vdisk / bare
            rows.append(
                (
                    f'{driver} {load}',
                    f'{bare:.1f}',
                    f'{vdisk:.1f}',
                    f'{vdisk / bare:.3f}',
                )
            )
    _report.table(
        ('MB/s, rand: requests per s', 'Bare disk', 'VDisk', 'Ratio'), rows
    )


def run(args: argparse.Namespace) -> _report.Figures:
    """Measure everything and return the figures."""
    figures: _report.Figures = {}
    disks = [
        Disk(node=index % 2, gib=GIB) for index in range(len(DRIVERS) * EACH)
    ]
    loaded = functools.partial(Disk, gib=8, kind='hdd', cache_mib=64)
    if not args.seeks:
        loaded = functools.partial(Disk, gib=8, mbps=args.mbps, iops=args.iops)
    disks += [loaded(node=node) for node in range(len(OURS))]
    with Testbed(disks) as bed:
        measure_ops(bed, args, figures)
        measure_fio(bed, args, figures)
    return figures


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--quick', action='store_true', help='fewer volumes, shorter loads'
    )
    parser.add_argument(
        '--thick',
        action='store_true',
        help='LVM without thin pools: clones copy every byte',
    )
    parser.add_argument(
        '--seeks', action='store_true', help='the loaded disks seek'
    )
    parser.add_argument(
        '--mbps', type=int, default=60, help='cap of the loaded disks in MB/s'
    )
    parser.add_argument(
        '--iops', type=int, default=800, help='their cap in requests per s'
    )
    args = parser.parse_args()
    figures = run(args)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'driver_ops', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
