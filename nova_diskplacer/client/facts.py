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

"""The facts that the map of vdisks is made of.

``map_facts`` reads them from REST APIs; diskplacer-manage takes the vdisks
from the reports of agents instead.
"""

import collections.abc
import dataclasses
import datetime
import re

from nova_diskplacer import constants

#: GiB that servers claim, by disk and server.
Claims = collections.abc.Mapping[str, collections.abc.Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk and its figures in Placement, in GiB and MB/s.

    ``medium`` and ``cache_mode`` are empty if not known. ``can_stripe`` is
    true for disks that may hold pieces of striped vdisks. ``pressure`` is in
    per cent. It and ``idle`` are None where only REST APIs were asked: none
    tells them.
    """

    uuid: str
    host: str
    medium: str = ''
    health: str = constants.OK
    total_gb: int = 0
    reserved_gb: int = 0
    claimed_gb: int = 0
    total_mbps: int = 0
    claimed_mbps: int = 0
    cache_mode: str = ''
    can_stripe: bool = False
    pressure: int | None = None
    idle: bool | None = None

    @property
    def free_gb(self) -> int:
        """GiB that no claim and no vdisk takes, 0 if it is not offered."""
        if self.health != constants.OK:
            return 0
        return max(0, self.total_gb - self.reserved_gb - self.claimed_gb)

    @property
    def free_mbps(self) -> int:
        """MB/s that no server claims."""
        return max(0, self.total_mbps - self.claimed_mbps)


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of Nova's; ``changed`` is when Nova last changed it."""

    id: str
    name: str
    status: str = ''
    changed: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class VDisk:
    """A vdisk on a disk.

    ``id`` is of the volume or snapshot. ``server_id`` is the server that it
    counts for, ``device`` its name there, such as ``vdb``, if it is attached.
    ``move`` tells where an elastic one is being moved to and why.
    """

    id: str
    disk: str
    size_gb: int
    server_id: str | None = None
    is_snapshot: bool = False
    device: str = ''
    move: str = ''


@dataclasses.dataclass(frozen=True)
class MovingVDisk:
    """A vdisk that follows its server to another host.

    ``host`` is the host of the server, by its name in Placement, ``source``
    the host that still has the data, by its name in Cinder. ``source`` is
    empty while a move begins or ends: then the server's host has the data.
    """

    id: str
    size_gb: int
    server_id: str
    host: str
    source: str
    device: str = ''


@dataclasses.dataclass(frozen=True)
class Facts:
    """Disks, claims, vdisks and servers.

    Servers that Nova does not know or was not asked for are not in
    ``servers``. The agents of ``missing_hosts`` did not report. The vdisks on
    ``unseen`` disks are not known, because nobody could look. ``moving`` are
    not among ``vdisks``: no API tells their disks. nova-compute of
    ``down_hosts`` is down; it is only asked for where vdisks are moving.
    """

    disks: collections.abc.Mapping[str, Disk]
    claims: Claims
    vdisks: collections.abc.Sequence[VDisk]
    servers: collections.abc.Mapping[str, Server]
    missing_hosts: tuple[str, ...] = ()
    unseen: frozenset[str] = frozenset()
    moving: collections.abc.Sequence[MovingVDisk] = ()
    down_hosts: frozenset[str] = frozenset()

    def of_host(self, host: str) -> 'Facts':
        """Return the facts about a host's disks."""
        disks = {
            uuid: disk
            for uuid, disk in self.disks.items()
            if host in (disk.host, short_host(disk.host))
        }
        return dataclasses.replace(
            self,
            disks=disks,
            claims={
                disk: claims
                for disk, claims in self.claims.items()
                if disk in disks
            },
            vdisks=[vdisk for vdisk in self.vdisks if vdisk.disk in disks],
            moving=[
                vdisk for vdisk in self.moving if is_host(vdisk.host, host)
            ],
            missing_hosts=tuple(
                name
                for name in self.missing_hosts
                if host in (name, short_host(name))
            ),
        )


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``compute-9`` before ``compute-10``."""
    return [
        (int(part), '') if part.isdecimal() else (-1, part)
        for part in re.split(r'(\d+)', name)
    ]


def ordered(disks: collections.abc.Iterable[Disk]) -> list[Disk]:
    """Return disks by host and UUID."""
    return sorted(disks, key=lambda disk: (natural(disk.host), disk.uuid))


def short_host(name: str) -> str:
    """Return the first label of a host's name."""
    return name.partition('.')[0]


def is_host(name: str, other: str) -> bool:
    """Return whether names are of one host, with or without its domain."""
    return other in (name, short_host(name)) or name == short_host(other)


class HostNames:
    """Names of hosts, which may be asked with or without their domains."""

    def __init__(self, names: collections.abc.Iterable[str]) -> None:
        self._names = set(names)
        self._short = {short_host(name) for name in self._names}

    def __contains__(self, name: str) -> bool:
        """Return whether ``is_host`` is true for one of them."""
        return (
            name in self._names
            or short_host(name) in self._names
            or name in self._short
        )


def short_names(
    names: collections.abc.Iterable[str], least: int = 4
) -> dict[str, str]:
    """Return the shortest starts of names that tell them apart.

    :param least: their minimum length.
    """
    ordered = sorted(set(names))
    length = least
    for name, following in zip(ordered, ordered[1:], strict=False):
        common = next(
            (
                position
                for position, (a, b) in enumerate(
                    zip(name, following, strict=False)
                )
                if a != b
            ),
            min(len(name), len(following)),
        )
        length = max(length, common + 1)
    return {name: name[:length] for name in ordered}
