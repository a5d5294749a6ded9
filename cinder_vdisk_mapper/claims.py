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

"""Which vdisks of a server its claims lack: a pure decision.

Nova claims a server's room on disks when it schedules the server. A server
that was forced to a host past the scheduler's filters has no claims, and
``nova-manage placement heal_allocations --force`` drops those that a server
had. Its vdisks then count as reserved, and its MB/s are promised to others.
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
    """What a server should claim of a disk beyond what it does.

    ``vdisks`` is how many of its vdisks lie there without a claim, ``gb`` the
    GiB and ``mbps`` the MB/s that its claim lacks for them.
    """

    disk: str
    vdisks: int
    gb: int
    mbps: int


def lacks(
    request: flavor.VDiskRequest, held: Held, claims: Claims
) -> tuple[list[Lack], int]:
    """Return what a server's claims lack for the vdisks that it has.

    A server may have more vdisks than its flavor gives it; those attached
    while it ran need no claim.

    :param held: the disk of each of its vdisks, and the vdisk.
    :param claims: what it has claimed of each disk.
    :returns: what its claim lacks on each disk, and how many of the flavor's
        vdisks neither exist nor are claimed.
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
