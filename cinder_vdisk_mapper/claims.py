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

"""Computes the claims that a server lacks for its vdisks.

Nova claims space on disks when it schedules a server. A server that was forced
to a host without the scheduler's filters has no claims, and ``nova-manage
placement heal_allocations --force`` drops the claims of a server. The space of
its vdisks is then reserved, but its MB/s are available to others.
"""

import collections
import collections.abc
import dataclasses

from nova_diskplacer import flavor
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Resources

Held = collections.abc.Iterable[tuple[str, VDisk]]
Claims = collections.abc.Mapping[str, Resources]


@dataclasses.dataclass(frozen=True)
class Lack:
    """The part of a server's claim on a disk that is missing.

    ``vdisks`` is the number of its vdisks there without a claim, ``gb`` and
    ``mbps`` are the GiB and MB/s that its claim lacks for them.
    """

    disk: str
    vdisks: int
    gb: int
    mbps: int


def lacks(
    request: flavor.VDiskRequest, held: Held, claims: Claims
) -> tuple[list[Lack], int]:
    """Return the claims that a server lacks for its vdisks.

    Vdisks beyond those of its flavor, which were attached while it ran, need
    no claim.

    :param held: its vdisks, each with its disk.
    :param claims: its claims by disk.
    :returns: the missing part of each claim, and the number of the flavor's
        vdisks that neither exist nor are claimed.
    """
    left = {disk: claim.get(GB, 0) for disk, claim in claims.items()}
    number: collections.Counter[str] = collections.Counter()
    unclaimed = []
    for disk, vdisk in sorted(
        held, key=lambda one: (one[1].size_gb != request.vdisk_gb, one[1].name)
    ):
        if left.get(disk, 0) >= vdisk.size_gb:
            left[disk] -= vdisk.size_gb
            number[disk] += 1
        else:
            unclaimed.append((disk, vdisk))
    to_come = sum(gb // request.vdisk_gb for gb in left.values())
    missing = max(0, request.vdisks - number.total() - to_come)
    gb: collections.Counter[str] = collections.Counter()
    without: collections.Counter[str] = collections.Counter()
    for disk, vdisk in unclaimed[:missing]:
        without[disk] += 1
        gb[disk] += vdisk.size_gb
    found = []
    for disk in sorted(number | without):
        mbps = (number + without)[disk] * request.vdisk_mbps
        lack = Lack(
            disk,
            without[disk],
            max(0, gb[disk] - left.get(disk, 0)),
            max(0, mbps - claims.get(disk, {}).get(MBPS, 0)),
        )
        if lack.gb or lack.mbps:
            found.append(lack)
    return found, missing - without.total()
