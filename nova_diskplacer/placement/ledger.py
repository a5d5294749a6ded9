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

"""Claimed and reserved space on disks.

All figures are in GiB. A server's claim on a disk is what its allocations in
Placement hold there; a vdisk counts against the claim of the server that it
was bound for, attached or not. ``claimed_space`` has the rule for both.
"""

import collections
import collections.abc

from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import claimed_space
from nova_diskplacer.placement.claimed_space import Figures


def reserved_gb(
    vdisks: collections.abc.Iterable[VDisk], claims: Figures
) -> int:
    """Return the GiB that a disk's vdisks take outside the servers' claims."""
    taken: dict[str | None, int] = collections.defaultdict(int)
    for vdisk in vdisks:
        taken[vdisk.server_id] += vdisk.size_gb
    return claimed_space.reserved_of(taken, claims)


def filled_gb(disk: discover.Disk, server_id: str) -> int:
    """Return the GiB of a server's vdisks on a disk."""
    return sum(
        vdisk.size_gb for vdisk in disk.vdisks if vdisk.server_id == server_id
    )


def unfilled_gb(disk: discover.Disk, server_id: str, claim: int) -> int:
    """Return the GiB of a server's claim on a disk that no vdisk fills."""
    return claim - filled_gb(disk, server_id)
