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

"""Claims of servers on a disk, and space reserved for vdisks, in GiB.

A server's claim is what its allocations in Placement hold on the disk; a vdisk
counts against the claim of the server that it was bound for, attached or not.

The invariant: each consumer takes the larger of its claim and its vdisks, and
a disk's claims and its reserved part are together what is taken:

    sum of claims + reserved = sum over servers of max(claim, vdisks)

A claim may be smaller than the vdisks that exist, because the rest is
reserved. It follows that a claim holds the space of vdisks to come only as
far as it exceeds the server's vdisks on that disk. So a server that gets new
vdisks on a disk claims all that it has there, and the new ones: ``claim_gb``.

While Nova moves a server, the migration is the consumer of the old claim, and
nothing tells Placement that the server's vdisks are the migration's. Both
count until Nova drops one of them.
"""

import collections
import collections.abc

from nova_diskplacer.disks.vdisk import VDisk

#: figures by server or by disk
Figures = collections.abc.Mapping[str, int]


def reserved_gb(
    vdisks: collections.abc.Iterable[VDisk], claims: Figures
) -> int:
    """Return the GiB that a disk's vdisks take outside the servers' claims."""
    taken: dict[str | None, int] = collections.defaultdict(int)
    for vdisk in vdisks:
        taken[vdisk.server_id] += vdisk.size_gb
    return reserved_of(taken, claims)


def reserved_of(
    taken: collections.abc.Mapping[str | None, int], claims: Figures
) -> int:
    """Return the GiB that vdisks take outside the servers' claims.

    :param taken: GiB of a disk's vdisks by server, None for no server.
    """
    return sum(
        max(0, gb - (claims.get(server, 0) if server else 0))
        for server, gb in taken.items()
    )


def unfilled_gb(
    vdisks: collections.abc.Iterable[VDisk], server_id: str, claim: int
) -> int:
    """Return the GiB of a server's claim that no vdisk of its disk fills.

    It is negative where the claim does not cover the vdisks.
    """
    return claim - sum(
        vdisk.size_gb for vdisk in vdisks if vdisk.server_id == server_id
    )


def claim_gb(bound_gb: int, new_gb: int, held_gb: int, free_gb: int) -> int:
    """Return the GiB that a server claims on a disk that has room for it.

    It claims all of its vdisks there, so that the claim never depends on
    when the agent has reserved them, unless they are reserved and the disk
    has no room to count them twice until the agent looks again.

    :param bound_gb: GiB of its vdisks there.
    :param new_gb: GiB of those to come.
    :param held_gb: GiB of its vdisks that are reserved.
    :param free_gb: GiB of the disk that are neither claimed nor reserved.
    """
    if new_gb or bound_gb <= free_gb:
        return bound_gb + new_gb
    return bound_gb - held_gb
