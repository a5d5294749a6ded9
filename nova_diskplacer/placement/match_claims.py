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

"""Matches the claims of servers on disks with the vdisks there."""

import collections
import collections.abc
import dataclasses
from typing import Any

OK = 'ok'
PENDING = 'pending'
UNCLAIMED = 'unclaimed'
MISMATCH = 'mismatch'


#: A vdisk of a report, with the ``disk`` that it is on. The ``volume_id`` of a
#: snapshot is the snapshot's own ID.
VDisk = collections.abc.Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """A vdisk, or space claimed for vdisks that are not bound yet.

    ``status`` is ``ok`` (a claim on the disk covers the vdisk), ``pending``
    (space is claimed and has no vdisk yet), ``unclaimed`` (no claim covers
    the vdisk; the disk's inventory reserves it) or ``mismatch`` (its server
    has claimed the space on another disk, ``claimed_disk``, and no vdisk is to
    come that this claim could be for). A snapshot has a
    ``snapshot_id`` and no ``volume_id``.
    """

    volume_id: str | None
    claimed_disk: str | None
    actual_disk: str | None
    size_gb: int
    status: str
    snapshot_id: str | None = None


def match(
    claims: collections.abc.Mapping[str, int],
    vdisks: collections.abc.Collection[VDisk],
    asked_gb: int = 0,
) -> list[Row]:
    """Return the rows of one server.

    :param claims: the server's claims in GiB, by disk.
    :param vdisks: the vdisks that were bound for it.
    :param asked_gb: GiB of all vdisks that its flavor asks for. As much as
        the vdisks lack of it is claimed for vdisks to come.
    """
    left = collections.Counter(claims)
    to_come = max(0, asked_gb - sum(one['size_gb'] for one in vdisks))
    rows = []
    uncovered = []
    by_disk = collections.defaultdict(list)
    for vdisk in sorted(
        vdisks, key=lambda one: (one['disk'], one['volume_id'])
    ):
        by_disk[vdisk['disk']].append(vdisk)
    for disk, present in by_disk.items():
        covered = _best_fit(left[disk], present)
        for number, vdisk in enumerate(present):
            if number in covered:
                left[disk] -= vdisk['size_gb']
                rows.append(_row(vdisk, disk, OK))
            else:
                uncovered.append(vdisk)
    for vdisk in uncovered:
        spare = left.total() - to_come
        claimed = next(
            (
                disk
                for disk, gb in sorted(left.items())
                if disk != vdisk['disk'] and min(gb, spare) >= vdisk['size_gb']
            ),
            None,
        )
        if claimed is None:
            rows.append(_row(vdisk, None, UNCLAIMED))
        else:
            left[claimed] -= vdisk['size_gb']
            rows.append(_row(vdisk, claimed, MISMATCH))
    rows.extend(
        Row(None, disk, None, gb, PENDING)
        for disk, gb in sorted(left.items())
        if gb > 0
    )
    return rows


def _best_fit(claim: int, vdisks: list[VDisk]) -> frozenset[int]:
    """Return the indices of the vdisks that fill a claim the best."""
    best: dict[int, frozenset[int]] = {0: frozenset()}
    for number, vdisk in enumerate(vdisks):
        for filled, chosen in list(best.items()):
            if filled + vdisk['size_gb'] <= claim:
                best.setdefault(filled + vdisk['size_gb'], chosen | {number})
    return best[max(best)]


def _row(vdisk: VDisk, claimed: str | None, status: str) -> Row:
    volume, snapshot = vdisk['volume_id'], None
    if vdisk.get('is_snapshot'):
        volume, snapshot = None, volume
    return Row(
        volume, claimed, vdisk['disk'], vdisk['size_gb'], status, snapshot
    )
