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


"""How long a live migration with vdisks takes, and what the guest sees of it.

A real cloud with two libvirt hosts runs on this machine. Servers with 1, 4 and
8 vdisks of 1 GiB migrate live, and each phase is timed from the command until
nothing is left on the source. libvirt alone then migrates a guest with as many
disks of the same size, on the same file systems, by ``virsh migrate
--copy-storage-all``.

The throughput of a guest that writes as fast as it can is that on its own
disk, on the disk of the source before its data is copied, and while it is
copied at ``--rate``. iSCSI between the hosts is ``tools.minicloud.iscsi``.
"""

import argparse
import collections.abc
import pathlib
import signal
import statistics
import sys
import tempfile
import time

import _report
from tools.minicloud import guest
from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.minicloud.state import State
from tools.storm import moved_server

COUNTS = (1, 4, 8)
SOURCE, DESTINATION = moved_server.REAL
HOSTS = tuple(
    Host(name, 'libvirt', disks=max(COUNTS), media=('ssd',), moves=True)
    for name in moved_server.REAL
)
PHASES = ('prepare', 'memory', 'data', 'release')
STAGES = ('own', 'remote', 'settling')

# Seconds that a phase, and the start of a guest, may take.
PATIENCE = 1800.0
# Seconds for which throughput is measured once, and how often it is.
WINDOW = 10.0
WINDOWS = 4
# Seconds between two writes of a guest whose migration is timed.
PAUSE = 0.2

INIT = r"""#!/bin/busybox sh
/bin/busybox mkdir -p /dev /proc /sys /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t devtmpfs none /dev
mount -t proc none /proc
exec > /dev/ttyS0 2>&1 < /dev/null
for module in /modules/*.ko; do
    insmod "$module"
done
pause=$(sed -n 's/.*vdisk.pause=\([0-9.]*\).*/\1/p' /proc/cmdline)
while [ ! -b /dev/vdb ]; do
    sleep 1
done
echo 'guest: writes'
while true; do
    dd if=/dev/zero of=/dev/vdb bs=256k count=64 oflag=direct 2> /dev/null ||
        echo 'guest: error'
    [ "$pause" = 0 ] || sleep "$pause"
done
"""
XML = """<domain type='qemu'>
<name>baseline</name>
<memory unit='MiB'>{ram}</memory>
<os>
<type arch='x86_64' machine='pc'>hvm</type>
<kernel>{directory}/kernel</kernel>
<initrd>{directory}/initramfs</initrd>
<cmdline>{cmdline}</cmdline>
</os>
<devices>
{disks}
<serial type='file'><source path='{directory}/console'/></serial>
</devices>
</domain>
"""
DISK = """<disk type='file' device='disk'>
<driver name='qemu' type='raw' cache='none' io='native'/>
<source file='{path}'/>
<target dev='{name}' bus='virtio'/>
</disk>"""


def goals() -> list[_report.Goal]:
    """The guest keeps its throughput, but for the limit of the network."""
    return [_report.Goal('settling_ratio', '>=', 0.9)]


def command_line(pause: float) -> str:
    return f'console=ttyS0 vdisk.pause={pause:g}'


def fill(path: pathlib.Path) -> None:
    """Write 1 GiB to a file that has this size, past the cache."""
    process.run(
        'sh',
        '-c',
        'yes "a vdisk" | dd of="$0" bs=1M count=1024 iflag=fullblock'
        ' oflag=direct conv=notrunc',
        str(path),
    )


def boot(cloud: Cloud, image: str, count: int) -> moved_server.Server:
    """Boot a server on the source; its vdisks are full."""
    flavor = cloud.api.create_flavor(
        f'moves-{count}-{image}',
        ram=guest.MOVING_RAM,
        vdisks=count,
        vdisk_gb=1,
        mapping='round_robin',
        media='ssd',
    )
    uuid = cloud.api.create_server(
        f'moves-{count}', flavor, image, host=SOURCE
    )
    cloud.api.wait_server(uuid)
    server = moved_server.Server(cloud, uuid)
    process.wait(
        'guest', lambda: 'guest: writes' in cloud.api.console(uuid), PATIENCE
    )
    for volume, disk in server.files(SOURCE).items():
        root = cloud.state.disk_root(SOURCE)
        fill(root / disk / 'vdisks' / f'volume-{volume}')
    return server


