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
"""Loads a disk with fio, as the figures of its model are defined."""

import contextlib
import dataclasses
import json
import os
import subprocess  # noqa: S404
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer import flavor

# Seconds of a load that are not measured: caches and limits let more through
# at first.
_RAMP = 2

_BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Load:
    """What is done: ``rw`` and ``block`` are fio's.

    ``depth`` requests are in flight for each of ``jobs`` threads. Its
    ``unit`` is what of it counts, bytes or requests per second.
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


def loads(medium: str) -> dict[str, Load]:
    """Return the loads that measure a medium, by what each tells.

    Reads come first: an SSD is slower while it cleans up after writes.
    """
    # more in flight than a medium serves at once, but not so many that a
    # hard disk sorts away its seeks
    deep, jobs = (32, 1) if medium == flavor.HDD else (64, 4)
    found = {'latency': Load('single reads', 'randread', _BLOCK, 1, 'IOPS')}
    for letter, way in (('r', 'read'), ('w', 'write')):
        found |= {
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
    return found


class Fio:
    """Runs fio on a file or device that it may write to.

    It ends with the process that runs it, however that ends.

    :param path: the file or device; of which the first ``size_bytes`` are
        used.
    :param cgroup: directory of the cgroup that it runs in, '' for the
        caller's.
    """

    def __init__(self, path: str, size_bytes: int, cgroup: str = '') -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._cgroup = cgroup

    def fill(self) -> None:
        """Write all of it, so that what is read comes from the disk.

        :raises DiskError: fio cannot be run, or fails; says why.
        """
        self._run(_FILL)

    def measure(self, load: Load, seconds: int) -> Result:
        """Return what a load gets.

        :raises DiskError: fio cannot be run, or fails; says why.
        """
        return self._run(
            load,
            '--time_based',
            f'--ramp_time={min(_RAMP, seconds)}',
            f'--runtime={seconds}',
        )

    def _run(self, load: Load, *options: str) -> Result:
        command = (
            # threads, not processes, which would stay
            'setpriv', '--pdeathsig', 'KILL', 'fio', '--thread',
            '--name=measure', f'--filename={self._path}',
            f'--size={self._size_bytes}', '--direct=1', '--ioengine=libaio',
            '--randrepeat=0', '--norandommap', '--group_reporting',
            f'--rw={load.rw}', f'--bs={load.block}',
            f'--iodepth={load.depth}', f'--numjobs={load.jobs}',
            # it is wrong itself by some per cent of how fast a CPU counts
            '--clocksource=clock_gettime', '--output-format=json', *options,
        )  # fmt: skip
        try:
            # a session of its own: Ctrl-C is for the caller, who ends it
            fio = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise exception.DiskError(f'{command[0]}: {error}') from error
        with fio:
            try:
                self._join(fio.pid)
                out, complaint = fio.communicate()
            finally:
                fio.kill()
        if fio.returncode:
            raise exception.DiskError(
                f'fio ended with {fio.returncode}: '
                + ' '.join((complaint or out).split())
            )
        return parse(out, load.rw)

    def _join(self, pid: int) -> None:
        if self._cgroup:
            path = os.path.join(self._cgroup, 'cgroup.procs')
            # it may be over already, if it cannot be run at all
            with (
                contextlib.suppress(ProcessLookupError),
                open(path, 'w', encoding='ascii') as stream,
            ):
                stream.write(str(pid))


def parse(text: str, rw: str) -> Result:
    """Return what fio says, in JSON, of reads or writes.

    :raises DiskError: it says nothing of them.
    """
    way = rw.removeprefix('rand')
    try:
        # before it there may be notes
        job: dict[str, Any] = json.loads(text[text.index('{') :])['jobs'][0]
        result = Result(float(job[way]['bw_bytes']), float(job[way]['iops']))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise exception.DiskError(
            f'fio does not say what it measured: {error!r}'
        ) from error
    if result.iops <= 0:
        raise exception.DiskError(
            f'the disk did no {way} in the time given: --seconds takes more'
        )
    return result
