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

"""How busy disks and processors are while Hadoop runs."""

import os
import pathlib
import statistics
import threading
import time
import typing
from collections.abc import Sequence

from diskplacer_measure.sweep.measure import host_cpu

# P2's monitor looked as often (P2 §2), in seconds.
INTERVAL = 5.0


class Sample(typing.NamedTuple):
    """The utilization of the disks and of the processors, 0 to 1.

    ``disks`` is the mean of the shares of time in which each disk had
    requests.
    """

    disks: float
    processors: float


class _Counters(typing.NamedTuple):
    at: float
    disks_s: tuple[float, ...]
    jiffies: dict[str, int]


class Meter:
    """Looks at disks in the background, and keeps their files uncached.

    A server has less memory than its data: what the kernel has cached of files
    on the vdisks is dropped each second, so that all that is read comes from
    the disks.

    :param devices: block devices below /dev.
    :param mounts: where the vdisks are mounted.
    """

    def __init__(
        self, devices: Sequence[str], mounts: Sequence[pathlib.Path]
    ) -> None:
        self._stat = [
            pathlib.Path('/sys/block', os.path.basename(device), 'stat')
            for device in devices
        ]
        self._mounts = mounts
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples: list[Sample] = []

    def __enter__(self) -> 'Meter':
        self._drop_all()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def peak(self) -> float:
        """The highest utilization of the disks in five seconds."""
        return max(sample.disks for sample in self.samples)

    @property
    def disks(self) -> float:
        """The mean utilization of the disks."""
        return statistics.mean(sample.disks for sample in self.samples)

    @property
    def processors(self) -> float:
        """The mean utilization of the processors."""
        return statistics.mean(sample.processors for sample in self.samples)

    def _run(self) -> None:
        before = self._read()
        while not self._ended.wait(1.0):
            self._drop_all()
            now = self._read()
            if now.at - before.at >= INTERVAL:
                self.samples.append(_between(before, now))
                before = now

    def _read(self) -> _Counters:
        return _Counters(
            time.monotonic(),
            # milliseconds with requests
            tuple(
                int(path.read_text().split()[9]) / 1000 for path in self._stat
            ),
            host_cpu.read(),
        )

    def _drop_all(self) -> None:
        for mount in self._mounts:
            for directory, _, names in os.walk(mount):
                for name in names:
                    _drop(os.path.join(directory, name))


def _between(before: _Counters, now: _Counters) -> Sample:
    seconds = now.at - before.at
    shares = [
        min((after - earlier) / seconds, 1.0)
        for earlier, after in zip(before.disks_s, now.disks_s, strict=True)
    ]
    spent = host_cpu.spent(before.jiffies, now.jiffies)
    return Sample(statistics.mean(shares), 1 - spent['idle'] - spent['iowait'])


def _drop(path: str) -> None:
    """Drop what is clean of a file's pages."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        # Hadoop has removed it
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
