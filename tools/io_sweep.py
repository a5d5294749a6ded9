#!/usr/bin/env python3
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

"""Sequential I/O on one disk, under each I/O scheduler that its kernel has.

fio reads and writes files in a directory of its own below DIRECTORY, which is
removed afterwards; nothing else is written. Only that a disk's scheduler is
changed meanwhile, and restored, needs root. The disk should have nothing else
to do. Needs Python and fio alone, and is a single file, so that it can be
copied to a host, or into a server to see what a flavor gives. Prints JSON,
which ``benchmarks/profile_effect.py`` explains.

The loads are those of P0, "On the Impact of Virtualization on the I/O
Performance of Analytic Workloads", section IV-B: a fixed amount of data,
divided among 1 to 16 threads with a file each, read or written in sequence
with blocking calls (direct, or through the page cache) or asynchronously, 256
requests deep. Writes end when all is on the disk. Repetitions visit all loads
in turn and schedulers in random order, so that what changes in the meantime
changes for all.
"""

import argparse
import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import typing

SYS = pathlib.Path('/sys')
MIB = 2**20
SCHEDULERS = ('none', 'mq-deadline', 'bfq', 'kyber')
OPERATIONS = ('read', 'write')
ENGINES = {
    'sync_direct': ('--ioengine=psync', '--direct=1'),
    'sync_cached': ('--ioengine=psync', '--direct=0', '--end_fsync=1'),
    'async': ('--ioengine=libaio', '--direct=1', '--iodepth=256'),
}


class SweepError(Exception):
    """Nothing can be measured here; says why."""


@dataclasses.dataclass(frozen=True)
class Load:
    """What fio does: one of ENGINES and of OPERATIONS, by so many threads."""

    engine: str
    operation: str
    jobs: int


class Queue:
    """The I/O scheduler of a disk.

    :param disk: its directory in sysfs.
    """

    def __init__(self, disk: pathlib.Path) -> None:
        self.disk = disk
        self._file = disk / 'queue' / 'scheduler'

    def get(self) -> str:
        """Return the scheduler that is in use."""
        listed = self._file.read_text()
        return listed.partition('[')[2].partition(']')[0] or listed.strip()

    def set(self, name: str) -> bool:
        """Use a scheduler, loading its module; False if there is none.

        :raises SweepError: schedulers may not be changed.
        """
        try:
            self._file.write_text(name)
        except PermissionError as error:
            raise SweepError(
                f'{self._file}: changing it needs root; --scheduler '
                f'{self.get()} measures the one in use'
            ) from error
        except OSError:
            return False
        return self.get() == name

    def usable(
        self, wanted: collections.abc.Sequence[str]
    ) -> collections.abc.Sequence[str]:
        """Return those of the wanted schedulers that the kernel has."""
        if list(wanted) == [self.get()]:
            return wanted
        return [name for name in wanted if self.set(name)]

    @contextlib.contextmanager
    def restored(self) -> collections.abc.Iterator[None]:
        """Have the scheduler in the end that was in use before."""
        before = self.get()
        try:
            yield
        finally:
            if self.get() != before:
                self.set(before)

    def read(self, name: str) -> int:
        """Return one of the queue's settings that is a number."""
        return int((self.disk / 'queue' / name).read_text())


def disk_of(directory: pathlib.Path, sys: pathlib.Path = SYS) -> pathlib.Path:
    """Return, in sysfs, the disk that a directory is on.

    That is the disk below partitions and logical volumes.

    :raises SweepError: there is none, or more than one.
    """
    number = directory.stat().st_dev
    link = sys / 'dev/block' / f'{os.major(number)}:{os.minor(number)}'
    found = sorted(_below(link.resolve())) if link.exists() else []
    if len(found) != 1:
        names = ', '.join(disk.name for disk in found) or 'no block device'
        raise SweepError(f'{directory} is on {names}: must be on one disk')
    return found[0]


