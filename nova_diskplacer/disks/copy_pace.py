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

"""The rate at which legs are copied, and how the kernel keeps it.

The kernel copies for a part of the time, and counts the time in which a copy
waits for the disk. So the rate that a part gives depends on the load: it is
measured, and the part adapted.
"""

import collections.abc
from typing import Protocol

from nova_diskplacer import constants

MB = 10**6

#: bytes that the kernel copies at once, at most
COPY_BYTES = 512 << 10

# Seconds of a seek and half a turn of a disk with 7200 revolutions per minute,
# see tools/seeking_disk.
_SEEK_S = 0.0124

# Seconds over which the rate is measured.
_SPAN_S = 5.0

# Most that the part changes by at once. It shrinks fast: where the load has
# gone, the kernel copies much more in the same part.
_GROWTH = 1.25
_SHRINKAGE = 0.5


class Disk(Protocol):
    """A disk of a medium, with a throughput in MB/s."""

    @property
    def medium(self) -> str: ...

    @property
    def mbps(self) -> float: ...


def copy_mbps(share: float, medium: str, mbps: float) -> float:
    """Return the rate of a copy that takes a share of a disk's time, in MB/s.

    A hard disk seeks to what is copied, and back to what servers use.

    :param mbps: the disk's throughput.
    """
    seeks = 2 * _SEEK_S if medium == constants.HDD else 0.0
    return share * COPY_BYTES / MB / (COPY_BYTES / (mbps * MB) + seeks)


def step_mbps(share: float, disks: collections.abc.Iterable[Disk]) -> float:
    """Return the rate of a copy between disks, which the slower one bounds.

    A disk without a known throughput, such as a missing one, counts as 1 MB/s.
    """
    return min(
        copy_mbps(share, disk.medium, max(disk.mbps, 1)) for disk in disks
    )


def percent_of(mbps: float, disks: collections.abc.Iterable[Disk]) -> int:
    """Return the percent of the time that a copy of a rate takes, 1 to 100.

    It is the inverse of :func:`step_mbps`.
    """
    return max(1, min(100, round(100 * mbps / step_mbps(1, disks))))


class Pace:
    """Adapts the part of the time for which the kernel copies to a rate.

    :param percent: the part at the begin, 1 to 100.
    :param mbps: the rate.
    """

    def __init__(self, percent: int, mbps: float) -> None:
        self._part = float(percent)
        self._wanted = self._rate = mbps * MB
        self._last: tuple[int, float] | None = None

    @property
    def percent(self) -> int:
        """The part now, in whole per cent."""
        return round(self._part)

    def after(self, done: int, now: float) -> int:
        """Return the part from now on, in whole per cent.

        :param done: bytes copied in all.
        :param now: the time in seconds.
        """
        last, self._last = self._last, (done, now)
        if last is not None and now > last[1]:
            seconds = now - last[1]
            rate = max(0, done - last[0]) / seconds
            self._rate += min(1.0, seconds / _SPAN_S) * (rate - self._rate)
            change = self._wanted / max(self._rate, 1.0)
            change = max(_SHRINKAGE, min(_GROWTH, change))
            self._part = max(1.0, min(100.0, self._part * change))
        return self.percent
