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

"""The disks of contention and project_shares, and the options for them."""

import argparse
import collections.abc
import contextlib
import sys
import typing

import _in_guest
from nova_diskplacer.io_weights import turns
from tools.seeking_disk import model
from tools.testbed import Disk
from tools.testbed import Testbed

GUEST = '_contention_guest.py'
SCHEDULERS = {'bfq': 'bfq', 'io_cost': 'mq-deadline'}
# The agent refuses io.cost on hard disks: it takes those of io_cost for solid
# state disks, which a throttled disk stands for, too. On the disk that seeks
# this shows why it refuses.
MEDIA = {'bfq': 'hdd', 'io_cost': 'ssd'}
MIB = 1 << 20
PAGE = 1 << 12
MB = 10**6

# P4, Table II and section V-A.
PAPER_MBPS = 166.0
SCALE_MB = 128
DEFAULT_SCALE_MB = 15
BLOCK = 128 << 10
# What a server reads that is light and steady.
STEADY_MBPS = 3.0


def scaled(sizes_mb: typing.Iterable[float], mbps: float) -> list[int]:
    """Return sizes in bytes, whole MiB, as much smaller as the disk is."""
    return [
        max(1, round(size * MB * mbps / PAPER_MBPS / MIB)) * MIB
        for size in sizes_mb
    ]


def scaled_block(mbps: float) -> int:
    """Return the bytes of a request, as much smaller as the disk is slower.

    They are whole pages. A request then takes as long as one of 128 KiB does
    on the paper's disk.
    """
    return min(BLOCK, max(1, round(BLOCK * mbps / PAPER_MBPS / PAGE)) * PAGE)


def scaled_rate(mbps: float) -> int:
    """Return the bytes per second of a steady server."""
    return round(STEADY_MBPS * MB * mbps / PAPER_MBPS)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Disks:
    """Prepared disks in a guest, one for each controller.

    :param args: those of :func:`add_arguments`.
    :param sizes_mb: of the files on each, for the paper's disk.
    """

    def __init__(
        self, args: argparse.Namespace, sizes_mb: typing.Iterable[float]
    ) -> None:
        self._args = args
        self.names: list[str] = args.controller or sorted(SCHEDULERS)
        if args.disk == 'seeking':
            self.mbps = model.HardDisk(1).bytes_per_s / MB
        else:
            self.mbps = args.scale_mb * PAPER_MBPS / SCALE_MB
        self.sizes = scaled(sizes_mb, self.mbps)
        self.devices: dict[str, str] = {}
        self._uuids: dict[str, str] = {}

    @contextlib.contextmanager
    def prepared(self) -> collections.abc.Iterator[Testbed]:
        """Yield the guest, in which the files are written."""
        disks = [self._disk() for _ in self.names]
        with Testbed(disks, memory_mib=4096) as bed:
            self.devices = {
                name: bed.device(index)
                for index, name in enumerate(self.names)
            }
            self._throttle(bed, None)
            progress('laying out the files')
            self._uuids = _in_guest.run(
                bed,
                GUEST,
                'prepare',
                schedulers=self._by_device(SCHEDULERS),
                mbps=round(self.mbps),
                scale_mb=round(SCALE_MB * self.mbps / PAPER_MBPS),
                prefer=self._args.prefer,
                sizes=self.sizes,
                media=self._by_device(MEDIA),
            )
            self._throttle(bed, self.mbps)
            if 'io_cost' in self.names:
                _in_guest.run(
                    bed,
                    GUEST,
                    'measure',
                    uuids=[self._uuids[self.devices['io_cost']]],
                    seconds=5,
                    # seeks as long as those of the tasks
                    mib=4096 if self._args.disk == 'seeking' else 1024,
                )
            yield bed

    def name_of(self, device: str) -> str:
        """Return the controller of a device."""
        return next(
            name for name, one in self.devices.items() if one == device
        )

    def at_once(self) -> list[list[str]]:
        """Return the controllers in groups that are measured at once.

        Disks that take the machine's processors are measured one by one.
        """
        if self._args.disk == 'throttled':
            return [self.names]
        return [[name] for name in self.names]

    def settings(self, names: typing.Iterable[str]) -> dict[str, typing.Any]:
        """Return what the guest's script needs of the disks of controllers."""
        return {
            'uuids': {
                self.devices[name]: self._uuids[self.devices[name]]
                for name in names
            },
            'block': self._args.block or str(scaled_block(self.mbps)),
            'depth': self._args.depth,
            'rate': scaled_rate(self.mbps),
            'steady_block': scaled_block(self.mbps),
        }

    def _by_device(self, values: dict[str, str]) -> dict[str, str]:
        return {self.devices[name]: values[name] for name in self.names}

    def _disk(self) -> Disk:
        if self._args.disk == 'seeking':
            return Disk(gib=20, kind='hdd', cache_mib=64)
        return Disk(gib=8, mbps=self.mbps)

    def _throttle(self, bed: Testbed, mbps: float | None) -> None:
        if self._args.disk == 'throttled':
            for index in range(len(self.names)):
                bed.throttle(index, mbps=mbps)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that a benchmark of shared disks has."""
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--controller',
        action='append',
        choices=sorted(SCHEDULERS),
        help='only this one; may be repeated',
    )
    parser.add_argument(
        '--disk',
        choices=('throttled', 'seeking'),
        default='throttled',
        help='what the disk is (default: %(default)s)',
    )
    parser.add_argument(
        '--prefer',
        choices=sorted(turns.ALLOWED),
        default=turns.BALANCED,
        help='[diskplacer_weights] prefer (default: %(default)s)',
    )
    parser.add_argument(
        '--scale-mb',
        type=int,
        default=DEFAULT_SCALE_MB,
        help="the agent's scale_mb, which the speed of throttled disks and "
        f'all sizes follow from; {SCALE_MB} is a disk as fast as in the paper '
        f'(default: {DEFAULT_SCALE_MB})',
    )
    parser.add_argument(
        '--block',
        help="size of each of fio's requests (default: 128 KiB; on a "
        "throttled disk as much less as it is slower than the paper's)",
    )
    parser.add_argument(
        '--depth',
        type=int,
        default=4,
        help='how many a task has in flight (default: %(default)s)',
    )
