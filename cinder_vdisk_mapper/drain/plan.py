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

"""Chooses the disks that the vdisks of a drained disk go to.

Pure functions. Like the binding of a new vdisk, they decide by the mapping of
its server's flavor and the free space of the other disks.
"""

import collections
import collections.abc
import dataclasses

from cinder_vdisk_mapper.attach import disk_choice
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.mapping import plugins


@dataclasses.dataclass(frozen=True)
class VDiskToMove:
    """A vdisk on the disk to empty, and what decides where it can go.

    ``server`` is the server that it counts for, None for no server.
    ``per_disk`` is how many vdisks of that server may share a disk if
    ``mapping`` spreads them. ``mbps`` are the claimed MB/s that go with the
    vdisk. ``begun_target`` is the disk that an interrupted drain has begun to
    move it to, and ``is_elsewhere`` tells that its volume is on another disk.
    ``apart_from`` are the disks with other parts of a striped vdisk, and
    ``unfilled_claims`` those where the server that it was bound for claims
    space for vdisks to come, which it would take. ``refusal`` is the reason
    why it cannot be moved anywhere, not even to ``begun_target``.
    """

    vdisk: VDisk
    server: str | None = None
    mapping: str = ''
    per_disk: int = 1
    mbps: int = 0
    begun_target: str | None = None
    is_elsewhere: bool = False
    apart_from: frozenset[str] = frozenset()
    unfilled_claims: frozenset[str] = frozenset()
    refusal: str = ''

    @property
    def name(self) -> str:
        """Name of the vdisk."""
        return self.vdisk.name

    @property
    def size_gb(self) -> int:
        """Size of the vdisk in GiB."""
        return self.vdisk.size_gb


@dataclasses.dataclass(frozen=True)
class Room:
    """Free GiB of a disk, and MB/s of it that nobody claims."""

    gb: int
    mbps: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """The disk that each vdisk goes to, or the reason why it stays."""

    targets: dict[str, str]
    refusals: dict[str, str]


#: Names of the vdisks of each server by disk, bound for it or attached.
ServerVDisks = collections.abc.Mapping[
    str, collections.abc.Mapping[str, set[str]]
]


def plan(
    vdisks: collections.abc.Iterable[VDiskToMove],
    disks: collections.abc.Sequence[discover.Disk],
    room: collections.abc.Mapping[str, Room],
    server_vdisks: ServerVDisks,
) -> Plan:
    """Choose a disk for each vdisk, the largest first.

    :param disks: the disks that may take vdisks.
    :param room: of each of these disks.
    """
    room_left = dict(room)
    counts: dict[str, collections.Counter[str]] = {
        server: collections.Counter(
            {disk: len(names) for disk, names in by_disk.items()}
        )
        for server, by_disk in server_vdisks.items()
    }
    targets, refusals = {}, {}
    for vdisk in sorted(vdisks, key=_order):
        name = vdisk.name
        if vdisk.refusal:
            refusals[name] = vdisk.refusal
            continue
        if vdisk.begun_target:
            # its space is taken, and its server counts it there
            targets[name] = vdisk.begun_target
            continue
        server_counts = counts.setdefault(
            vdisk.server or name, collections.Counter()
        )
        target = _choose(vdisk, disks, room_left, server_counts)
        if target is None:
            refusals[name] = _reason(vdisk, disks, room_left, server_counts)
            continue
        targets[name] = target
        server_counts[target] += 1
        room_left[target] = Room(
            room_left[target].gb - vdisk.size_gb,
            room_left[target].mbps - vdisk.mbps,
        )
    return Plan(targets, refusals)


def _order(vdisk: VDiskToMove) -> tuple[bool, int, str]:
    return not vdisk.begun_target, -vdisk.size_gb, vdisk.name


def _choose(
    vdisk: VDiskToMove,
    disks: collections.abc.Sequence[discover.Disk],
    room: collections.abc.Mapping[str, Room],
    counts: collections.abc.Mapping[str, int],
) -> str | None:
    """Return the disk that a vdisk goes to, None if no disk may take it.

    :param counts: number of its server's vdisks on each disk.
    """
    excluded = vdisk.apart_from | vdisk.unfilled_claims
    return disk_choice.free_disk(
        [
            disk
            for disk in disks
            if room[disk.uuid].mbps >= vdisk.mbps and disk.uuid not in excluded
        ],
        {uuid: free.gb for uuid, free in room.items()},
        counts,
        vdisk.size_gb,
        vdisk.mapping,
        vdisk.per_disk,
    )


def _reason(
    vdisk: VDiskToMove,
    disks: collections.abc.Sequence[discover.Disk],
    room: collections.abc.Mapping[str, Room],
    counts: collections.abc.Mapping[str, int],
) -> str:
    """Return why no disk may take a vdisk."""
    if not disks:
        return 'the host has no other disk of this backend that may take it'
    reasons = []
    for disk in disks:
        free = room[disk.uuid]
        if disk.uuid in vdisk.apart_from:
            reasons.append(f'disk {disk.uuid} has another part of it')
            continue
        lacks = []
        if free.gb < vdisk.size_gb:
            lacks.append(f'lacks {vdisk.size_gb - max(0, free.gb)} GiB')
        if free.mbps < vdisk.mbps:
            lacks.append(f'lacks {vdisk.mbps - max(0, free.mbps)} MB/s')
        if (
            plugins.load(vdisk.mapping).spreads
            and counts.get(disk.uuid, 0) >= vdisk.per_disk
        ):
            lacks.append(
                f'has {counts[disk.uuid]} vdisks of server {vdisk.server}, '
                f'and {vdisk.mapping} allows {vdisk.per_disk}'
            )
        if disk.uuid in vdisk.unfilled_claims:
            lacks.append(
                f'has space that server {vdisk.vdisk.server_id} claims for '
                'vdisks to come'
            )
        reasons.append(f'disk {disk.uuid} {" and ".join(lacks)}')
    return '; '.join(reasons)