def _below(block: pathlib.Path) -> set[pathlib.Path]:
    if (block / 'partition').exists():
        block = block.parent
    slaves = block / 'slaves'
    below = list(slaves.iterdir()) if slaves.exists() else []
    if not below:
        return {block}
    return set().union(*(_below(one.resolve()) for one in below))


def share(size: int, jobs: int, block: int) -> int:
    """Return how many bytes each of some jobs gets: whole blocks."""
    return size // jobs // block * block


def sizes(
    size: int, jobs: collections.abc.Sequence[int], block: int
) -> list[int]:
    """Return the size of each file: the largest that a load needs of it."""
    return [
        share(size, min(count for count in jobs if count > index), block)
        for index in range(max(jobs))
    ]


def command(
    load: Load, directory: pathlib.Path, size: int, block: int, seconds: float
) -> list[str]:
    """Return fio's command line for a load."""
    return [
        'fio', '--name=job', '--thread', f'--directory={directory}',
        '--filename_format=$jobnum', f'--numjobs={load.jobs}',
        f'--rw={load.operation}', f'--bs={block}',
        f'--size={share(size, load.jobs, block)}',
        f'--runtime={seconds}', '--overwrite=1', '--output-format=json',
        *ENGINES[load.engine],
    ]  # fmt: skip


def figures(printed: str, operation: str) -> tuple[float, list[float]]:
    """Return MB/s of all of fio's jobs together, and of each.

    Together is the bytes of all by the time that the last one took.

    :raises SweepError: a job failed, or did nothing.
    """
    jobs = json.loads(printed)['jobs']
    parts = [job[operation] for job in jobs]
    if any(job['error'] for job in jobs) or not all(
        part['io_bytes'] and part['runtime'] for part in parts
    ):
        raise SweepError(f'fio: a job did nothing: {printed[:2000]}')
    # bytes by ms are 1000 bytes per s
    together = sum(part['io_bytes'] for part in parts) / max(
        part['runtime'] for part in parts
    )
    return together / 1000, [
        part['io_bytes'] / part['runtime'] / 1000 for part in parts
    ]


