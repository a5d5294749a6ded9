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

"""Reads the I/O counters of block devices from /proc/diskstats."""

import collections.abc
import dataclasses
import functools

from nova_diskplacer.host.devices import Device

DISKSTATS = '/proc/diskstats'

# The unit of /proc/diskstats in bytes, for all devices.
_SECTOR = 512

# The kernel prints times as 32 bits of milliseconds: they begin anew then.
_PERIOD = 2**32 / 1000


@dataclasses.dataclass(frozen=True)
class Counters:
    """Counters of a device since it appeared: requests, bytes and seconds.

    ``busy_seconds`` is the time with requests in flight, ``request_seconds``
    the sum of the times of all requests from submission to completion.
    """

    reads: int = 0
    writes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    busy_seconds: float = 0.0
    request_seconds: float = 0.0

    def plus(self, done: 'Counters') -> 'Counters':
        """Return the sums of two counters."""
        both = zip(
            dataclasses.astuple(self), dataclasses.astuple(done), strict=True
        )
        return Counters(*map(sum, both))

    def since(self, before: 'Counters') -> 'Counters | None':
        """Return the increase; None if a counter fell.

        Counters only grow: a lower one belongs to a new device. Only times
        begin anew, when they reach 49 days.
        """
        now, then = dataclasses.astuple(self), dataclasses.astuple(before)
        *counts, busy, waited = (a - b for a, b in zip(now, then, strict=True))
        times = [_unwrapped(busy), _unwrapped(waited)]
        if min(*counts, *times) < 0:
            return None
        return Counters(*counts, *times)


def read(
    keys: collections.abc.Container[str], path: str = DISKSTATS
) -> dict[str, Counters]:
    """Return the counters of devices; a missing device is left out.

    :param wanted: the devices, as ``major:minor`` or names.
    :raises OSError: the file cannot be read.
    """
    counters = {}
    with open(path, encoding='ascii', errors='replace') as stream:
        for line in stream:
            major, minor, name, *fields = line.split()
            for key in (f'{major}:{minor}', name):
                if key in keys:
                    counters[key] = _parse(fields)
    return counters


def read_disks(
    devices: collections.abc.Iterable[Device], path: str = DISKSTATS
) -> dict[str, Counters]:
    """Return the counters of disks by ``major:minor``, as :func:`read`.

    Those of an NVMe disk with native multipath are the sums of its paths:
    before Linux 6.4 the kernel counts nothing for the head.
    """
    keys = {
        device.number: device.paths or (device.number,) for device in devices
    }
    counted = read({key for paths in keys.values() for key in paths}, path)
    counters = {}
    for number, paths in keys.items():
        present = [counted[key] for key in paths if key in counted]
        if present:
            counters[number] = functools.reduce(Counters.plus, present)
    return counters


def _unwrapped(seconds: float) -> float:
    """Return the increase of a time that may have begun anew."""
    # intervals are short: it falls by nearly a period, or is another device's
    return seconds + _PERIOD if seconds < -_PERIOD / 2 else seconds


def _parse(fields: list[str]) -> Counters:
    # Documentation/admin-guide/iostats.rst of Linux
    reads, _, read_sectors, read_ms = map(int, fields[:4])
    writes, _, write_sectors, write_ms = map(int, fields[4:8])
    return Counters(
        reads=reads,
        writes=writes,
        read_bytes=read_sectors * _SECTOR,
        write_bytes=write_sectors * _SECTOR,
        busy_seconds=int(fields[9]) / 1000,
        request_seconds=(read_ms + write_ms) / 1000,
    )
