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

"""Locations of volumes: one disk, or the disks of a stripe.

``provider_location`` of a volume is the UUID of its disk. That of a striped
volume has the UUIDs of all its disks, in the order of the stripe. An elastic
volume is a stripe of equal legs: its location has the disk of each leg, and
some disks have several.
"""

from collections.abc import Mapping
from collections.abc import Sequence

_SEPARATOR = ','


def location_of(legs: Sequence[str]) -> str:
    """Return the location of a volume whose legs are on disks."""
    return _SEPARATOR.join(legs)


def legs_of(location: str | None) -> list[str]:
    """Return the UUID of the disk of each leg, none for None or ''."""
    return location.split(_SEPARATOR) if location else []


def disks_of(location: str | None) -> list[str]:
    """Return the UUIDs of the disks of a location, each once."""
    return list(dict.fromkeys(legs_of(location)))


def is_striped(location: str | None) -> bool:
    """Return whether a location is that of a striped volume."""
    return len(legs_of(location)) > 1


def leg_gb(size_gb: int, legs: int) -> int:
    """Return the GiB of each leg of a vdisk, rounded up."""
    return -(-size_gb // legs)


def pieces_gb(location: str | None, size_gb: int) -> Mapping[str, int]:
    """Return the GiB of a vdisk on each disk of its location."""
    legs = legs_of(location)
    return {
        disk: legs.count(disk) * leg_gb(size_gb, len(legs))
        for disk in disks_of(location)
    }
