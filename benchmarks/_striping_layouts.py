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

"""The layouts and the streams of striping, in the testbed's guest."""

import collections.abc
import concurrent.futures
import contextlib
import time
import typing
import uuid

from nova_diskplacer.guest import stripe
from tools import testbed

# As mdadm has it, which guest-config leaves it to: the host's stripes differ
# in nothing but who makes them.
CHUNK = 512 << 10
DISKS = 4
# What a stream has in flight: a row of chunks, so that one stream can have all
# disks work.
ROW = DISKS * CHUNK
BLOCK = 128 << 10
DEPTH = ROW // BLOCK
SECTOR = 512
# Seconds until a throttle's burst has passed and all streams have begun.
RAMP_S = 3
# What is ended by a signal does not end before, even on a busy machine.
ENDLESS_S = 600
# Linux' own for a disk of SATA.
SCHEDULER = 'mq-deadline'
PROCESSORS = (
    'head -n 1 /proc/stat; "$@"; rc=$?; head -n 1 /proc/stat; exit $rc'
)
ARRAY = str(uuid.uuid5(uuid.NAMESPACE_OID, 'striping'))


class Layout(typing.NamedTuple):
    """The number of disks of a layout, and the devices over them.

    ``driver`` is ``dm`` or ``md``, or empty: each disk is a vdisk then.
    """

    driver: str
    disks: int


LAYOUTS = {
    'round_robin': Layout('', DISKS),
    'striped': Layout('dm', DISKS),
    'md': Layout('md', DISKS),
    'elastic_1': Layout('dm', 1),
    'elastic_2': Layout('dm', 2),
    'elastic_4': Layout('dm', 4),
}


class Stream(typing.NamedTuple):
    """A stream reads a device from an offset on, in bytes."""

    device: str
    offset: int
    size: int


def streams(
    devices: collections.abc.Sequence[str], size: int, count: int
) -> list[Stream]:
    """Return streams, spread over devices of a size and over their space.

    Those of a device have equal parts of it. Each begins a chunk further into
    its part than the one before, so that not all begin on the same disk.
    """
    found = []
    for number in range(count):
        place, device = divmod(number, len(devices))
        share = size // len(range(device, count, len(devices)))
        share -= share % ROW
        shift = place % DISKS * CHUNK
        found.append(
            Stream(devices[device], place * share + shift, share - ROW)
        )
    return found


def fio(
    some: collections.abc.Iterable[Stream],
    seconds: int,
    depth: int = DEPTH,
    rates: collections.abc.Sequence[int] = (),
) -> tuple[str, ...]:
    """Return the command that reads streams at the same time.

    :param depth: requests of a stream in flight.
    :param rates: bytes per second of each stream, or each gets what it can.
    """
    return (
        'fio', '--readonly', '--thread', '--direct=1', '--ioengine=libaio',
        f'--iodepth={depth}', f'--bs={BLOCK}', '--rw=read', '--time_based',
        f'--ramp_time={RAMP_S}', f'--runtime={seconds}',
        # by its own clock fio is wrong by some per cent in the guest
        '--clocksource=clock_gettime', '--output-format=json+',
        *(
            argument
            for number, one in enumerate(some)
            for argument in (
                f'--name=stream{number}', f'--filename={one.device}',
                f'--offset={one.offset}', f'--size={one.size}',
                *(f'--rate={rate}' for rate in rates[number : number + 1]),
            )
        ),
    )  # fmt: skip


def stripe_table(members: collections.abc.Sequence[str], size: int) -> str:
    """Return the table of a dm stripe over devices of a size in bytes."""
    rows = size // CHUNK
    parts = ' '.join(f'{member} 0' for member in members)
    return (
        f'0 {rows * CHUNK * len(members) // SECTOR} striped {len(members)} '
        f'{CHUNK // SECTOR} {parts}'
    )


class Host:
    """The disks of a guest, each behind a device that can die."""

    def __init__(self, bed: testbed.Testbed) -> None:
        self._bed = bed
        self._disks = [bed.device(index) for index in range(DISKS)]
        self._size = min(self._bytes(disk) for disk in self._disks)
        self._members = []
        for number, disk in enumerate(self._disks):
            self._sysfs(f'echo {SCHEDULER} >', disk, 'queue/scheduler')
            self._members.append(
                self._create(f'disk{number}', self._linear(number))
            )

    def _bytes(self, device: str) -> int:
        return int(self._bed.run('blockdev', '--getsize64', device).out)

    def _sysfs(self, command: str, device: str, attribute: str) -> str:
        """Return what a command of the shell does to a file of a device."""
        path = f'/sys/block/$(basename $(realpath {device}))/{attribute}'
        return self._bed.run('sh', '-c', f'{command} "{path}"').out

    def _linear(self, number: int) -> str:
        return f'0 {self._size // SECTOR} linear {self._disks[number]} 0'

    def _create(self, name: str, table: str) -> str:
        self._bed.run('dmsetup', 'create', name, '--table', table)
        return f'/dev/mapper/{name}'

    def _replace(self, number: int, table: str) -> None:
        name = f'disk{number}'
        self._bed.run('dmsetup', 'reload', name, '--table', table)
        self._bed.run('dmsetup', 'resume', name)

    @contextlib.contextmanager
    def layout(self, name: str) -> collections.abc.Iterator[list[str]]:
        """Make the devices that servers see in a layout, and remove them."""
        driver, count = LAYOUTS[name]
        members = self._members[:count]
        if not driver:
            yield members
            return
        make = {'dm': self._stripe, 'md': self._array}[driver]
        with make(members) as device:
            # nothing reads it but the streams
            self._bed.run('udevadm', 'settle')
            yield [device]

    @contextlib.contextmanager
    def _stripe(self, members: list[str]) -> collections.abc.Iterator[str]:
        device = self._create('stripe', stripe_table(members, self._size))
        try:
            yield device
        finally:
            self._bed.run('dmsetup', 'remove', '--retry', 'stripe')

    @contextlib.contextmanager
    def _array(self, members: list[str]) -> collections.abc.Iterator[str]:
        self._bed.run(*stripe.create_command(ARRAY, members))
        self._bed.run('udevadm', 'settle')
        chunk = int(self._sysfs('cat', stripe.LINK, 'md/chunk_size'))
        if chunk != CHUNK:
            raise RuntimeError(f'mdadm made chunks of {chunk}, not {CHUNK}')
        try:
            yield stripe.LINK
        finally:
            self._bed.run('mdadm', '--stop', stripe.LINK)
            self._bed.run('mdadm', '--zero-superblock', *members)

    def read(
        self, devices: list[str], count: int, seconds: int, check: bool = True
    ) -> str:
        """Return what fio prints of streams, between lines of processors.

        :param check: whether none may fail.
        """
        some = streams(devices, self._bytes(devices[0]), count)
        return self._bed.run(
            'sh', '-c', PROCESSORS, 'striping', *fio(some, seconds),
            check=check, timeout=seconds + 600,
        ).out  # fmt: skip

    def read_with_death(
        self, devices: list[str], count: int, seconds: int, disk: int
    ) -> str:
        """Return what fio prints of streams while a disk dies.

        They read for so many seconds before, and for as many after it, but
        for those that fail. The disk lives again afterwards.
        """
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            printed = pool.submit(self.read, devices, count, ENDLESS_S, False)
            try:
                time.sleep(seconds)
                self._replace(disk, f'0 {self._size // SECTOR} error')
                concurrent.futures.wait([printed], seconds)
            finally:
                self._bed.run('pkill', '--exact', 'fio', check=False)
                found = printed.result()
                self._replace(disk, self._linear(disk))
        return found
