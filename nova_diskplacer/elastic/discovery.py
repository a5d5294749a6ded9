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

"""Finds the elastic vdisks among what is on the disks of a host."""

import collections
import collections.abc
import dataclasses

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import vdisk as vdisk_
from nova_diskplacer.elastic import inputs


@dataclasses.dataclass(frozen=True)
class Found:
    """An elastic vdisk with its name, which its logical volumes have."""

    name: str
    vdisk: inputs.ElasticVDisk


#: By the ID of the volume.
VDisks = collections.abc.Mapping[str, Found]


def find(
    disks: collections.abc.Iterable[discover.Disk], before: VDisks
) -> dict[str, Found]:
    """Return the elastic vdisks on disks.

    While a step ends, the pieces of a vdisk tell of two locations: until those
    of one are complete, it counts as where it was before.

    :param before: what was found the last time.
    """
    pieces: dict[str, dict[str, vdisk_.VDisk]] = collections.defaultdict(dict)
    for disk in disks:
        for piece in disk.vdisks:
            if piece.minimum and piece.usable and not piece.is_snapshot:
                pieces[piece.volume_id][disk.uuid] = piece
    vdisks = {}
    for uuid, by_disk in pieces.items():
        whole = [
            piece
            for piece in by_disk.values()
            if all(
                disk in by_disk and by_disk[disk].stripe == piece.stripe
                for disk in piece.stripe
            )
        ]
        if whole or uuid not in before:
            piece = (whole or list(by_disk.values()))[0]
            vdisks[uuid] = _found(piece, by_disk)
        else:
            vdisks[uuid] = before[uuid]
    return vdisks


def _found(
    piece: vdisk_.VDisk, by_disk: collections.abc.Mapping[str, vdisk_.VDisk]
) -> Found:
    location = piece.stripe
    # one that grows for a step is larger than its legs
    leg_bytes = min(
        piece.size_bytes // max(1, location.count(disk))
        for disk, piece in by_disk.items()
    )
    leg_gb = -(-leg_bytes // vdisk_.GIB)
    return Found(
        piece.name, inputs.ElasticVDisk(leg_gb, piece.minimum, location)
    )


def require(
    disks: collections.abc.Iterable[discover.Disk], volume: str
) -> inputs.ElasticVDisk:
    """Return the elastic vdisk of a volume.

    :raises ElasticError: there is no such one on the disks.
    """
    vdisks = find(disks, {})
    if volume not in vdisks:
        raise exception.ElasticError(
            f'{volume} is not the ID of a volume that is an elastic vdisk of '
            f'this host: {", ".join(sorted(vdisks)) or "there are none"}'
        )
    return vdisks[volume].vdisk
