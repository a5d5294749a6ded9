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

"""What block devices have done since they appeared, from /proc/diskstats."""

import collections.abc
import dataclasses

DISKSTATS = '/proc/diskstats'

# bytes; whatever the device's own sectors are
_SECTOR = 512


@dataclasses.dataclass(frozen=True)
class Counters:
    """All that a device has done: requests, bytes, and seconds.

    ``busy`` counts the time in which requests were in flight, ``waited`` that
    of all requests together, from when they were made until they were done.
    """

    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    busy: float
    waited: float

    def since(self, before: 'Counters') -> 'Counters | None':
        """Return what was done since; None if it is another device now.

        Counters only grow while a device is there.
        """
        now, then = dataclasses.astuple(self), dataclasses.astuple(before)
        grown = [a - b for a, b in zip(now, then, strict=True)]
        return None if min(grown) < 0 else Counters(*grown)


def read(
    numbers: collections.abc.Container[str], path: str = DISKSTATS
) -> dict[str, Counters]:
    """Return the counters of devices; one that is not there is left out.

    :param numbers: the devices, as ``major:minor``.
    :raises OSError: the kernel does not say.
    """
    found = {}
    with open(path, encoding='ascii', errors='replace') as stream:
        for line in stream:
            major, minor, _, *fields = line.split()
            number = f'{major}:{minor}'
            if number in numbers:
                found[number] = _counters([int(field) for field in fields])
    return found


def _counters(fields: list[int]) -> Counters:
    # Documentation/admin-guide/iostats.rst of Linux
    reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms = (
        fields[:8]
    )
    busy_ms = fields[9]
    # discards and flushes are told apart by newer kernels only
    return Counters(
        reads=reads,
        writes=writes,
        read_bytes=read_sectors * _SECTOR,
        write_bytes=write_sectors * _SECTOR,
        busy=busy_ms / 1000,
        waited=(read_ms + write_ms) / 1000,
    )
