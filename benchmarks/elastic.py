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

"""An elastic vdisk of 1 to 4 disks: first under pressure, then in quiet.

In a testbed guest with four LVM disks, four streams read a vdisk in sequence,
as in striping: 128 KiB at a time, 8 requests in flight each, which is a row of
the vdisk's chunks. They read

stripe    a fixed stripe of all four disks,
narrow    the elastic vdisk on one disk, while nothing decides or moves,
pressure  the same, and the agent decides and legs are moved: it is widened,
quiet     the same at a tenth of a disk's throughput: it is narrowed.

All the time a neighbour, a vdisk on the disk that the agent takes last, reads
at random places at a tenth of that disk's throughput.

The agent's own I/O loop measures, by the kernel's counters of cgroups and
disks, and decides; the executor takes its steps, by the kernel's mirrors.
Cinder's database and Placement are left out: the location of the legs is in
memory, and each disk has room. Nothing sets I/O weights.

Options of [diskplacer_elastic] are those of OPTIONS, and the defaults: above
all copy_share=0.1 and widen_factor=2. So the vdisk is widened by two moves,
each of half of its legs, after up to widen_after and two intervals each. The
first copies two legs at once, the other one after the other. They are hard
disks for the agent, so a tenth of their time is 1.1 MB/s. Under pressure each
512 KiB, and each request of LVM's commands, waits behind the requests of the
streams, for 4 MiB at 21 MB/s or 0.2 s. So legs have LEG_MIB, an extent of LVM,
16 MiB in all. In quiet nothing is waited for: there a mirror copies 64 KiB at
a time, as the requests of the server wait for the copy.

The disks are throttled to an eighth of the throughput of the hard disk of
tools/seeking_disk, as emulated processors do not keep up with four disks.

Each move is compared with the 40 s before it: the worst of all is shown. The
neighbour, whose requests come at random times, is compared with the time in
which nothing moves.
"""

import argparse
import signal
import sys
import typing

import _elastic_figures as figures_
import _in_guest
import _report
import _striping_layouts as layouts
from tools.seeking_disk import model
from tools.testbed import Disk
from tools.testbed import Testbed

GUEST = '_elastic_guest.py'
MB = 10**6
SLOWER = 8
MBPS = model.HardDisk(1).slowed(SLOWER).bytes_per_s / MB
GIB = 2
LEG_MIB = 4
STREAMS = 4
# Shares of a disk's throughput.
QUIET = 0.1
NEIGHBOUR = 0.1
MOVES = ('moves', 'copy_mbps', 'kept', 'move_p99_ms', 'slower')
OPTIONS = {
    'interval': 2,
    'widen_after': 8,
    'min_interval': 0,
    'narrow_after': 30,
}


def measure(args: argparse.Namespace) -> dict[str, typing.Any]:
    """Return what the guest has measured."""
    disks = [
        Disk(node=number % 2, gib=GIB, mbps=MBPS)
        for number in range(layouts.DISKS)
    ]
    with Testbed(disks) as bed:
        found: dict[str, typing.Any] = _in_guest.run(
            bed,
            GUEST,
            devices=[bed.device(number) for number in range(layouts.DISKS)],
            mbps=round(MBPS),
            leg_mib=LEG_MIB,
            streams=STREAMS,
            quiet_rate=round(QUIET * MBPS * MB),
            neighbour_rate=round(NEIGHBOUR * MBPS * MB),
            options=OPTIONS,
            seconds={
                'stripe': args.baseline,
                'narrow': args.baseline,
                'pressure': args.pressure,
                'quiet': args.quiet,
            },
        )
    return found


def show(figures: _report.Figures) -> None:
    """Print what was measured."""

    def shown(name: str) -> str:
        value = figures[name]
        return '-' if value is None else f'{value:.4g}'

    _report.table(
        ('', 'MB/s', 'p99, ms'),
        [
            [text, shown(f'{name}_mbps'), shown(f'{name}_p99_ms')]
            for text, name in (
                ('Fixed stripe of 4 disks', 'stripe'),
                ('Elastic, 1 disk, no moves', 'narrow'),
            )
        ],
    )
    _report.table(
        (
            'Moves',
            'Number',
            'Copy, MB/s',
            'Throughput kept',
            'p99, ms',
            'p99, times',
        ),
        [
            [text, *(shown(f'{name}_{what}') for what in MOVES)]
            for text, name in (
                ('To more disks, under pressure', 'widen'),
                ('To fewer disks, in quiet', 'narrow'),
            )
        ],
    )
    _report.table(
        ('Elastic vdisk', 'Measured'),
        [
            [text, shown(name)]
            for text, name in (
                ('Within 10 % of the stripe after, s', 'wide_after_s'),
                (
                    'Afterwards, of the stripe',
                    'rest_of_stripe',
                ),
                ('Throughput that the neighbour keeps', 'neighbour_kept'),
                ('Width in the end', 'end_width'),
                ('Narrow again after, s of quiet', 'narrow_after_quiet_s'),
                ('Moves that failed', 'failed_moves'),
            )
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
    for name, seconds, text in (
        ('baseline', 60, 'the fixed stripe and the width of 1 are measured'),
        ('pressure', 600, 'the server reads as fast as it can'),
        ('quiet', 600, 'it reads little'),
    ):
        parser.add_argument(
            f'--{name}',
            type=int,
            default=seconds,
            help=f'seconds for which {text} (default: %(default)s)',
        )
    args = parser.parse_args()
    for name in ('baseline', 'pressure', 'quiet'):
        if getattr(args, name) < 1:
            parser.error(f'--{name} {getattr(args, name)}: must be at least 1')
    figures = figures_.evaluate(measure(args))
    show(figures)
    _report.show_goals(figures, figures_.goals())
    if args.json:
        _report.write(args.json, 'elastic', figures, figures_.goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
