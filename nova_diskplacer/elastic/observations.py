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

"""Measurements of the disks of a host, and their means over a time.

A vdisk's *part* of a disk is the utilization that it causes there.
"""

import collections.abc
import dataclasses
import functools

#: The UUIDs of a vdisk and of a disk.
VDiskDisk = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Observation:
    """The utilization of disks in an interval of ``seconds`` up to ``end``.

    ``end`` is in seconds of a clock that is never set back. ``utilization``
    is the share of each disk's capacity that was used, 0 to 1, by the disk's
    UUID; disks that did not answer are not in it. ``parts`` are what vdisks
    caused of it, 0 if left out.
    """

    end: float
    seconds: float
    utilization: collections.abc.Mapping[str, float]
    parts: collections.abc.Mapping[VDiskDisk, float]

    @property
    def start(self) -> float:
        """The start of the interval."""
        return self.end - self.seconds


#: Observations without gaps, the oldest first.
Window = tuple[Observation, ...]


def part(utilization: float, own: float, total: float) -> float:
    """Return a vdisk's part of the utilization of a disk.

    :param own: what the vdisk used of the disk: bytes, or with io.cost the
        device time that was charged.
    :param total: what all consumers of the disk used of it.
    """
    return utilization * min(1.0, own / total) if total > 0 else 0.0


def follows(window: Window, observation: Observation) -> bool:
    """Tell whether an observation comes next after others.

    It does not after a gap as long as its interval, in which nobody knows
    what happened.
    """
    gap = observation.start - window[-1].end if window else 0.0
    return gap <= observation.seconds


def add(window: Window, observation: Observation, seconds: float) -> Window:
    """Return the observations that cover the last ``seconds``, and the new.

    Those before a gap are dropped.
    """
    kept = window if follows(window, observation) else ()
    kept += (observation,)
    while covers(kept[1:], seconds):
        kept = kept[1:]
    return kept


def covers(window: Window, seconds: float) -> bool:
    """Tell whether the observations are of so long a time."""
    return bool(window) and window[-1].end - window[0].start >= seconds


@dataclasses.dataclass(frozen=True)
class Means:
    """The means of observations; ``utilization`` and ``parts`` as there.

    A disk that is missing in one of the observations is missing here.
    """

    utilization: collections.abc.Mapping[str, float]
    parts: collections.abc.Mapping[VDiskDisk, float]

    def others(self, vdisk: str) -> dict[str, float]:
        """Return the utilization of each disk by others than a vdisk."""
        return {
            disk: max(0.0, used - self.parts.get((vdisk, disk), 0.0))
            for disk, used in self.utilization.items()
        }

    @functools.cached_property
    def _by_disk(self) -> dict[str, dict[str, float]]:
        utilization: dict[str, dict[str, float]] = {}
        for (vdisk, disk), own in self.parts.items():
            utilization.setdefault(disk, {})[vdisk] = own
        return utilization

    def largest_other(self, vdisk: str, disk: str) -> float:
        """Return the largest part of a disk that is not a vdisk's own.

        It is that of another vdisk, or of all other consumers together.
        """
        parts = self._by_disk.get(disk, {})
        rest = self.utilization[disk] - sum(parts.values())
        others = (own for uuid, own in parts.items() if uuid != vdisk)
        return max(0.0, rest, *others)


def means(window: Window) -> Means:
    """Return the means of observations, weighted by their lengths."""
    if not window:
        return Means({}, {})
    disks = set.intersection(
        *(set(observation.utilization) for observation in window)
    )
    pairs = {pair for observation in window for pair in observation.parts}
    total = sum(observation.seconds for observation in window)
    return Means(
        utilization={
            disk: sum(
                observation.seconds * observation.utilization[disk]
                for observation in window
            )
            / total
            for disk in sorted(disks)
        },
        parts={
            pair: sum(
                observation.seconds * observation.parts.get(pair, 0.0)
                for observation in window
            )
            / total
            for pair in sorted(pairs)
        },
    )
