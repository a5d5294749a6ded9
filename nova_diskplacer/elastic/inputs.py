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

"""The elastic vdisks and the disks of a host, and the operator's overrides."""

import collections.abc
import dataclasses

from nova_diskplacer.disks.location import Location


@dataclasses.dataclass(frozen=True)
class ElasticVDisk:
    """A vdisk whose legs, of ``leg_gb`` GiB each, are at ``location``.

    Its width stays from ``minimum`` to the number of its legs.
    """

    leg_gb: int
    minimum: int
    location: Location

    @property
    def maximum(self) -> int:
        """The largest width."""
        return len(self.location)

    @property
    def disks(self) -> tuple[str, ...]:
        """The UUIDs of its disks."""
        return self.location.disks

    @property
    def width(self) -> int:
        """The number of its disks."""
        return len(self.disks)


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk whose health is ok, and that is not being drained.

    ``mbps`` is its throughput in MB/s, measured or stated (0: unknown).
    ``free_gb`` are the GiB that no claim and no vdisk takes, and
    ``block_size`` the bytes of a logical block.
    """

    medium: str
    mbps: float
    free_gb: int
    block_size: int = 512


@dataclasses.dataclass(frozen=True)
class Host:
    """The elastic vdisks and all disks of a host, by UUID."""

    vdisks: collections.abc.Mapping[str, ElasticVDisk]
    disks: collections.abc.Mapping[str, Disk]


@dataclasses.dataclass(frozen=True)
class Overrides:
    """The overrides of the operator.

    ``forbid_all`` forbids every move on the host, forced ones too.
    ``forbidden`` vdisks keep their width; ``forced`` ones are moved to the
    given width, whatever their load, and keep it.

    :raises ValueError: a vdisk is forbidden and forced.
    """

    forbid_all: bool = False
    forbidden: frozenset[str] = frozenset()
    forced: collections.abc.Mapping[str, int] = dataclasses.field(
        default_factory=dict
    )

    def forbid(self, vdisk: str) -> bool:
        """Tell whether a vdisk must not be moved."""
        return self.forbid_all or vdisk in self.forbidden

    def __post_init__(self) -> None:
        both = sorted(self.forbidden & self.forced.keys())
        if both:
            raise ValueError(
                f'moves are both forbidden and forced of: {", ".join(both)}'
            )
