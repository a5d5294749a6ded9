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

"""Legs of an elastic vdisk, and the disks that hold them.

An elastic vdisk is a stripe of ``maximum`` equal legs for its whole life. Its
*location* names the disk of each leg, in the order of the stripe; its width is
the number of these disks. The legs of a disk are one logical volume there, in
ascending order. So a step moves the highest legs of one disk: they are the end
of its logical volume, and become that of the other disk's.

A stripe over 4 legs has these widths:

=====  ==================
Width  Legs of each disk
=====  ==================
1      0 1 2 3
2      0 1 | 2 3
3      0 | 1 | 2 3
4      0 | 1 | 2 | 3
=====  ==================
"""

import dataclasses

Location = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step moves ``legs``, ascending, from disk ``source`` to ``target``."""

    source: str
    target: str
    legs: tuple[int, ...]


def disks(location: Location) -> tuple[str, ...]:
    """Return the disks of a location, in the order of their first legs."""
    return tuple(dict.fromkeys(location))


def legs_on(location: Location, disk: str) -> tuple[int, ...]:
    """Return the legs that a disk holds, ascending."""
    return tuple(
        leg for leg, leg_disk in enumerate(location) if leg_disk == disk
    )


def narrowest(chosen: tuple[str, ...], number: int) -> Location:
    """Return the location of ``number`` legs over the chosen disks.

    :raises ValueError: the disks are not distinct, or cannot share the legs
        equally.
    """
    if len(set(chosen)) != len(chosen) or not chosen or number % len(chosen):
        raise ValueError(
            f'{number} legs cannot be shared equally by disks {chosen}'
        )
    return tuple(disk for disk in chosen for _ in range(number // len(chosen)))


def widen(location: Location, target: str) -> Location | None:
    """Return the location with one more disk, None at the widest.

    The first of the disks with most legs gives the upper half of its legs.

    :raises ValueError: the disk has legs already.
    """
    if target in location:
        raise ValueError(f'disk {target} has legs already')
    fullest = max(disks(location), key=location.count)
    legs = legs_on(location, fullest)
    if len(legs) == 1:
        return None
    return _with(location, legs[(len(legs) + 1) // 2 :], target)


def narrow(location: Location, minimum: int) -> Location | None:
    """Return the location with one disk less, None at the width ``minimum``.

    The last of the disks with fewest legs gives them to the disk before it.
    Disks of different shares of the narrowest location stay apart.
    """
    in_order = disks(location)
    if len(in_order) <= minimum:
        return None
    share = len(location) // minimum
    best = None
    for low, high in zip(in_order, in_order[1:], strict=False):
        legs = legs_on(location, high)
        if legs[0] % share and (best is None or len(legs) <= len(best[1])):
            best = low, legs
    return _with(location, best[1], best[0]) if best else None


def step(old: Location, new: Location) -> Step:
    """Return the step from one location to another.

    :raises ValueError: it takes several, or other legs than the highest of one
        disk to one whose legs are all lower.
    """
    legs: tuple[int, ...] = ()
    if len(old) == len(new):
        legs = tuple(leg for leg in range(len(old)) if old[leg] != new[leg])
    sources, targets = {old[leg] for leg in legs}, {new[leg] for leg in legs}
    if len(sources) == len(targets) == 1:
        taken = Step(sources.pop(), targets.pop(), legs)
        stays = set(legs_on(old, taken.source)) - set(legs)
        if max((*stays, *legs_on(old, taken.target)), default=-1) < legs[0]:
            return taken
    raise ValueError(f'{",".join(old)} to {",".join(new)} is not one step')


def _with(location: Location, legs: tuple[int, ...], disk: str) -> Location:
    return tuple(
        disk if leg in legs else leg_disk
        for leg, leg_disk in enumerate(location)
    )
