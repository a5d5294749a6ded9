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
"""Measures a disk with fio, in temporary space on it."""

import collections.abc
import contextlib
import dataclasses
import json
import os
import subprocess  # noqa: S404
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import commands
from nova_diskplacer.host import files as host_files

#: unmeasured seconds of a load: caches and limits admit more at first.
RAMP_SECONDS = 2

_BLOCK = 4096

#: What precedes a command that the kernel kills when its parent ends.
KILLED_WITH_PARENT = ('setpriv', '--pdeathsig', 'KILL')


@dataclasses.dataclass(frozen=True)
class Load:
    """A load; ``rw`` and ``block`` (bytes) are fio's options.

    ``depth`` requests are in flight for each of ``jobs`` threads. ``unit`` is
    that of the reported figure, MB/s or IOPS.
    """

    title: str
    rw: str
    block: int
    depth: int
    unit: str
    jobs: int = 1


@dataclasses.dataclass(frozen=True)
class Result:
    """Bytes and requests per second."""

    bps: float
    iops: float


_FILL = Load('filling', 'write', 1 << 20, 16, 'MB/s')


def loads_for(medium: str) -> dict[str, Load]:
    """Return the loads that measure a medium, by the measured figure.

    Reads come first: an SSD is slower while it cleans up after writes.
    """
    # More than a medium serves at once, but not so many that a hard disk
    # avoids seeks by sorting.
    deep, jobs = (32, 1) if medium == flavor.HDD else (64, 4)
    loads = {'latency': Load('single reads', 'randread', _BLOCK, 1, 'IOPS')}
    for letter, way in (('r', 'read'), ('w', 'write')):
        loads |= {
            f'{letter}bps': Load(
                f'long sequential {way}s', way, 1 << 20, 16, 'MB/s'
            ),
            f'{letter}seqiops': Load(
                f'sequential {way}s', way, _BLOCK, deep, 'IOPS'
            ),
            f'{letter}randiops': Load(
                f'random {way}s', 'rand' + way, _BLOCK, deep, 'IOPS', jobs
            ),
        }
    return loads


@dataclasses.dataclass
class Fio:
    """Runs fio on a file or device that it may write to.

    fio is killed when the calling process ends. Methods raise DiskError if fio
    cannot be run, or fails.

    It uses the first ``size_bytes`` of ``path``. ``cgroup`` is the directory
    of its cgroup, '' for the caller's.
    """

    path: str
    size_bytes: int
    cgroup: str = ''

    def fill(self) -> None:
        """Write all bytes, so that later reads reach the disk."""
        self._run(_FILL)

    def measure(self, load: Load, seconds: int) -> Result:
        """Return the throughput of a load."""
        return self._run(
            load,
            '--time_based',
            f'--ramp_time={min(RAMP_SECONDS, seconds)}',
            f'--runtime={seconds}',
        )

    def flush(self) -> None:
        """Return when the disk has written what is in its cache.

        A change of its I/O scheduler would wait for that.
        """
        with open(self.path, 'rb') as stream:
            os.fsync(stream.fileno())

    def _run(self, load: Load, *options: str) -> Result:
        command = (
            # --thread: forked processes would outlive fio
            *KILLED_WITH_PARENT, 'fio', '--thread',
            '--name=measure', f'--filename={self.path}',
            f'--size={self.size_bytes}', '--direct=1', '--ioengine=libaio',
            '--randrepeat=0', '--norandommap', '--group_reporting',
            f'--rw={load.rw}', f'--bs={load.block}',
            f'--iodepth={load.depth}', f'--numjobs={load.jobs}',
            # fio's own calibration of the CPU clock errs by some per cent
            '--clocksource=clock_gettime', '--output-format=json', *options,
        )  # fmt: skip
        done = run(command, self.cgroup)
        if done.returncode:
            raise exception.DiskError(
                f'fio ended with {done.returncode}: '
                + ' '.join((done.stderr or done.stdout).split())
            )
        return parse(done.stdout, load.rw)


def run(
    command: collections.abc.Sequence[str], cgroup: str, text: str = ''
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, or this process does.

    :param cgroup: the directory of its cgroup, '' for the caller's.
    :param text: what it reads, once it is in the cgroup.
    :raises DiskError: it cannot be run.
    """
    try:
        # Ctrl-C must only reach the caller, which kills it
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors='replace',
            start_new_session=True,
        )
    except OSError as error:
        raise exception.DiskError(f'{command[0]}: {error}') from error
    with process:
        try:
            _join_cgroup(process.pid, cgroup)
            out, error_output = process.communicate(text)
        finally:
            process.kill()
    return subprocess.CompletedProcess(
        command, process.returncode, out, error_output
    )


def _join_cgroup(pid: int, cgroup: str) -> None:
    if cgroup:
        path = os.path.join(cgroup, 'cgroup.procs')
        # it may have ended already
        with (
            contextlib.suppress(ProcessLookupError),
            open(path, 'w', encoding='ascii') as stream,
        ):
            stream.write(str(pid))


def parse(text: str, rw: str) -> Result:
    """Return the throughput of reads or writes in the JSON output of fio.

    :raises DiskError: the output lacks it, or it is 0.
    """
    way = rw.removeprefix('rand')
    with commands.report_errors('fio', text):
        # fio may print notes before the JSON
        job: dict[str, Any] = json.loads(text[text.index('{') :])['jobs'][0]
        result = Result(float(job[way]['bw_bytes']), float(job[way]['iops']))
    if result.iops <= 0:
        raise exception.DiskError(
            f'the disk completed no {way} in time: increase --seconds'
        )
    return result


@contextlib.contextmanager
def temporary_space(
    disk_root: str, uuid: str, size_bytes: int
) -> collections.abc.Iterator[str]:
    """Allocate space on a disk; yields the path of a file or device.

    The file has no name, so it vanishes with its process. The logical volume
    is marked as deleted from the beginning; the next call removes the one of a
    killed process.

    :raises DiskError: the disk is missing, lacks the space, or refuses.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        volumes.remove_temporary(uuid)
        try:
            yield volumes.create_temporary(uuid, size_bytes)
        finally:
            volumes.remove_temporary(uuid)
        return
    path = discover.require_mounted(disk_root, uuid)
    with contextlib.ExitStack() as stack:
        with host_files.disk_errors(path):
            directory = stack.enter_context(
                host_files.opened(path, os.O_DIRECTORY)
            )
            file = stack.enter_context(files.open_tmpfile(directory, 0o600))
            stack.callback(files.truncate_unlinked, file)
            files.allocate(file, size_bytes)
        yield f'/proc/{os.getpid()}/fd/{file}'
