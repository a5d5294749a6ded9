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

"""The location of a vdisk: the disk of each of its legs.

A vdisk is a stripe of equal legs for its whole life. Its *location* names the
disk of each leg, in the order of the stripe; its width is the number of these
disks. A vdisk that is not striped has one leg. Cinder's database keeps the
location in ``provider_location``, the UUIDs with commas in between.

The legs of an elastic vdisk on one disk are one logical volume there, in
ascending order. So a step moves the highest legs of one disk: they are the end
of its logical volume, and become that of the other disk's. A stripe over 4
legs has these widths:

=====  ==================
Width  Legs of each disk
=====  ==================
1      0 1 2 3
2      0 1 | 2 3
3      0 | 1 | 2 3
4      0 | 1 | 2 | 3
=====  ==================
"""

import collections.abc
import dataclasses

_SEPARATOR = ','


@dataclasses.dataclass(frozen=True)
class Step:
    """A step moves ``legs``, ascending, from disk ``source`` to ``target``."""

    source: str
    target: str
    legs: tuple[int, ...]


class Location(tuple[str, ...]):
    """The UUID of the disk of each leg; empty for a vdisk without a disk."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str | None) -> 'Location':
        """Return the location that ``provider_location`` has.

        :param text: None or '' for a volume that is not bound.
        """
        return cls(text.split(_SEPARATOR) if text else ())

    @classmethod
    def narrowest(
        cls, disks: collections.abc.Sequence[str], number: int
    ) -> 'Location':
        """Return the location of ``number`` legs over the chosen disks.

        :raises ValueError: the disks are not distinct, or cannot share the
            legs equally.
        """
        if len(set(disks)) != len(disks) or not disks or number % len(disks):
            raise ValueError(
                f'{number} legs cannot be shared equally by disks '
                f'{tuple(disks)}'
            )
        share = number // len(disks)
        return cls(disk for disk in disks for _ in range(share))

    def __str__(self) -> str:
        """Return the text of ``provider_location``."""
        return _SEPARATOR.join(self)

    @property
    def disks(self) -> tuple[str, ...]:
        """The disks, each once, in the order of their first legs."""
        return tuple(dict.fromkeys(self))

    @property
    def width(self) -> int:
        """The number of disks."""
        return len(set(self))

    @property
    def is_striped(self) -> bool:
        """True if the vdisk has several legs, on one disk or several."""
        return len(self) > 1

    @property
    def disk(self) -> str | None:
        """The disk of a vdisk that is not striped, None for any other."""
        return self[0] if len(self) == 1 else None

    def legs_on(self, disk: str) -> tuple[int, ...]:
        """Return the legs that a disk holds, ascending."""
        return tuple(
            leg for leg, leg_disk in enumerate(self) if leg_disk == disk
        )

    def pieces_gb(self, size_gb: int) -> dict[str, int]:
        """Return the GiB of a vdisk on each disk, by disk."""
        return {
            disk: self.count(disk) * leg_gb(size_gb, len(self))
            for disk in self.disks
        }

    def replaced(self, source: str, target: str) -> 'Location':
        """Return the location after all legs of a disk have left it."""
        return Location(target if disk == source else disk for disk in self)

    def widened(self, target: str) -> 'Location | None':
        """Return the location with one more disk, None at the widest.

        The first of the disks with most legs gives the upper half of its legs.

        :raises ValueError: the disk has legs already.
        """
        if target in self:
            raise ValueError(f'disk {target} has legs already')
        fullest = max(self.disks, key=self.count)
        legs = self.legs_on(fullest)
        if len(legs) == 1:
            return None
        return self._with(legs[(len(legs) + 1) // 2 :], target)

    def narrowed(self, minimum: int) -> 'Location | None':
        """Return the location with one disk less, None at ``minimum`` disks.

        The last of the disks with fewest legs gives them to the disk before
        it. Disks of different shares of the narrowest location stay apart.
        """
        in_order = self.disks
        if len(in_order) <= minimum:
            return None
        share = len(self) // minimum
        best = None
        for low, high in zip(in_order, in_order[1:], strict=False):
            legs = self.legs_on(high)
            if legs[0] % share and (best is None or len(legs) <= len(best[1])):
                best = low, legs
        return self._with(best[1], best[0]) if best else None

    def step_to(self, other: 'Location') -> Step:
        """Return the step from here to another location.

        :raises ValueError: it takes several, or other legs than the highest of
            one disk to one whose legs are all lower.
        """
        step = self.moved_to(other)
        if step is not None:
            stays = set(self.legs_on(step.source)) - set(step.legs)
            below = (*stays, *self.legs_on(step.target))
            if max(below, default=-1) < step.legs[0]:
                return step
        raise ValueError(f'{self} to {other} is not one step')

    def moved_to(self, other: 'Location') -> Step | None:
        """Return the legs that move from one disk to one to be elsewhere.

        They are a step, or the rest of one that was interrupted; None if legs
        of several disks, or to several, move.
        """
        if len(self) != len(other):
            return None
        legs = tuple(
            leg for leg in range(len(self)) if self[leg] != other[leg]
        )
        sources = {self[leg] for leg in legs}
        targets = {other[leg] for leg in legs}
        if len(sources) != 1 or len(targets) != 1:
            return None
        return Step(sources.pop(), targets.pop(), legs)

    def _with(self, legs: tuple[int, ...], disk: str) -> 'Location':
        return Location(
            disk if leg in legs else leg_disk
            for leg, leg_disk in enumerate(self)
        )


def leg_gb(size_gb: int, legs: int) -> int:
    """Return the GiB of each leg of a vdisk, rounded up."""
    return -(-size_gb // legs)
