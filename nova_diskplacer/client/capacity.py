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

"""The number of servers of a flavor that find disks on each host.

Only disks are counted. vCPUs, memory, NUMA nodes and bound volumes of a
server are the scheduler's.
"""

import collections
import collections.abc
import dataclasses

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer.client import facts

#: What limits the number of servers of a host.
ROOM = 'GiB'
THROUGHPUT = 'MB/s'
DISKS = 'disks'

_SPREADING = (flavor.ROUND_ROBIN, flavor.STRIPED, flavor.ELASTIC)


@dataclasses.dataclass(frozen=True)
class Capacity:
    """The number of servers that fit a host's disks.

    ``disks`` is the number of disks that may hold vdisks of the flavor,
    ``slots`` the number of vdisks, or pieces of striped ones, that they have
    room for. ``limit`` is what
    keeps another server out.
    """

    host: str
    disks: int
    slots: int
    servers: int
    limit: str


def capacities(
    disks: collections.abc.Iterable[facts.Disk], request: flavor.VDiskRequest
) -> list[Capacity]:
    """Return how many servers fit each host, by host.

    Any mapping but ``round_robin``, ``striped`` and ``elastic`` over two disks
    or more may put all vdisks on one disk; of one that is installed besides,
    the figure is the most that may fit.
    """
    of_hosts = by_host(disks)
    return [
        _capacity(host, of_hosts[host], request) for host in sorted(of_hosts)
    ]


def by_host(
    disks: collections.abc.Iterable[facts.Disk],
) -> dict[str, list[facts.Disk]]:
    """Return the disks of each host."""
    found = collections.defaultdict(list)
    for disk in disks:
        found[disk.host].append(disk)
    return found


def _capacity(
    host: str, disks: list[facts.Disk], request: flavor.VDiskRequest
) -> Capacity:
    fit = suitable(disks, request)
    slots = [_slots(disk, request) for disk in fit]
    servers = count_servers(slots, request)
    return Capacity(
        host, len(fit), sum(slots), servers, _limit(fit, servers, request)
    )


def servers_of_host(
    disks: collections.abc.Sequence[facts.Disk], request: flavor.VDiskRequest
) -> int:
    """Return how many servers the disks of a host have room for."""
    slots = [_slots(disk, request) for disk in suitable(disks, request)]
    return count_servers(slots, request)


def count_servers(
    slots: collections.abc.Sequence[int], request: flavor.VDiskRequest
) -> int:
    """Return for how many servers the slots of a host's disks are enough.

    ``round_robin`` and ``striped`` put at most ``vdisks_per_disk`` vdisks of a
    server on a disk, so a disk serves N servers with at most N times as many.
    """
    most = sum(slots) // request.pieces
    if request.placed_by not in _SPREADING:
        return most
    per_disk = _per_disk(request)
    while most and (
        sum(min(number, most * per_disk) for number in slots)
        < most * request.pieces
    ):
        most -= 1
    return most


def _per_disk(request: flavor.VDiskRequest) -> int:
    """Return how many vdisks of a server may share a disk."""
    return min(request.vdisks_per_disk, request.vdisks)


def suitable(
    disks: collections.abc.Sequence[facts.Disk], request: flavor.VDiskRequest
) -> list[facts.Disk]:
    """Return the disks of a host that may hold vdisks of the request.

    As for the scheduler, a host whose disks differ in their cache mode has
    none, and neither has one whose mode is not known.

    :param disks: all disks of the host.
    """
    modes = {
        disk.cache_mode
        for disk in disks
        if disk.cache_mode or disk.health == constants.OK
    }
    if request.cache_mode is not None and modes != {request.cache_mode}:
        return []
    return [
        disk
        for disk in disks
        if request.media in (flavor.ANY, disk.medium)
        and (request.legs == 1 or disk.can_stripe)
    ]


def _slots(disk: facts.Disk, request: flavor.VDiskRequest) -> int:
    slots = disk.free_gb // request.piece_gb
    if request.vdisk_mbps:
        slots = min(slots, disk.free_mbps // request.piece_mbps)
    return slots


def _limit(
    disks: list[facts.Disk], servers: int, request: flavor.VDiskRequest
) -> str:
    """Return what one more server lacks."""
    if request.placed_by in _SPREADING and (
        len(disks) * _per_disk(request) < request.pieces
    ):
        return DISKS
    unclaimed = dataclasses.replace(request, vdisk_mbps=0)
    by_room = count_servers(
        [_slots(disk, unclaimed) for disk in disks], unclaimed
    )
    return THROUGHPUT if by_room > servers else ROOM
