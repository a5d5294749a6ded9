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

"""What the papers claim of servers and bare metal, judged by a sweep here.

A real cloud runs on this machine, with one host and one disk.
``diskplacer-manage sweep run`` measures bare metal and servers there, as P0,
"On the Impact of Virtualization on the I/O Performance of Analytic Workloads",
and its draft P3 did, and ``sweep report`` judges their claims.

The disk is that of tools/seeking_disk, a hard disk of 7200 revolutions per
minute; or with --disk throttled a file that is held to 20 MB/s and 150
requests per second, so that emulated processors are not what limits servers.
Nova lets no server have more virtual CPUs than its host has processors.

Results are kept in a file beside its report, FILE.html. The same command
continues a run that was interrupted.
"""

import argparse
import functools
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import typing

import _report
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import rules
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import run
from nova_diskplacer import exit_status
from nova_diskplacer.disks import block
from tools.minicloud import capped
from tools.minicloud import config
from tools.minicloud import disks
from tools.minicloud import guest
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud import seeking
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.minicloud.state import State

HOST = 'compute1'
HOSTS = {
    'seeking': Host(HOST, 'libvirt', disks=1, media=('hdd',)),
    'throttled': Host(HOST, 'libvirt', disks=1, mbps=20, iops=150),
}
# Requests are fewer and larger than the papers', as emulated processors manage
# few. One repetition takes 20 to 25 minutes.
OPTIONS = (
    '--jobs', '1', '4', '16', '--shape', '1:384', '2:384', '2:1024',
    '--depth=32', '--kib=64', '--seconds=3', '--repetitions=4',
    '--boot-timeout=600',
)  # fmt: skip
# What a disk moves in the time of a cell.
MIB = {'seeking': 256, 'throttled': 64}
QUICK = ('--quick', '--shape=1:384')

VERDICTS = {rules.REPRODUCED: 1.0, rules.REFUTED: 0.0}
# What a report says of a check besides its value.
PARTS = ('low', 'high', 'least', 'most', 'cells', 'repetitions')

Report = dict[str, typing.Any]


def figures(report: Report) -> _report.Figures:
    """Return the figures of a report, as ``sweep report`` has it in JSON.

    Of a claim of P0 they are ``p0_NAME``, which is 1 if it is reproduced, 0 if
    it is refuted, and otherwise None; of its first check ``p0_NAME_1``, a
    ratio or a Jain index, with its interval and the least and the most of a
    cell, over ``p0_NAME_1_cells`` pairs of cells, or single ones, and
    ``p0_NAME_1_repetitions``.
    """
    problems = [one['problem'] for one in report['problems']]
    found: _report.Figures = {
        'missing': float(report['missing']),
        'problems': float(len(problems)),
        'bound_by_the_cpu': float(problems.count(outcome.CPU_BOUND)),
    }
    for claim in report['claims']:
        name = f'{claim["paper"].lower()}_{claim["name"]}'
        found[name] = VERDICTS.get(claim['verdict'])
        for number, check in enumerate(claim['checks'], 1):
            figure = f'{name}_{number}'
            found[figure] = check['value']
            for part in PARTS:
                found[f'{figure}_{part}'] = check[part]
    return found


def rows(report: Report) -> list[tuple[str, ...]]:
    """Return a line for each check: name, what it is, figure, verdict."""
    return [
        (
            f'{claim["paper"]} {claim["name"]}',
            check['text'],
            '-'
            if check['value'] is None
            else '{value:.3f} ({low:.3f} to {high:.3f})'.format(**check),
            check['verdict'],
            claim['verdict'],
        )
        for claim in report['claims']
        for check in claim['checks']
    ]


def options(args: argparse.Namespace) -> list[str]:
    """Return the options of ``sweep run`` that the cells depend on."""
    if args.quick:
        return [*QUICK, *args.option]
    return [*OPTIONS, f'--mib={MIB[args.disk]}', *args.option]


def attach(
    disk: str, uuid: str, state: State, host: Host, backing: pathlib.Path
) -> str:
    """Make the device of the disk and return its path.

    :param uuid: that of the disk of the run that is continued, '' if none is.
    """
    if disk == 'seeking':
        device = seeking.attach(state, backing)
    else:
        device = capped.attach(state, host, backing)
    if uuid:
        block.make_filesystem(device, uuid)
    return device


def make_disks(disk: str, uuid: str, state: State, host: Host) -> None:
    """Make and prepare the disk of the host."""
    disks.make(state, host, functools.partial(attach, disk, uuid, state, host))


def measure(args: argparse.Namespace, uuid: str) -> int:
    """Run a sweep on a new cloud and return its exit status."""
    path = tempfile.mkdtemp(prefix='diskplacer-bench-', dir='/var/tmp')
    with Cloud(
        pathlib.Path(path),
        (HOSTS[args.disk],),
        prepare_disks=functools.partial(make_disks, args.disk, uuid),
    ) as cloud:
        kernel, initramfs = guest.build_with_fio()
        image = cloud.create_guest_image(
            'guest-with-fio', kernel, initramfs, **guest.DRIVE_PROPERTIES
        )
        (uuid,) = cloud.disk_providers()
        return subprocess.run(
            [
                f'{ini.BIN}/diskplacer-manage',
                f'--config-file={cloud.state.host_dir(HOST)}/diskplacer.conf',
                'sweep',
                'run',
                uuid,
                f'--results={args.results}',
                f'--image={image}',
                *options(args),
            ],
            env=process.environment(**config.login(cloud.state)),
        ).returncode


def report(path: pathlib.Path) -> Report:
    """Write the page of a sweep beside its results, and return its report."""
    command = [f'{ini.BIN}/diskplacer-manage', 'sweep', 'report', str(path)]
    process.run(*command, f'--output={path}.html')
    found: Report = json.loads(process.run(*command, '--format=json'))
    return found


def main() -> int:
    # an exit takes the cloud down, a kill would not
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--results',
        metavar='FILE',
        type=pathlib.Path,
        default='sweep.jsonl',
        help='file for the results; if it exists, its run is continued '
        '(default: %(default)s)',
    )
    parser.add_argument(
        '--disk',
        choices=sorted(HOSTS),
        default='seeking',
        help='what the disk is (default: %(default)s)',
    )
    parser.add_argument(
        '--quick', action='store_true', help='measure six cells only'
    )
    parser.add_argument(
        'option',
        nargs='*',
        help='of diskplacer-manage sweep run, after --: numbers take the '
        'place of those here, lists are added',
    )
    args = parser.parse_args()
    args.results = args.results.absolute()
    known = results.read(str(args.results)) if args.results.exists() else None
    if known is None or run.remaining(known):
        status = measure(args, known.header.disk.uuid if known else '')
        if status not in (exit_status.OK, exit_status.FINDINGS):
            return status
    found = report(args.results)
    _report.table(
        ('Claim', 'Check', 'Figure (CI)', 'Check is', 'Claim is'),
        rows(found),
    )
    if args.json:
        _report.write(args.json, 'sweep', figures(found), [])
    return 0


if __name__ == '__main__':
    sys.exit(main())
