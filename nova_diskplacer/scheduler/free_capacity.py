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

"""Free capacity on the disks of many hosts, as NumPy arrays."""

import dataclasses

import numpy as np
import numpy.typing as npt

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer.mapping import base

#: Media by their number in an array; 0 is a disk that may not be used.
MEDIA = {constants.HDD: 1, constants.SSD: 2}

#: NUMA node of a disk that does not report one.
NO_NODE = -1


@dataclasses.dataclass(frozen=True)
class FreeCapacity:
    """Free capacity on the disks of H hosts; arrays of shape (H, D).

    ``free_gb`` is in GiB, ``free_mbps`` in MB/s. ``medium`` is 0 where there
    is no disk that may be used. ``load`` is the committed share of the
    capacity, 0 to 1. ``numa_node`` is NO_NODE where it is not known. ``disks``
    holds each host's disk UUIDs in the order of the columns. ``cache_mode``
    (H,) is empty where it is not known.
    """

    free_gb: base.Ints
    free_mbps: base.Ints
    medium: base.Ints
    load: base.Floats
    reserved_gb: base.Ints
    numa_node: base.Ints
    disks: list[tuple[str, ...]]
    cache_mode: npt.NDArray[np.str_]

    def of_hosts(self, rows: base.Ints) -> 'FreeCapacity':
        """Return the free capacity of some of the hosts."""
        arrays = {
            field.name: getattr(self, field.name)[rows]
            for field in dataclasses.fields(self)
            if field.name != 'disks'
        }
        disks = [self.disks[row] for row in rows.tolist()]
        return FreeCapacity(**arrays, disks=disks)

    def reorder_disks(self, order: base.Ints) -> 'FreeCapacity':
        """Return the free capacity of one host with its disks reordered.

        :param order: each column once, (D,), those without a disk last.
        """
        (disks,) = self.disks
        arrays = {
            field.name: getattr(self, field.name)[:, order]
            for field in dataclasses.fields(self)
            if field.name not in ('disks', 'cache_mode')
        }
        return FreeCapacity(
            **arrays,
            disks=[tuple(disks[at] for at in order[: len(disks)].tolist())],
            cache_mode=self.cache_mode,
        )

    def slots(self, request: flavor.VDiskRequest) -> base.Ints:
        """Return how many of the request's vdisks fit on each disk, (H, D)."""
        slots = self.free_gb // request.vdisk_gb
        if request.vdisk_mbps:
            np.minimum(slots, self.free_mbps // request.vdisk_mbps, out=slots)
        usable = self.medium > 0
        if request.media != flavor.ANY:
            usable = self.medium == MEDIA[request.media]
        return np.where(usable & (slots > 0), slots, 0)
