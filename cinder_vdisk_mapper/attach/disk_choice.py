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

"""Chooses the disks of a striped vdisk."""

from collections.abc import Sequence

from nova_diskplacer.disks import discover
from nova_diskplacer.placement import claimed_space
from nova_diskplacer.placement import ledger


def claimed_disks(
    disks: ledger.Disks,
    server_id: str,
    claims: claimed_space.Figures,
    held: claimed_space.Figures,
    piece_gb: int,
    per_disk: int,
    number: int,
) -> list[str]:
    """Choose the disks whose claims by the server a striped vdisk fills.

    :param claims: the server's claim on each disk, in GiB.
    :param held: number of the server's vdisks on each disk.
    :param per_disk: how many of them may share a disk.
    :param number: disks of the stripe.
    :returns: the UUIDs of the disks with room for most pieces, so that the
        server's other vdisks find distinct disks too; none if fewer have room.
    """
    room = {
        disk.uuid: ledger.unfilled_gb(
            disk, server_id, claims.get(disk.uuid, 0)
        )
        // piece_gb
        for disk in disks
    }
    fit = [
        uuid
        for uuid, pieces in room.items()
        if pieces > 0 and held.get(uuid, 0) < per_disk
    ]
    fit.sort(key=lambda uuid: (-room[uuid], held.get(uuid, 0), uuid))
    return fit[:number] if len(fit) >= number else []


def free_disks(
    disks: Sequence[discover.Disk],
    room: claimed_space.Figures,
    held: claimed_space.Figures,
    piece_gb: int,
    per_disk: int,
    number: int,
) -> list[str]:
    """Choose the disks of a striped vdisk that has no claim.

    :param room: GiB on each disk that no claim and no vdisk takes.
    :returns: the UUIDs of the disks with the fewest of the server's vdisks,
        emptiest first; none if fewer have room.
    """
    fit = [
        disk
        for disk in disks
        if room.get(disk.uuid, 0) >= piece_gb
        and held.get(disk.uuid, 0) < per_disk
    ]
    fit.sort(
        key=lambda disk: (
            held.get(disk.uuid, 0),
            -room[disk.uuid] / max(disk.total_gb, 1),
            disk.uuid,
        )
    )
    return [disk.uuid for disk in fit[:number]] if len(fit) >= number else []
