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

"""Who holds the model of io.cost to the disk: nobody, the agent, the kernel.

Two tasks share a disk in the testbed with weights of 100 and 10. The disk is
measured as on a compute host, by diskplacer-manage disk measure. Arms are:

none    no io.cost; the I/O scheduler is mq-deadline in all of them
fixed   the measured model at one rate
agent   the same, corrected once a second by the agent
kernel  the measured model at a rate that the kernel adapts to latencies: qos
        with 95 % of requests within four times the latency of a random
        request alone, at 50 to 150 % of the rate

With --faster 2 the model says that the disk is twice as fast as it is, as a
disk that has become slower, or collects garbage. Of each are shown how many
times as much as the heavy task the light one gets, which should be 10 for
equal requests, the throughput of both beside that without io.cost, the mean
latency of the light one, and the time that the kernel charges to each in a
second. The JSON has the model, and the other times of io.stat: how long
requests waited, were in debt and were delayed.
"""

import argparse
import functools
import signal
import sys
import typing

import _in_guest
import _report
from tools.testbed import Disk
from tools.testbed import Testbed

GUEST = '_io_cost_guest.py'
DISKS = {
    'throttled': Disk(gib=8, mbps=20),
    'hdd': Disk(gib=8, kind='hdd', cache_mib=64),
    'ssd': Disk(gib=8, kind='ssd'),
}
LOADS = (
    ('sequential', 'sequential'),
    ('random', 'random'),
    ('random', 'writes'),
)
MIB = 2048
ARMS = ('none', 'fixed', 'agent', 'kernel')

TASKS = ('light', 'heavy')
TIMES = ('usage', 'wait', 'indebt', 'indelay')

Found = dict[str, dict[str, dict[str, dict[str, float]]]]


class Measured(typing.TypedDict):
    """The model of a disk, and what each task got, by loads and arm."""

    model: dict[str, int | str]
    found: Found


def measure(args: argparse.Namespace, kind: str) -> Measured:
    """Measure a disk."""

    with Testbed([DISKS[kind]]) as bed:
        in_guest = functools.partial(_in_guest.run, bed, GUEST)
        device = bed.device(0)
        medium = 'ssd' if kind == 'ssd' else 'hdd'
        uuids = in_guest(
            'prepare', schedulers={device: 'mq-deadline'}, mbps=100,
            scale_mb=128, sizes=[], media={device: medium},
        )  # fmt: skip
        # seeks are as long as those of the tasks
        in_guest('measure', uuids=list(uuids.values()), seconds=3, mib=MIB)
        got = in_guest(
            'compare', device=device, uuids=uuids, medium=medium,
            loads=LOADS, seconds=args.seconds, faster=args.faster,
        )  # fmt: skip
    print(f'{kind}: {got["model"]}')
    return typing.cast(Measured, got)


def evaluate(kind: str, measured: Measured) -> _report.Figures:
    """Print a table, and return its figures."""
    figures: _report.Figures = {
        f'{kind}_model_{name}': value
        for name, value in measured['model'].items()
        if isinstance(value, int)
    }
    rows = []
    for loads, arms in measured['found'].items():
        whole = {
            arm: sum(one['mbps'] for one in got.values())
            for arm, got in arms.items()
        }
        for arm in ARMS:
            light, heavy = arms[arm]['light'], arms[arm]['heavy']
            name = f'{kind}_{loads}_{arm}'
            shown = {
                'control': light['mbps'] / heavy['mbps'],
                'whole': whole[arm] / whole['none'],
                'latency_ms': light['latency_ms'],
            }
            figures |= {f'{name}_{key}': one for key, one in shown.items()}
            figures |= {
                f'{name}_{task}_{what}': arms[arm][task].get(what)
                for task in TASKS
                for what in TIMES
            }
            rows.append(
                (
                    f'{loads} {arm}',
                    f'{light["mbps"]:.1f}',
                    f'{heavy["mbps"]:.1f}',
                    *(f'{one:.2f}' for one in shown.values()),
                    ', '.join(
                        f'{arms[arm][task].get("usage", 0.0):.2f}'
                        for task in TASKS
                    ),
                )
            )
    print(kind)
    _report.table(
        ('Light and heavy', 'Light, MB/s', 'Heavy, MB/s', 'Light / heavy')
        + ('Of all without', 'Latency, ms', 'Charged, s/s'),
        rows,
    )
    return figures


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--disk', action='append', choices=sorted(DISKS),
        help='only this one; may be repeated',
    )  # fmt: skip
    parser.add_argument(
        '--faster', type=float, default=1.0,
        help='how much faster than measured the model is (default: '
        '%(default)s)',
    )  # fmt: skip
    parser.add_argument(
        '--seconds', type=int, default=10,
        help='how long each is measured (default: %(default)s)',
    )  # fmt: skip
    args = parser.parse_args()
    figures: _report.Figures = {}
    for kind in args.disk or DISKS:
        figures |= evaluate(kind, measure(args, kind))
    if args.json:
        _report.write(args.json, 'io_cost_feedback', figures, [])
    return 0


if __name__ == '__main__':
    sys.exit(main())
