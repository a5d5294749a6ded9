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


#: A vdisk of a report, with the ``disk`` that it is on. The ``volume_id`` of a
#: snapshot is the snapshot's own ID.
VDisk = collections.abc.Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """A vdisk, or space claimed for vdisks that are not bound yet.

    ``status`` is ``ok`` (a claim on the disk covers the vdisk), ``pending``
    (space is claimed and has no vdisk yet) or ``unclaimed`` (no claim covers
    all of the vdisk; the disk's inventory reserves the rest). A snapshot has a
    ``snapshot_id`` and no ``volume_id``.

    Whether a vdisk ought to fill a claim on another disk is not told: a vdisk
    that was attached to the running server, beside a claim whose vdisk was
    deleted since, looks just like one that was moved by hand.
    """

    volume_id: str | None
    claimed_disk: str | None
    actual_disk: str | None
    size_gb: int
    status: str
    snapshot_id: str | None = None


def match(
    claims: collections.abc.Mapping[str, int],
    vdisks: collections.abc.Iterable[VDisk],
) -> list[Row]:
    """Return the rows of one server.

    :param claims: the server's claims in GiB, by disk.
    :param vdisks: the vdisks that were bound for it.
    """
    left = dict(claims)
    rows, uncovered = [], []
    by_disk = collections.defaultdict(list)
    for vdisk in sorted(
        vdisks, key=lambda vdisk: (vdisk['disk'], vdisk['volume_id'])
    ):
        by_disk[vdisk['disk']].append(vdisk)
    for disk, present in by_disk.items():
        covered = _best_fit(claims.get(disk, 0), present)
        for number, vdisk in enumerate(present):
            if number in covered:
                rows.append(_row(vdisk, disk, OK))
            else:
                uncovered.append(_row(vdisk, None, UNCLAIMED))
        # a vdisk that was extended beyond its claim fills it, too
        left[disk] = claims.get(disk, 0) - sum(
            vdisk['size_gb'] for vdisk in present
        )
    rows += uncovered
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
