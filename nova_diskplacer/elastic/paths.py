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

"""Sequences of steps: from the location of a vdisk to a wider or narrower one.

A *path* has the present location first, and each location is one step from
that before it (see ``disks.location``).

The fullest disk bounds the throughput of a stripe, so not every width is
worth its disks: of 4 legs, 3 disks have 1, 1 and 2, and give no more than 2
disks with 2 each. The end of a path is worth its disks if a width with one
disk less has a fuller disk. A path that was interrupted may end elsewhere.
"""

import collections.abc
import functools

from nova_diskplacer.disks.location import Location

Path = tuple[Location, ...]


def fullest(location: Location) -> int:
    """Return the legs of the disk that has most."""
    return max(map(location.count, location))


def widened(
    location: Location, targets: collections.abc.Iterable[str]
) -> Path:
    """Return the path to a location with further disks.

    It ends early where each disk has one leg.
    """
    path = [location]
    for target in targets:
        next_location = path[-1].widened(target)
        if next_location is None:
            break
        path.append(next_location)
    return tuple(path)


def narrowed(location: Location, minimum: int) -> Path:
    """Return the path to the width ``minimum``."""
    path = [location]
    while (next_location := path[-1].narrowed(minimum)) is not None:
        path.append(next_location)
    return tuple(path)


def wider(location: Location, factor: int) -> tuple[int, ...]:
    """Return the widths to which a vdisk may be widened, the best first.

    The best is the largest that is worth its disks, of at most ``factor``
    times the width; where too few disks suit, as many as there are.
    """
    width = location.width
    path = widened(location, map(str, range(len(location) - width)))
    ends = [
        width + number
        for number, reached in enumerate(path[1:], 1)
        if number <= width * (factor - 1)
        and fullest(reached) < fullest(path[number - 1])
    ]
    return tuple(reversed(ends))


@functools.lru_cache(maxsize=1024)
def narrower(location: Location, minimum: int) -> tuple[Path, ...]:
    """Return the paths to narrower locations, the narrowest first.

    They end at the width ``minimum`` or where it is worth its disks.
    """
    path = narrowed(location, minimum)
    return tuple(
        path[: number + 1]
        for number in range(len(path) - 1, 0, -1)
        if number == len(path) - 1
        or fullest(path[number]) < fullest(path[number + 1])
    )


def as_good(location: Location, minimum: int) -> Path:
    """Return the path to a narrower location that is as good, () without one.

    There is one where a path to a wider location was interrupted.
    """
    *_, path = ((), *narrower(location, minimum))
    if path and fullest(path[-1]) == fullest(location):
        return path
    return ()


def most_held(path: Path) -> dict[str, int]:
    """Return the most legs that each disk has on a path."""
    return {
        disk: max(location.count(disk) for location in path)
        for location in path
        for disk in location
    }