def run(argv: collections.abc.Sequence[str]) -> str:
    """Run a command and return what it prints.

    :raises SweepError: it cannot be run, or fails.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True)
    except OSError as error:
        raise SweepError(f'{argv[0]}: {error.strerror}') from error
    if done.returncode:
        raise SweepError(f'{" ".join(argv)}: {done.stderr or done.stdout}')
    return done.stdout


def lay(
    directory: pathlib.Path,
    contents: collections.abc.Sequence[int],
    block: int,
) -> None:
    """Write the files that are read and overwritten later.

    :raises SweepError: they would take more than half of what is free.
    """
    state = os.statvfs(directory)
    free = state.f_bavail * state.f_frsize
    if 2 * sum(contents) > free:
        raise SweepError(
            f'{directory}: {sum(contents) // MIB} MiB to be written, '
            f'{free // MIB} MiB free: must be at most half of it; '
            '--mib is less'
        )
    for index, content in enumerate(contents):
        run(
            ['fio', '--name=lay', f'--filename={directory / str(index)}']
            + ['--rw=write', f'--bs={block}', f'--size={content}']
            + ['--end_fsync=1']
        )


def measure(
    args: argparse.Namespace, queue: Queue, directory: pathlib.Path
) -> tuple[collections.abc.Sequence[str], list[dict[str, typing.Any]]]:
    """Return the schedulers that there are, and what was measured of each.

    :raises SweepError: there is none, or too little to do; somebody changed
        the scheduler; fio failed.
    """
    size, block = args.mib * MIB, args.kib * 1024
    if not share(size, max(args.jobs), block):
        raise SweepError(
            f'{args.mib} MiB for {max(args.jobs)} threads: must be a request '
            f'of {args.kib} KiB for each, at least'
        )
    schedulers = queue.usable(args.scheduler)
    if not schedulers:
        raise SweepError(
            f'{queue.disk}: has none of {", ".join(args.scheduler)}'
        )
    loads = [
        Load(engine, operation, jobs)
        for engine in args.engine
        for operation in OPERATIONS
        for jobs in args.jobs
    ]
    lay(directory, sizes(size, args.jobs, block), block)
    samples = []
    for repetition in range(args.repetitions):
        begun = time.monotonic()
        for load in loads:
            order = list(schedulers)
            random.Random(f'{repetition} {load}').shuffle(order)
            for scheduler in order:
                if queue.get() != scheduler:
                    queue.set(scheduler)
                mbps, rates = figures(
                    run(command(load, directory, size, block, args.seconds)),
                    load.operation,
                )
                if queue.get() != scheduler:
                    raise SweepError(
                        f'{queue.disk}: somebody changed the scheduler from '
                        f'{scheduler} to {queue.get()} meanwhile'
                    )
                samples.append(
                    dataclasses.asdict(load)
                    | {'scheduler': scheduler, 'repetition': repetition}
                    | {'mbps': mbps, 'rates': rates}
                )
        print(
            f'repetition {repetition + 1} of {args.repetitions}: '
            f'{time.monotonic() - begun:.0f} s',
            file=sys.stderr,
            flush=True,
        )
    return schedulers, samples


def sweep(args: argparse.Namespace) -> dict[str, typing.Any]:
    """Measure what is asked for and return it, with what it was done on."""
    queue = Queue(disk_of(args.directory))
    with (
        queue.restored(),
        tempfile.TemporaryDirectory(
            prefix='io-sweep-', dir=args.directory
        ) as name,
    ):
        schedulers, samples = measure(args, queue, pathlib.Path(name))
    return {
        'kernel': os.uname().release,
        'disk': queue.disk.name,
        'medium': 'hdd' if queue.read('rotational') else 'ssd',
        'read_ahead_kb': queue.read('read_ahead_kb'),
        'mib': args.mib,
        'kib': args.kib,
        'schedulers': list(schedulers),
        'samples': samples,
    }


def number(least: int, step: int = 1) -> typing.Callable[[str], int]:
    """Return a parser of numbers for argparse."""

    def parse(text: str) -> int:
        if text.isdecimal() and int(text) >= least and not int(text) % step:
            return int(text)
        multiple = f' multiple of {step}' if step > 1 else ' whole number'
        raise argparse.ArgumentTypeError(
            f'{text}: must be a{multiple}, {least} or more'
        )

    return parse


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('directory', type=pathlib.Path)
    parser.add_argument(
        '--repetitions', type=number(2), default=10, metavar='N'
    )
    parser.add_argument(
        '--jobs', type=number(1), nargs='+', default=[1, 2, 4, 8, 16],
        metavar='N', help='threads at a time',
    )  # fmt: skip
    parser.add_argument(
        '--engine', choices=ENGINES, nargs='+', default=list(ENGINES)
    )
    parser.add_argument(
        '--scheduler', choices=SCHEDULERS, nargs='+', default=SCHEDULERS,
        help='those of them that the kernel has are measured',
    )  # fmt: skip
    parser.add_argument(
        '--mib', type=number(1), default=4096, metavar='N',
        help='MiB that all threads together read or write',
    )  # fmt: skip
    parser.add_argument(
        '--kib', type=number(4, 4), default=4, metavar='N',
        help='KiB of a request',
    )  # fmt: skip
    parser.add_argument(
        '--seconds', type=number(1), default=60, metavar='N',
        help='what a load may take; it ends there',
    )  # fmt: skip
    return parser.parse_args()


def main() -> int:
    # an exit restores and removes, a kill would not
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        found = sweep(parsed())
    except (SweepError, OSError) as error:
        print(f'io_sweep: {error}', file=sys.stderr)
        return 1
    json.dump(found, sys.stdout)
    print()
    return 0


if __name__ == '__main__':
    sys.exit(main())