def delete(cloud: Cloud, server: moved_server.Server) -> None:
    cloud.api.delete_server(server.uuid)
    process.wait('volumes gone', lambda: not cloud.api.volumes(), PATIENCE, 1)


def time_move(cloud: Cloud, server: moved_server.Server) -> list[float]:
    """Migrate a server live; return the seconds of each of ``PHASES``."""
    path = f'/servers/{server.uuid}/migrations'

    def statuses() -> set[str]:
        found = cloud.api.get('compute', path)['migrations']
        return {one['status'] for one in found}

    def copies_memory() -> bool:
        return bool(statuses() - {'accepted', 'queued', 'preparing'}) or (
            server.host() == DESTINATION
        )

    ends = [time.monotonic()]
    server.migrate_live()
    for what, is_done in zip(
        PHASES,
        (
            copies_memory,
            lambda: server.host() == DESTINATION and server.is_idle(),
            lambda: server.where() == {DESTINATION},
            lambda: not server.phases(),
        ),
        strict=True,
    ):
        process.wait(what, is_done, PATIENCE, 0.1)
        ends.append(time.monotonic())
    server.wait_settled(DESTINATION)
    return [
        after - before
        for before, after in zip(ends[:-1], ends[1:], strict=True)
    ]


class Baseline:
    """A guest of libvirt alone, whose disks have the same path on both hosts.

    They are files of the disks of the hosts, as vdisks are.
    """

    def __init__(
        self, cloud: Cloud, kernel: bytes, initramfs: bytes, count: int
    ) -> None:
        self._state = cloud.state
        self._directory = hypervisor.instances(cloud.state) / 'baseline'
        self._names = [f'vd{letter}' for letter in 'abcdefghi'[: count + 1]]
        self._files: list[pathlib.Path] = []
        for host in moved_server.REAL:
            self._make(host, kernel, initramfs)

    def _make(self, host: str, kernel: bytes, initramfs: bytes) -> None:
        # only this host sees it, at the path of both
        own = self._state.host_dir(host) / 'nova' / 'instances' / 'baseline'
        own.mkdir()
        (own / 'kernel').write_bytes(kernel)
        (own / 'initramfs').write_bytes(initramfs)
        (own / 'vda').write_bytes(bytes(2**20))
        disks = sorted(self._state.disk_root(host).glob('*/vdisks'))
        for name, disk in zip(self._names[1:], disks, strict=False):
            file = disk.parent / 'baseline'
            process.run('fallocate', '-l', '1G', str(file))
            (own / name).symlink_to(file)
            if host == SOURCE:
                fill(file)
            self._files.append(file)

    def _virsh(self, host: str, *words: str) -> str:
        return hypervisor.virsh(self._state, host, *words)

    def time_migration(self) -> float:
        """Start the guest and migrate it; returns the seconds of the latter.

        The guest and its files are gone afterwards.
        """
        disks = '\n'.join(
            DISK.format(path=self._directory / name, name=name)
            for name in self._names
        )
        with tempfile.NamedTemporaryFile('w', suffix='.xml') as stream:
            stream.write(
                XML.format(
                    ram=guest.MOVING_RAM,
                    directory=self._directory,
                    cmdline=command_line(PAUSE),
                    disks=disks,
                )
            )
            stream.flush()
            self._virsh(SOURCE, 'create', stream.name)
        process.wait(
            'guest',
            lambda: written(self._state, SOURCE, 'baseline') > 0,
            PATIENCE,
        )
        begun = time.monotonic()
        self._virsh(
            SOURCE,
            'migrate',
            '--live',
            '--copy-storage-all',
            'baseline',
            hypervisor.uri(self._state, DESTINATION),
        )
        seconds = time.monotonic() - begun
        self._virsh(DESTINATION, 'destroy', 'baseline')
        for file in self._files:
            file.unlink()
        for host in moved_server.REAL:
            directory = self._state.host_dir(host) / 'nova' / 'instances'
            process.run('rm', '-r', str(directory / 'baseline'))
        return seconds


def written(state: State, host: str, domain: str) -> int:
    """Return the bytes that a guest has written to its first vdisk."""
    text = hypervisor.virsh(state, host, 'domblkstat', domain, 'vdb')
    (line,) = (one for one in text.splitlines() if ' wr_bytes ' in one)
    return int(line.split()[-1])


