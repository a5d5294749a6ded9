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

"""Counts the free space of hosts and aggregates, and the servers that fit."""

import collections.abc
import dataclasses

from nova_diskplacer import flavor
from nova_diskplacer.client import capacity
from nova_diskplacer.client import facts

#: Name of all hosts beside those of aggregates.
ALL_HOSTS = '(all hosts)'

#: Why free space is stranded: no server of a flavor can use it.
MEDIUM = 'medium'
REASONS = (MEDIUM, capacity.DISKS, capacity.THROUGHPUT, capacity.ROOM)


@dataclasses.dataclass(frozen=True)
class Space:
    """The space of the disks of some hosts, in GiB.

    ``committed`` is the share of ``total_gb`` that servers claim, 0 to 1.
    ``largest_gb`` is the largest vdisk that a disk has room for.
    """

    hosts: int
    disks: int
    total_gb: int
    free_gb: int
    committed: float
    largest_gb: int


@dataclasses.dataclass(frozen=True)
class Room:
    """The further servers of a flavor that the disks of hosts have room for.

    ``hosts`` is the number of hosts that hold at least one. ``stranded_gb`` is
    the free space that is left when these servers have booted, by the reason
    why no further server can use it.
    """

    servers: int
    hosts: int
    stranded_gb: collections.abc.Mapping[str, int]

    @property
    def stranded(self) -> str:
        """The GiB that are stranded, by reason, in words."""
        return ', '.join(
            f'{reason} {gb}' for reason, gb in self.stranded_gb.items() if gb
        )


def space(disks: collections.abc.Iterable[facts.Disk]) -> Space:
    """Return the space of disks."""
    disks = list(disks)
    # all of a disk that is drained or missing is reserved; its claims stay
    offered = [max(0, disk.total_gb - disk.reserved_gb) for disk in disks]
    total = sum(offered)
    claimed = sum(
        min(disk.claimed_gb, gb)
        for disk, gb in zip(disks, offered, strict=True)
    )
    return Space(
        len({disk.host for disk in disks}),
        len(disks),
        total,
        sum(disk.free_gb for disk in disks),
        claimed / total if total else 0.0,
        max((disk.free_gb for disk in disks), default=0),
    )


def room(
    disks: collections.abc.Iterable[facts.Disk], request: flavor.VDiskRequest
) -> Room:
    """Return how many more servers fit, and what they leave stranded."""
    servers = hosts = 0
    stranded = dict.fromkeys(REASONS, 0)
    for of_host in capacity.by_host(disks).values():
        number = capacity.servers_of_host(of_host, request)
        servers += number
        hosts += number > 0
        for reason, gb in _stranded(of_host, number, request).items():
            stranded[reason] += gb
    return Room(servers, hosts, stranded)


def _stranded(
    disks: list[facts.Disk], servers: int, request: flavor.VDiskRequest
) -> dict[str, int]:
    """Return the free GiB of a host that no further server uses, by reason.

    :param servers: how many servers fit.
    """
    suited = capacity.suitable(disks, request)
    usable = sum(disk.free_gb for disk in suited)
    server_gb = request.pieces * request.piece_gb
    # each step drops a demand of the request
    any_mbps = dataclasses.replace(request, vdisk_mbps=0)
    with_room = capacity.servers_of_host(disks, any_mbps)
    pieces = sum(disk.free_gb // request.piece_gb for disk in suited)
    on_any = pieces // request.pieces
    return {
        MEDIUM: sum(disk.free_gb for disk in disks) - usable,
        capacity.THROUGHPUT: (with_room - servers) * server_gb,
        capacity.DISKS: (on_any - with_room) * server_gb,
        capacity.ROOM: usable - on_any * server_gb,
    }


def of_aggregates(
    disks: collections.abc.Sequence[facts.Disk],
    aggregates: collections.abc.Mapping[str, collections.abc.Collection[str]],
) -> dict[str, list[facts.Disk]]:
    """Return the disks of all hosts, and of each aggregate that has some.

    :param aggregates: the compute nodes of each aggregate.
    """
    by_name = {ALL_HOSTS: list(disks)}
    for name in sorted(aggregates):
        hosts = {*aggregates[name]}
        of_one = [disk for disk in disks if disk.host in hosts]
        if of_one:
            by_name[name] = of_one
    return by_name
