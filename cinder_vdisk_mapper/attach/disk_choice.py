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

"""Chooses the disks of a vdisk among those of its host.

Pure functions. A vdisk of its server's flavor fills claims, which the
scheduler has made for all vdisks of the server at once; any other vdisk, and
one that a drain moves, goes where the mapping puts it. Each case has an order
of its own:

- A claim was made for each vdisk, so :func:`claimed_disk` may take any disk
  that has one. The fewest vdisks of the server first: the claims fill evenly.
- A stripe takes a piece of several claims, on distinct disks.
  :func:`claimed_stripe` takes the disks with room for most pieces first:
  otherwise all that is left for the last vdisk may be on too few disks.
- Nobody has chosen for a vdisk without a claim. :func:`free_disk` asks the
  mapping: one that spreads has the fewest vdisks of the server first, any
  other one the disks with some; the fill of the disks decides between them.
- :func:`free_stripe` is of a server whose flavor stripes and that claims
  nothing yet: as for a mapping that spreads, the fewest vdisks of the server
  first, and the emptiest disk of those.

Wherever disks are equal, the UUID decides, or the mapping by the order of the
disks, which is that of UUIDs: two processes that know the same choose the
same.
"""

from collections.abc import Sequence

import numpy as np

from nova_diskplacer.disks import discover
from nova_diskplacer.mapping import plugins
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.ledger import Figures

Disks = Sequence[discover.Disk]


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
    :returns: the UUID of the disk, None if no claim leaves room for
        ``size_gb``.
    """
    unfilled = _unfilled_gb(disks, server_id, claims)
    fit = _with_room(disks, unfilled, vdisks_by_disk, size_gb, per_disk)
    return min(
        (disk.uuid for disk in fit),
        key=lambda uuid: (vdisks_by_disk.get(uuid, 0), uuid),
        default=None,
    )


def claimed_stripe(
    disks: Disks,
    server_id: str,
    claims: Figures,
    vdisks_by_disk: Figures,
    piece_gb: int,
    per_disk: int,
    number: int,
) -> list[str]:
    """Choose the disks whose claims by the server a striped vdisk fills.

    :param claims: as for :func:`claimed_disk`, as the next ones.
    :param number: disks of the stripe.
    :returns: the UUIDs of the disks, none if fewer have room.
    """
    unfilled = _unfilled_gb(disks, server_id, claims)
    fit = _with_room(disks, unfilled, vdisks_by_disk, piece_gb, per_disk)
    chosen = sorted(
        (disk.uuid for disk in fit),
        key=lambda uuid: (
            -(unfilled[uuid] // piece_gb),
            vdisks_by_disk.get(uuid, 0),
            uuid,
        ),
    )
    return chosen[:number] if len(chosen) >= number else []


def free_disk(
    disks: Disks,
    free_gb: Figures,
    vdisks_by_disk: Figures,
    size_gb: int,
    policy: str,
    per_disk: int,
) -> str | None:
    """Choose the disk of a vdisk that has no claim, by mapping policy.

    :param free_gb: GiB on each disk that no claim and no vdisk takes; a disk
        that is not in it is not considered.
    :param vdisks_by_disk: number of the server's vdisks on each disk, with
        those that will fill its claims.
    :param policy: name of a mapping.
    :param per_disk: how many of the server's vdisks may share a disk, if the
        policy spreads them.
    :returns: the disk's UUID, None if the policy allows none.
    """
    placer = plugins.load(policy)
    most = per_disk if placer.spreads else None
    fit = _with_room(disks, free_gb, vdisks_by_disk, size_gb, most)
    if not fit:
        return None
    if placer.spreads:
        fewest = min(vdisks_by_disk.get(disk.uuid, 0) for disk in fit)
        fit = [
            disk for disk in fit if vdisks_by_disk.get(disk.uuid, 0) == fewest
        ]
    else:
        fit = [disk for disk in fit if vdisks_by_disk.get(disk.uuid, 0)] or fit
    # one slot is for the vdisk; the other ones tell the disks apart
    slots = np.array([[free_gb[disk.uuid] // size_gb for disk in fit]])
    load = np.array([[1 - _free_share(disk, free_gb) for disk in fit]])
    chosen = placer.place(slots, load, 1, 1)
    return fit[int(chosen[0].argmax())].uuid


def free_stripe(
    disks: Disks,
    free_gb: Figures,
    vdisks_by_disk: Figures,
    piece_gb: int,
    per_disk: int,
    number: int,
) -> list[str]:
    """Choose the disks of a striped vdisk that has no claim.

    :param free_gb: GiB on each disk that no claim and no vdisk takes.
    :param number: disks of the stripe.
    :returns: the UUIDs of the disks, none if fewer have room.
    """
    fit = _with_room(disks, free_gb, vdisks_by_disk, piece_gb, per_disk)
    fit.sort(
        key=lambda disk: (
            vdisks_by_disk.get(disk.uuid, 0),
            -_free_share(disk, free_gb),
            disk.uuid,
        )
    )
    return [disk.uuid for disk in fit[:number]] if len(fit) >= number else []


def _with_room(
    disks: Disks,
    room_gb: Figures,
    vdisks_by_disk: Figures,
    size_gb: int,
    per_disk: int | None,
) -> list[discover.Disk]:
    """Return the disks that a vdisk, or a piece of it, may go to.

    :param per_disk: None for any number of vdisks.
    """
    return [
        disk
        for disk in disks
        if room_gb.get(disk.uuid, 0) >= size_gb
        and (per_disk is None or vdisks_by_disk.get(disk.uuid, 0) < per_disk)
    ]


def _unfilled_gb(
    disks: Disks, server_id: str, claims: Figures
) -> dict[str, int]:
    """Return the GiB of a server's claim on each disk that no vdisk fills."""
    return {
        disk.uuid: ledger.unfilled_gb(
            disk.vdisks, server_id, claims.get(disk.uuid, 0)
        )
        for disk in disks
    }


def _free_share(disk: discover.Disk, free_gb: Figures) -> float:
    return free_gb[disk.uuid] / max(disk.total_gb, 1)
