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


"""What a mapping gives a guest that uses all its vdisks at once.

A real cloud runs on this machine, with disks that are each capped to a set
throughput. Servers with 1, 2 and 4 vdisks are booted one after the other,
mapped round robin and consolidated; each guest writes, then reads, all its
vdisks at once with direct I/O. Shown is the sum over the vdisks and its ratio
to one disk's cap, beside a bare disk measured on the host.
"""

import argparse
import pathlib
import signal
import sys
import tempfile

import _report
from tools.minicloud import capped
from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host

DISKS = 8
# room for all vdisks on one disk
GIB = 10
COUNTS = (1, 2, 4, 8)
MAPPINGS = ('round_robin', 'consolidated')
MIB = 2**20 / 1e6


def goals() -> list[_report.Goal]:
    """Round robin adds up; consolidated is one disk's worth."""
    found = []
    for what in ('write', 'read'):
        for count in COUNTS:
            figure = f'round_robin_{count}_{what}_ratio'
            found.append(_report.Goal(figure, '>=', 0.95 * count))
        for count in COUNTS:
            figure = f'consolidated_{count}_{what}_ratio'
            found.append(_report.Goal(figure, '>=', 0.95))
            found.append(_report.Goal(figure, '<=', 1.1))
    return found


def measure(cloud: Cloud, mapping: str, count: int, mib: int) -> list[float]:
    """Boot a server; return the MB/s that it writes and reads.

    :raises ProcessError: the vdisks are not where they should be, or the
        guest failed.
    """
    name = f'{mapping}-{count}'
    flavor = cloud.api.create_flavor(
        f'throughput-{name}', vdisks=count, vdisk_gb=1, mapping=mapping
    )
    server = cloud.api.create_server(name, flavor, cloud.image)
    cloud.api.wait_server(server)
    where = list(checks.by_domain(cloud, server).values())
    if len(where) != count or not checks.mapped_as_asked(mapping, where):
        raise process.ProcessError(f'{name}: vdisks are on {where}')

    def finished() -> str | None:
        text = cloud.api.console(server)
        return text if 'guest: ready' in text else None

    text = str(process.wait(f'guest of {name}', finished, 600, 2))
    if 'guest: error' in text:
        raise process.ProcessError(f'guest of {name}: {text[-500:]}')
    cloud.api.delete_server(server)
    process.wait('volumes gone', lambda: not cloud.api.volumes(), 60, 1)
    times = {
        line.split()[1]: int(line.split()[2]) / 1000
        for line in text.splitlines()
        if line.startswith('guest: ') and line.endswith(' ms')
    }
    return [
        count * mib * MIB / times[f'{what}_vdisk']
        for what in ('write', 'read')
    ]


def run(path: pathlib.Path, mbps: int, mib: int) -> _report.Figures:
    """Measure everything and return the figures."""
    host = Host('compute1', 'libvirt', DISKS, GIB, mbps)
    figures: _report.Figures = {'cap_mbps': float(mbps)}
    rows = []

    def add(name: str, results: list[float]) -> None:
        for what, result in zip(('write', 'read'), results, strict=True):
            figures[f'{name}_{what}_mbps'] = result
            figures[f'{name}_{what}_ratio'] = result / mbps
        rows.append(
            (name, *(f'{r:.1f}' for r in results))
            + tuple(f'{r / mbps:.2f}' for r in results)
        )
        print(*rows[-1], flush=True)

    with Cloud(path, (host,), prepare_disks=capped.make) as cloud:
        cloud.image = cloud.create_guest_image(
            'writer',
            *guest.build(),
            os_command_line=f'console=ttyS0 vdisk.mib={mib}',
        )
        disk = next(cloud.state.disk_root(host.name).iterdir())
        add('bare_disk', list(capped.measure(disk / 'bare', mib)))
        for count in COUNTS:
            for mapping in MAPPINGS:
                add(f'{mapping}_{count}', measure(cloud, mapping, count, mib))
    _report.table(
        ('Mapping and vdisks', 'Write MB/s', 'Read MB/s')
        + ('Write / cap', 'Read / cap'),
        rows,
    )
    return figures


def main() -> int:
    # an exit takes the cloud down, a kill would not
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--mbps', type=int, default=10, help='cap of each disk in MB/s'
    )
    parser.add_argument(
        '--mib', type=int, default=100, help='MiB to write to each vdisk'
    )
    args = parser.parse_args()
    path = tempfile.mkdtemp(prefix='diskplacer-bench-', dir='/var/tmp')
    figures = run(pathlib.Path(path), args.mbps, args.mib)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'mapping_throughput', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
