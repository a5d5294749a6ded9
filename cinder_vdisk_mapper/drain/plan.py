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

"""Chooses where the vdisks of a disk that is to be emptied go.

Pure functions: they decide by the mapping of each vdisk's server and the room
on the other disks, as the binding of a new vdisk does.
"""

import collections
import collections.abc
import dataclasses

from cinder_vdisk_mapper.attach import disk_choice
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.mapping import plugins


@dataclasses.dataclass(frozen=True)
class Item:
    """A vdisk on the disk to empty.

    ``server`` is the server that it counts for, None for no server.
    ``per_disk`` is how many vdisks of it may share a disk if ``policy``
    spreads them. ``mbps`` are the claimed MB/s that go with the vdisk.
    ``begun`` is the disk that a killed run has begun to move it to, and
    ``elsewhere`` tells that its volume is on another disk.
    ``apart_from`` are the disks with other parts of a striped vdisk, and
    ``awaited`` those where the server that it was bound for claims space for
    vdisks to come, which it would take.
    ``refusal`` is the reason why it cannot be moved anywhere.
    """

    vdisk: VDisk
    server: str | None = None
    policy: str = ''
    per_disk: int = 1
    mbps: int = 0
    begun: str | None = None
    elsewhere: bool = False
    apart_from: frozenset[str] = frozenset()
    awaited: frozenset[str] = frozenset()
    refusal: str = ''


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
Held = collections.abc.Mapping[str, collections.abc.Mapping[str, set[str]]]


def plan(
    items: collections.abc.Iterable[Item],
    disks: collections.abc.Sequence[discover.Disk],
    room: collections.abc.Mapping[str, Room],
    held: Held,
) -> Plan:
    """Choose a disk for each vdisk, the largest first.

    :param disks: the disks that may take vdisks.
    :param room: of each of these disks.
    """
    left = dict(room)
    counts: dict[str, collections.Counter[str]] = {
        server: collections.Counter(
            {disk: len(names) for disk, names in by_disk.items()}
        )
        for server, by_disk in held.items()
    }
    targets, refusals = {}, {}
    for item in sorted(
        items,
        key=lambda item: (
            not item.begun,
            -item.vdisk.size_gb,
            item.vdisk.name,
        ),
    ):
        name = item.vdisk.name
        of_server = counts.setdefault(
            item.server or name, collections.Counter()
        )
        if item.refusal:
            refusals[name] = item.refusal
            continue
        if item.begun:
            # its space is taken, and its server counts it there
            targets[name] = item.begun
            continue
        size = item.vdisk.size_gb
        possible = [
            disk
            for disk in disks
            if left[disk.uuid].mbps >= item.mbps
            and disk.uuid not in item.apart_from | item.awaited
        ]
        chosen = disk_choice.free_disk(
            possible,
            {uuid: free.gb for uuid, free in left.items()},
            of_server,
            size,
            item.policy,
            item.per_disk,
        )
        if chosen is None:
            refusals[name] = _reason(item, disks, left, of_server)
            continue
        targets[name] = chosen
        of_server[chosen] += 1
        left[chosen] = Room(
            left[chosen].gb - size, left[chosen].mbps - item.mbps
        )
    return Plan(targets, refusals)


def _reason(
    item: Item,
    disks: collections.abc.Sequence[discover.Disk],
    left: collections.abc.Mapping[str, Room],
    counts: collections.abc.Mapping[str, int],
) -> str:
    """Return why no disk may take a vdisk."""
    if not disks:
        return 'the host has no other disk of this backend that may take it'
    reasons = []
    for disk in disks:
        room = left[disk.uuid]
        if disk.uuid in item.apart_from:
            reasons.append(f'disk {disk.uuid} has another part of it')
            continue
        lacks = []
        if room.gb < item.vdisk.size_gb:
            lacks.append(f'lacks {item.vdisk.size_gb - max(0, room.gb)} GiB')
        if room.mbps < item.mbps:
            lacks.append(f'lacks {item.mbps - max(0, room.mbps)} MB/s')
        if (
            plugins.load(item.policy).spreads
            and counts.get(disk.uuid, 0) >= item.per_disk
        ):
            lacks.append(
                f'has {counts[disk.uuid]} vdisks of server {item.server}, '
                f'and {item.policy} allows {item.per_disk}'
            )
        if disk.uuid in item.awaited:
            lacks.append(
                f'has space that server {item.vdisk.server_id} claims for '
                'vdisks to come'
            )
        reasons.append(f'disk {disk.uuid} {" and ".join(lacks)}')
    return '; '.join(reasons)
