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

"""The disks that legs of a vdisk are moved to."""

import collections.abc
import dataclasses

from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import paths


@dataclasses.dataclass(frozen=True)
class Targets:
    """The path to another width, or none and the reason."""

    path: paths.Path = ()
    reason: str = ''


def choose(
    vdisk: inputs.ElasticVDisk,
    width: int,
    disks: collections.abc.Mapping[str, inputs.Disk],
    others: collections.abc.Mapping[str, float],
    limit: float,
) -> Targets:
    """Choose the path of a vdisk to another width.

    A disk gets legs only if it has room for them, and at most ``limit`` of
    utilization by others. Where the vdisk gets further disks, they have the
    medium of its present ones, and no larger logical blocks, which the vdisk
    could not have while it is in use; those that others use least come first,
    then those with most room.

    :param others: the utilization of each disk by others than the vdisk, 0 to
        1; a disk that is not in it was not measured and gets no legs.
    """

    suit = {uuid for uuid, used in others.items() if used <= limit}
    if width > vdisk.width:
        return _widened(vdisk, width, disks, others, suit, limit)
    path = paths.narrowed(vdisk.location, vdisk.minimum)
    path = path[: vdisk.width - width + 1]
    for uuid, most in paths.most_held(path).items():
        more_gb = (most - vdisk.location.count(uuid)) * vdisk.leg_gb
        if more_gb and disks[uuid].free_gb < more_gb:
            return Targets(reason=f'disk {uuid} has no room for {more_gb} GiB')
        if more_gb and uuid not in suit:
            return Targets(
                reason=f'disk {uuid} is used to more than {limit:.0%} by '
                'others or is not measured'
            )
    return Targets(path)


def _widened(
    vdisk: inputs.ElasticVDisk,
    width: int,
    disks: collections.abc.Mapping[str, inputs.Disk],
    others: collections.abc.Mapping[str, float],
    suit: collections.abc.Collection[str],
    limit: float,
) -> Targets:
    number = width - vdisk.width
    names = [str(index) for index in range(number)]
    legs_on = paths.most_held(paths.widened(vdisk.location, names))
    # each may be the one that gets most
    needed_gb = max(legs_on[name] for name in names) * vdisk.leg_gb
    media = {disks[uuid].medium for uuid in vdisk.disks}
    alike = {
        uuid: disk
        for uuid, disk in disks.items()
        if disk.medium in media and uuid not in vdisk.location
    }
    block_size = max(disks[uuid].block_size for uuid in vdisk.disks)
    fine = {
        uuid: disk
        for uuid, disk in alike.items()
        if disk.block_size <= block_size
    }
    roomy = {uuid for uuid, disk in fine.items() if disk.free_gb >= needed_gb}
    suitable = roomy.intersection(suit)
    if len(suitable) < number:
        return Targets(
            reason=f'{len(suitable)} of {number} further disks suit: of '
            f'{len(alike)} others of its medium {len(alike) - len(fine)} '
            f'have larger logical blocks, {len(fine) - len(roomy)} '
            f'have no room for {needed_gb} GiB, {len(roomy) - len(suitable)} '
            f'are used to more than {limit:.0%} by others or are not measured'
        )
    order = sorted(
        suitable, key=lambda uuid: (others[uuid], -disks[uuid].free_gb, uuid)
    )
    return Targets(paths.widened(vdisk.location, order[:number]))
