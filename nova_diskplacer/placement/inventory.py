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

"""Updates the inventories of a disk's provider in Placement.

The agent updates those of all disks, the Cinder driver that of a disk that it
has just changed. Both compute the same from the disk itself, so they may do it
at the same time and in any order.
"""

import collections.abc
import dataclasses
import typing

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Inventories
from nova_diskplacer.placement.client import PlacementClient
from nova_diskplacer.placement.client import Resources

_ATTEMPTS = 10


@dataclasses.dataclass(frozen=True)
class Figures:
    """What a disk's provider offers and what is claimed of it.

    ``gb`` in GiB, ``mbps`` in MB/s.
    """

    total_gb: int
    reserved_gb: int
    used_gb: int
    total_mbps: int
    used_mbps: int

    @property
    def room_gb(self) -> int:
        """GiB that nobody claims and no vdisk takes; below 0 if oversold."""
        return self.total_gb - self.reserved_gb - self.used_gb


def figures(
    disk: discover.Disk, claims: collections.abc.Mapping[str, Resources]
) -> Figures:
    """Return what a disk's provider should say.

    :param claims: what each server has claimed of the disk.
    """
    total = max(disk.total_gb, 1)
    reserved = ledger.reserved_gb(
        disk.vdisks,
        {server: claim.get(GB, 0) for server, claim in claims.items()},
    )
    return Figures(
        total_gb=total,
        reserved_gb=reserved if disk.total_gb else total,
        used_gb=sum(claim.get(GB, 0) for claim in claims.values()),
        total_mbps=disk.mbps,
        used_mbps=sum(claim.get(MBPS, 0) for claim in claims.values()),
    )


def withdrawn(
    inventories: Inventories,
    claims: collections.abc.Mapping[str, Resources],
) -> Figures:
    """Return what the provider of a disk that is not offered should say.

    :param inventories: what it has said so far.
    """
    total = inventories.get(GB, {}).get('total', 1)
    return Figures(
        total_gb=total,
        reserved_gb=total,
        used_gb=sum(claim.get(GB, 0) for claim in claims.values()),
        total_mbps=inventories.get(MBPS, {}).get('total', 1),
        used_mbps=sum(claim.get(MBPS, 0) for claim in claims.values()),
    )


def sync_disk(
    client: PlacementClient,
    uuid: str,
    look: collections.abc.Callable[[], discover.Disk],
) -> Figures:
    """Have a disk's provider say what is true; repeatable.

    When it returns, no allocation has been made between the reading of the
    claims and the writing of the inventories. A disk that is missing or
    read-only is not offered: all of it is reserved.

    :param look: returns the disk as it is now. It is called after the
        provider has been read, so that what somebody else has written about
        a newer state of the disk is never undone.
    :raises Conflict: others kept changing the provider.
    :raises PlacementError: Placement does not answer, or has no such
        provider.
    """
    for _ in range(_ATTEMPTS):
        generation, present = client.inventories(uuid)
        disk = look()
        claims = client.provider_allocations(uuid)
        if disk.health == discover.OK:
            wanted = figures(disk, claims)
        else:
            wanted = withdrawn(present, claims)
        inventories = _inventories(wanted)
        try:
            if not _same(present, inventories):
                client.set_inventories(uuid, generation, inventories)
            elif client.inventories(uuid)[0] != generation:
                continue
        except exception.Conflict:
            continue
        return wanted
    raise exception.Conflict(
        f'the provider of disk {uuid} changed {_ATTEMPTS} times while it was '
        'brought up to date'
    )


def claim_held(
    client: PlacementClient,
    uuid: str,
    server: str,
    claim: Resources,
    look: collections.abc.Callable[[], discover.Disk],
) -> None:
    """Have a server claim what its vdisks take on a disk; repeatable.

    One request changes what the server claims of the disk and what is
    reserved of it, so that nothing counts twice or is anybody else's between
    the two. What else the server has claimed stays.

    :param claim: what the server should claim of the disk at least.
    :param look: see :func:`sync_disk`.
    :raises DiskError: the disk lacks the room.
    :raises Conflict: others kept changing the provider or the server.
    :raises PlacementError: Placement does not answer or refuses, or the
        server has no allocations any more.
    """
    refusal = ''
    for _ in range(_ATTEMPTS):
        generation, _present = client.inventories(uuid)
        disk = look()
        claims = client.provider_allocations(uuid)
        allocations = client.allocations(server)
        if not allocations.resources:
            raise exception.PlacementError(
                f'server {server} has no allocations in Placement any more'
            )
        before = claims.get(server, {})
        mine = {
            name: max(before.get(name, 0), claim.get(name, 0))
            for name in before.keys() | claim.keys()
        }
        wanted = figures(disk, {**claims, server: mine})
        if wanted.room_gb < 0 or wanted.used_mbps > wanted.total_mbps:
            raise exception.DiskError(
                f'disk {uuid} lacks the room: {wanted.used_gb} GiB would be '
                f'claimed and {wanted.reserved_gb} reserved of '
                f'{wanted.total_gb}, and {wanted.used_mbps} of '
                f'{wanted.total_mbps} MB/s claimed'
            )
        try:
            client.reshape(
                uuid,
                generation,
                _inventories(wanted),
                server,
                dataclasses.replace(
                    allocations,
                    resources={**allocations.resources, uuid: mine},
                ),
            )
        except exception.Conflict as error:
            refusal = str(error)
            continue
        return
    raise exception.Conflict(
        f'Placement refused {_ATTEMPTS} times to have server {server} claim '
        f'what it has on disk {uuid}: {refusal}'
    )


def same(present: Inventories, wanted: Figures) -> bool:
    """Tell whether a disk's provider says what it should."""
    return _same(present, _inventories(wanted))


def _inventories(wanted: Figures) -> Inventories:
    return {
        GB: _inventory(
            wanted.total_gb, min(wanted.reserved_gb, wanted.total_gb)
        ),
        MBPS: _inventory(wanted.total_mbps, 0),
    }


def _inventory(total: int, reserved: int) -> dict[str, typing.Any]:
    return {
        'total': total,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


def _same(present: Inventories, wanted: Inventories) -> bool:
    return present.keys() == wanted.keys() and all(
        present[name][key] == value
        for name, inventory in wanted.items()
        for key, value in inventory.items()
    )
