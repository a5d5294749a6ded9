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

"""The servers of elastic, in the testbed's guest, and what they read.

A server is fio in a cgroup as libvirt makes it for a domain.
"""

import collections
import collections.abc
import contextlib
import glob
import math
import pathlib
import signal
import subprocess
import time

import numpy

import _elastic_figures as figures
import _striping_layouts as layouts
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import libvirt_servers

# Where libvirt has the cgroups of servers.
MACHINES = pathlib.Path('/sys/fs/cgroup/machine')
# Requests in flight of a stream: a row of the vdisk's chunks.
DEPTH = layouts.DISKS * naming.CHUNK_BYTES // layouts.BLOCK
# Shares by which rates of streams differ, so that these do not fall in step.
APART = 0.05
# Domains of libvirt: the server, and its neighbour.
DOMAINS = {'server': 1, 'neighbour': 2}


def seconds_of(
    requests: collections.abc.Iterable[tuple[float, float]], origin: float
) -> list[tuple[int, dict[int, int]]]:
    """Return how many requests of each bin ended in each second.

    :param requests: their ends in milliseconds since the epoch, and latencies
        in nanoseconds.
    :param origin: seconds since the epoch.
    """
    found: dict[int, collections.Counter[int]] = {}
    for end, latency in requests:
        second = math.floor(end / 1000 - origin)
        bins = found.setdefault(second, collections.Counter())
        bins[figures.bin_of(latency / 1e6)] += 1
    return [(second, dict(bins)) for second, bins in sorted(found.items())]


class Load:
    """fio in the cgroup of a server, which logs every request.

    :param directory: where the logs are.
    """

    def __init__(
        self, directory: pathlib.Path, domain: str, *argv: str
    ) -> None:
        self.begin = time.time()
        number = DOMAINS[domain]
        self._log = str(directory / f'{domain}-{self.begin}')
        cgroup = MACHINES / f'qemu-{number}-{domain}.libvirt-qemu'
        self._process = subprocess.Popen(
            [
                'sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"',
                str(cgroup), 'fio', f'--write_lat_log={self._log}',
                '--log_unix_epoch=1', '--disable_slat=1', '--disable_clat=1',
                '--output=/dev/null', *argv,
            ]
        )  # fmt: skip

    def wait(self) -> None:
        """Wait for its end.

        :raises RuntimeError: it has failed.
        """
        if self._process.wait():
            raise RuntimeError(f'fio: exit {self._process.returncode}')

    def stop(self) -> None:
        """End it before its time."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def seconds(self, origin: float) -> list[tuple[int, dict[int, int]]]:
        """Return its requests as :func:`seconds_of`."""
        paths = glob.glob(f'{self._log}_lat.*.log')
        if not paths:
            raise RuntimeError(f'fio has left no log {self._log}')
        requests = numpy.concatenate(
            [
                numpy.loadtxt(path, delimiter=',', usecols=(0, 1), ndmin=2)
                for path in paths
            ]
        )
        if not len(requests):
            raise RuntimeError(f'fio has logged no request: {self._log}')
        return seconds_of(requests.tolist(), origin)


def streams(
    device: str, size: int, count: int, seconds: int, rate: int = 0
) -> list[str]:
    """Return fio's arguments for the streams of the server.

    :param rate: bytes per second of all streams, 0 for as much as they get.
    """
    rates = [
        round(rate / count * (1 + APART * (number - (count - 1) / 2)))
        for number in range(count if rate else 0)
    ]
    some = layouts.streams([device], size, count)
    return [*layouts.fio(some, seconds, DEPTH, rates)[1:]]


def steady(device: str, rate: int) -> list[str]:
    """Return fio's arguments for the neighbour, until it is ended.

    :param rate: bytes per second.
    """
    return [
        '--name=neighbour', f'--filename={device}', '--readonly', '--thread',
        '--direct=1', '--ioengine=libaio', f'--iodepth={DEPTH}',
        f'--bs={layouts.BLOCK}', '--rw=randread', '--time_based',
        '--runtime=100000', f'--rate={rate}',
        '--rate_process=poisson', '--clocksource=clock_gettime',
    ]  # fmt: skip


@contextlib.contextmanager
def cgroups() -> collections.abc.Iterator[None]:
    """Have cgroups as libvirt makes them for domains."""
    (MACHINES.parent / 'cgroup.subtree_control').write_text('+io')
    MACHINES.mkdir(exist_ok=True)
    (MACHINES / 'cgroup.subtree_control').write_text('+io')
    made = [
        MACHINES / f'qemu-{number}-{domain}.libvirt-qemu'
        for domain, number in DOMAINS.items()
    ]
    for path in made:
        path.mkdir()
    try:
        yield
    finally:
        for path in made:
            path.rmdir()


def server(domain: str, device: str) -> libvirt_servers.Server:
    """Return a server with a vdisk, as libvirt would describe it."""
    return libvirt_servers.Server(
        uuid=domain,
        name=domain,
        extra_specs={},
        vdisks=(device,),
        caches={},
        running=True,
        pinned_by_nova=False,
        xml='',
        domain_id=DOMAINS[domain],
    )
