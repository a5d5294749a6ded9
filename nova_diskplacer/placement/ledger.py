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

"""Claimed and reserved space on disks, and the disk of the next vdisk.

All figures are in GiB. A server's claim on a disk is what its allocations in
Placement hold there; a vdisk counts against the claim of the server that it
was bound for, attached or not. ``claimed_space`` has the rule for both.
"""

import collections
import collections.abc

import numpy as np

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.mapping import plugins
from nova_diskplacer.placement import claimed_space
from nova_diskplacer.placement.claimed_space import Figures

Disks = collections.abc.Sequence[discover.Disk]


def reserved_gb(
    vdisks: collections.abc.Iterable[VDisk], claims: Figures
) -> int:
    """Return the GiB that a disk's vdisks take outside the servers' claims."""
    taken: dict[str | None, int] = collections.defaultdict(int)
    for vdisk in vdisks:
        taken[vdisk.server_id] += vdisk.size_gb
    return claimed_space.reserved_of(taken, claims)


def unfilled_gb(disk: discover.Disk, server_id: str, claim: int) -> int:
    """Return the GiB of a server's claim on a disk that no vdisk fills."""
    return claim - sum(
        vdisk.size_gb for vdisk in disk.vdisks if vdisk.server_id == server_id
    )


def claimed_disk(
    disks: Disks,
    server_id: str,
    claims: Figures,
    vdisks_by_disk: Figures,
    size_gb: int,
    per_disk: int,
) -> str | None:
    """Choose the disk whose claim by the server a vdisk fills.

    :param claims: the server's claim on each disk, in GiB.
    :param vdisks_by_disk: number of the server's vdisks on each disk.
    :param per_disk: how many of them may share a disk.
    :returns: the UUID of the disk with the fewest of the server's vdisks,
        None if no claim leaves room for ``size_gb``.
    """
    fit = [
        disk.uuid
        for disk in disks
        if vdisks_by_disk.get(disk.uuid, 0) < per_disk
        and unfilled_gb(disk, server_id, claims.get(disk.uuid, 0)) >= size_gb
    ]
    return min(
        fit, key=lambda uuid: (vdisks_by_disk.get(uuid, 0), uuid), default=None
    )


def policy_disk(
    disks: Disks,
    room: Figures,
    vdisks_by_disk: Figures,
    size_gb: int,
    policy: str,
    per_disk: int,
) -> str | None:
    """Choose the disk of a vdisk that has no claim, by mapping policy.

    A policy that spreads chooses among the disks with the fewest of the
    server's vdisks, any other policy among the disks with some, or else all.

    :param room: GiB on each disk that no claim and no vdisk takes; a disk
        that is not in it is not considered.
    :param vdisks_by_disk: number of the server's vdisks on each disk, with
        those that will fill its claims.
    :param policy: name of a mapping.
    :param per_disk: how many of the server's vdisks may share a disk, if the
        policy spreads them.
    :returns: the disk's UUID, None if the policy allows none.
    """
    placer = plugins.load(policy)
    spreads = placer.spreads
    fit = [
        disk
        for disk in disks
        if room.get(disk.uuid, 0) >= size_gb
        and (not spreads or vdisks_by_disk.get(disk.uuid, 0) < per_disk)
    ]
    if not fit:
        return None
    if spreads:
        fewest = min(vdisks_by_disk.get(disk.uuid, 0) for disk in fit)
        fit = [
            disk for disk in fit if vdisks_by_disk.get(disk.uuid, 0) == fewest
        ]
    else:
        fit = [disk for disk in fit if vdisks_by_disk.get(disk.uuid, 0)] or fit
    # one slot is for the vdisk; the other ones tell the disks apart
    slots = np.array([[room[disk.uuid] // size_gb for disk in fit]])
    load = np.array(
        [[1 - room[disk.uuid] / max(disk.total_gb, 1) for disk in fit]]
    )
    chosen = placer.place(slots, load, 1, 1)
    return fit[int(chosen[0].argmax())].uuid