def throughput(
    cloud: Cloud,
    server: moved_server.Server,
    is_valid: collections.abc.Callable[[], bool] = lambda: True,
) -> list[float]:
    """Return the MB/s that a guest writes, of each window.

    :param is_valid: whether a window counts that ends now.
    """
    found = []
    host = server.host()
    for _ in range(WINDOWS):
        begun = time.monotonic()
        before = written(cloud.state, host, server.uuid)
        time.sleep(WINDOW)
        after = written(cloud.state, host, server.uuid)
        seconds = time.monotonic() - begun
        if not is_valid():
            break
        found.append((after - before) / 1e6 / seconds)
    return found


def measure_throughput(
    cloud: Cloud, image: str, rate: int
) -> dict[str, list[float]]:
    """Return the MB/s that a guest writes in each of ``STAGES``."""
    settler = f'{moved_server.SETTLER}@{DESTINATION}'
    server = boot(cloud, image, 1)
    own = throughput(cloud, server)
    cloud.stop_service(settler)
    server.migrate_live()
    server.wait_migrated(DESTINATION)
    remote = throughput(cloud, server)
    cloud.services[settler].argv.extend(['--rate', str(rate)])
    cloud.start_service(settler)

    def copies() -> bool:
        return '<mirror' in hypervisor.virsh(
            cloud.state, DESTINATION, 'dumpxml', server.uuid
        )

    process.wait('copy', copies, PATIENCE, 0.5)
    settling = throughput(cloud, server, copies)
    server.wait_settled(DESTINATION, PATIENCE)
    delete(cloud, server)
    return dict(zip(STAGES, (own, remote, settling), strict=True))


def figures_of(stages: dict[str, list[float]]) -> _report.Figures:
    """Return the figures of throughput.

    The network limits a guest whose vdisk is remote, copied or not.
    """
    figures: _report.Figures = {}
    for name, values in stages.items():
        if not values:
            figures[f'{name}_mbps'] = None
            continue
        figures[f'{name}_mbps'] = statistics.median(values)
        figures[f'{name}_mbps_min'] = min(values)
        figures[f'{name}_mbps_max'] = max(values)
    own, remote, settling = (figures[f'{name}_mbps'] for name in STAGES)
    assert own and remote
    figures['remote_ratio'] = remote / own
    figures['settling_ratio'] = settling and settling / min(own, remote)
    return figures


def run(path: pathlib.Path, rate: int) -> _report.Figures:
    """Measure everything and return the figures."""
    kernel, initramfs = guest.build_with_user_data(
        files={'init': INIT.encode()}
    )
    figures: _report.Figures = {'rate_mib_s': float(rate)}
    rows: list[tuple[float, ...]] = []
    with Cloud(path, HOSTS) as cloud:
        images = [
            cloud.create_guest_image(
                f'writer-{pause:g}',
                kernel,
                initramfs,
                os_command_line=command_line(pause),
                **guest.DRIVE_PROPERTIES,
            )
            for pause in (PAUSE, 0)
        ]
        for count in COUNTS:
            server = boot(cloud, images[0], count)
            phases = time_move(cloud, server)
            delete(cloud, server)
            by_libvirt = Baseline(
                cloud, kernel, initramfs, count
            ).time_migration()
            for name, seconds in zip(PHASES, phases, strict=True):
                figures[f'{name}_{count}_s'] = seconds
            figures[f'total_{count}_s'] = sum(phases)
            figures[f'libvirt_{count}_s'] = by_libvirt
            rows.append((count, *phases, sum(phases), by_libvirt))
            print(*rows[-1], flush=True)
        figures |= figures_of(measure_throughput(cloud, images[1], rate))
    _report.table(
        ('VDisks', *(f'{name} s' for name in PHASES), 'Total s', 'libvirt s'),
        [
            (str(count), *(f'{seconds:.1f}' for seconds in row))
            for count, *row in rows
        ],
    )
    return figures


def main() -> int:
    # an exit takes the cloud down, a kill would not
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--rate',
        type=int,
        default=16,
        help='MiB/s at most of the copy while throughput is measured',
    )
    args = parser.parse_args()
    path = tempfile.mkdtemp(prefix='diskplacer-bench-', dir='/var/tmp')
    figures = run(pathlib.Path(path), args.rate)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'server_moves', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
