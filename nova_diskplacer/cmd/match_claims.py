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

"""Pairs what servers have claimed on disks with the vdisks that are there."""

import collections
import collections.abc
import dataclasses

OK = 'ok'
PENDING = 'pending'
UNCLAIMED = 'unclaimed'
MISMATCH = 'mismatch'


@dataclasses.dataclass(frozen=True)
class Actual:
    """A vdisk on a disk; ``size_gb`` in GiB.

    ``volume_id`` of a snapshot is the snapshot's own id.
    """

    volume_id: str
    server_id: str | None
    disk: str
    size_gb: int
    is_snapshot: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """A vdisk, or room claimed for vdisks that are not bound yet.

    ``status`` is ``ok`` (it is where its server has claimed), ``pending``
    (claimed, no vdisk there yet), ``unclaimed`` (no claim covers it; the
    disk's inventory reserves it) or ``mismatch`` (no claim covers it where
    it is, while its server has claimed room for it on ``claimed_disk``). A
    snapshot has a ``snapshot_id`` and no ``volume_id``.
    """

    volume_id: str | None
    claimed_disk: str | None
    actual_disk: str | None
    size_gb: int
    status: str
    snapshot_id: str | None = None


def pair(
    claims: collections.abc.Mapping[str, int],
    vdisks: collections.abc.Iterable[Actual],
) -> list[Row]:
    """Return the rows of one server.

    :param claims: what the server has claimed on each disk, in GiB.
    :param vdisks: the vdisks that were bound for it.
    """
    left = collections.Counter(claims)
    rows = []
    homeless = []
    by_disk = collections.defaultdict(list)
    for vdisk in sorted(vdisks, key=lambda v: (v.disk, v.volume_id)):
        by_disk[vdisk.disk].append(vdisk)
    for disk, present in by_disk.items():
        filling = _filling(left[disk], present)
        for number, vdisk in enumerate(present):
            if number in filling:
                left[disk] -= vdisk.size_gb
                rows.append(_row(vdisk, disk, OK))
            else:
                homeless.append(vdisk)
    for vdisk in homeless:
        meant = next(
            (
                disk
                for disk, gb in sorted(left.items())
                if disk != vdisk.disk and gb >= vdisk.size_gb
            ),
            None,
        )
        if meant is None:
            rows.append(_row(vdisk, None, UNCLAIMED))
        else:
            left[meant] -= vdisk.size_gb
            rows.append(_row(vdisk, meant, MISMATCH))
    rows.extend(
        Row(None, disk, None, gb, PENDING)
        for disk, gb in sorted(left.items())
        if gb > 0
    )
    return rows


def _filling(claim: int, vdisks: list[Actual]) -> frozenset[int]:
    """Return which of a disk's vdisks fill a claim on it the best."""
    best: dict[int, frozenset[int]] = {0: frozenset()}
    for number, vdisk in enumerate(vdisks):
        for filled, chosen in list(best.items()):
            if filled + vdisk.size_gb <= claim:
                best.setdefault(filled + vdisk.size_gb, chosen | {number})
    return best[max(best)]


def _row(vdisk: Actual, claimed: str | None, status: str) -> Row:
    return Row(
        None if vdisk.is_snapshot else vdisk.volume_id,
        claimed,
        vdisk.disk,
        vdisk.size_gb,
        status,
        vdisk.volume_id if vdisk.is_snapshot else None,
    )
