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

"""The disks to which a vdisk is moved.

A move makes a new set of pieces beside the old one, and removes the old one
at its end. So a disk that the vdisk keeps must have room for its new piece
while it still holds the old one, and keeping a disk spares no copying. It
spares other disks, and the servers on them.
"""

import collections.abc
import dataclasses

from nova_diskplacer.elastic import host as host_


@dataclasses.dataclass(frozen=True)
class Targets:
    """The chosen disks, or none and the reason."""

    disks: tuple[str, ...] = ()
    reason: str = ''


def choose(
    vdisk: host_.ElasticVDisk,
    width: int,
    disks: collections.abc.Mapping[str, host_.Disk],
    others: collections.abc.Mapping[str, float],
    limit: float,
) -> Targets:
    """Choose the disks of a vdisk for another width.

    They have the medium of its present disks, room for a piece, and at most
    ``limit`` of utilization by others. Disks of the vdisk come first, then
    those that others use least, then those with most room.

    :param others: the utilization of each disk by others than the vdisk, 0 to
        1; a disk that is not in it was not measured and is not chosen.
    """
    media = {disks[uuid].medium for uuid in vdisk.disks}
    alike = {
        uuid: disk for uuid, disk in disks.items() if disk.medium in media
    }
    piece_gb = vdisk.piece_gb(width)
    roomy = {uuid for uuid, disk in alike.items() if disk.room_gb >= piece_gb}
    unused = {
        uuid for uuid in roomy if uuid in others and others[uuid] <= limit
    }
    if len(unused) < width:
        lacking = len(alike) - len(roomy)
        return Targets(
            reason=f'{len(unused)} of the {width} disks that it needs suit: '
            f'of {len(alike)} disks of its medium {lacking} have no room for '
            f'{piece_gb} GiB, {len(roomy) - len(unused)} others are used to '
            f'more than {limit:.0%} by others or are not measured'
        )
    order = sorted(
        unused,
        key=lambda uuid: (
            uuid not in vdisk.disks,
            others[uuid],
            -disks[uuid].room_gb,
            uuid,
        ),
    )
    return Targets(tuple(order[:width]))
