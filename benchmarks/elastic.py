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

"""An elastic vdisk of 1 to 4 disks, under pressure and then in quiet."""

import argparse
import json
import signal
import sys
import typing

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
LEG_MIB = 8
STREAMS = 4
QUIET = 0.05
NEIGHBOUR = 0.1
OPTIONS = {
    'interval': 5,
    'widen_after': 15,
    'min_interval': 5,
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
            quiet_rate=round(QUIET * MBPS * MB / STREAMS),
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
    found = measure(args)
    with open('/tmp/w/eb-raw.json', 'w') as f: json.dump(found, f)
    return 0


if __name__ == '__main__':
    sys.exit(main())
