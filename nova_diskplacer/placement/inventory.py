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

"""Computes the inventories of a disk's provider and sets them in Placement.

The agent sets those of all disks, the Cinder driver those of a disk that it
has just changed. Both compute them from the disk itself, so they may do it at
the same time and in any order.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Inventories
from nova_diskplacer.placement.client import PlacementClient
from nova_diskplacer.placement.client import Resources

_ATTEMPTS = 10

# Placement's largest amount: its capacity alone bounds a claim. Placement
# lets a server keep what exceeds the capacity of a disk, but nothing that
# exceeds this, and a disk may turn out to have less than it had.
_MAX_UNIT = 0x7FFFFFFF


@dataclasses.dataclass(frozen=True)
class DiskFigures:
    """The inventories and the usage of a disk's provider, in GiB and MB/s.

    ``claims`` are the GiB of each server, whose sum is ``used_gb``.
    ``draining`` is true for a disk that is emptied, see :attr:`offered`.
    """

    total_gb: int
    reserved_gb: int
    used_gb: int
    total_mbps: int
    used_mbps: int
    claims: collections.abc.Mapping[str, int] = dataclasses.field(
        default_factory=dict, compare=False
    )
    draining: bool = dataclasses.field(default=False, compare=False)

    @property
    def offered(self) -> 'DiskFigures':
        """The figures for Placement and the schedulers.

        All of a disk that is drained is reserved there.
        """
        if not self.draining:
            return self
        return dataclasses.replace(self, reserved_gb=self.total_gb)

    @property
    def free_gb(self) -> int:
        """GiB that no claim and no vdisk takes; negative if oversold."""
        return self.total_gb - self.reserved_gb - self.used_gb


def compute_figures(
    disk: discover.Disk, claims: collections.abc.Mapping[str, Resources]
) -> DiskFigures:
    """Return the figures for a healthy disk with servers' claims on it.

    They are what the disk's vdisks and claims take, on a disk that is drained
    too.
    """
    total = max(disk.total_gb, 1)
    claimed = _claimed(GB, claims)
    reserved = ledger.reserved_gb(disk.vdisks, claimed)
    return DiskFigures(
        total,
        reserved if disk.total_gb else total,
        sum(claimed.values()),
        disk.mbps,
        sum(_claimed(MBPS, claims).values()),
        claimed,
        disk.draining,
    )


def fully_reserved(
    inventories: Inventories, claims: collections.abc.Mapping[str, Resources]
) -> DiskFigures:
    """Return the figures for a disk that is not offered.

    :param inventories: the present inventories of its provider.
    """
    total = inventories.get(GB, {}).get('total', 1)
    claimed = _claimed(GB, claims)
    return DiskFigures(
        total,
        total,
        sum(claimed.values()),
        inventories.get(MBPS, {}).get('total', 1),
        sum(_claimed(MBPS, claims).values()),
        claimed,
    )


def _claimed(
    resource: str, claims: collections.abc.Mapping[str, Resources]
) -> dict[str, int]:
    """Return what servers claim of a resource of a disk, by server."""
    return {
        server: claim[resource]
        for server, claim in claims.items()
        if resource in claim
    }


class DiskState(NamedTuple):
    """A disk, and its provider in Placement."""

    generation: int
    inventories: Inventories
    disk: discover.Disk
    claims: dict[str, Resources]

    def figures(self, claims: dict[str, Resources]) -> DiskFigures:
        """Return the figures with claims, which may be other ones.

        A disk that is missing or read-only is not offered.
        """
        if self.disk.health == discover.OK:
            return compute_figures(self.disk, claims)
        return fully_reserved(self.inventories, claims)


def read(
    client: PlacementClient,
    uuid: str,
    read_disk: collections.abc.Callable[[], discover.Disk],
) -> DiskState:
    """Return a disk and its provider.

    The generation is read first: whatever another process changes afterwards
    makes a change with that generation fail.

    :param read_disk: returns the present state of the disk.
    :raises PlacementError: Placement does not answer, or has no such provider.
    """
    generation, present = client.inventories(uuid)
    disk = read_disk()
    return DiskState(
        generation, present, disk, client.provider_allocations(uuid)
    )


def sync_disk(
    client: PlacementClient,
    uuid: str,
    read_disk: collections.abc.Callable[[], discover.Disk],
) -> DiskFigures:
    """Set the inventories of a disk's provider; repeatable.

    When it returns, no allocation was made between the reading of the claims
    and the writing of the inventories. A disk that is missing or read-only is
    not offered: all of it is reserved.

    :param read_disk: returns the present state of the disk; see :func:`read`.
        Figures that another process wrote for a newer state of the disk are
        never overwritten.
    :returns: the figures; Placement has their ``offered``.
    :raises Conflict: other processes kept changing the provider.
    :raises PlacementError: Placement does not answer, or has no such
        provider.
    """
    for _ in range(_ATTEMPTS):
        state = read(client, uuid, read_disk)
        figures = state.figures(state.claims)
        try:
            if not is_current(state.inventories, figures):
                client.set_inventories(
                    uuid, state.generation, inventories(figures)
                )
            elif client.inventories(uuid)[0] != state.generation:
                continue
        except exception.Conflict:
            continue
        return figures
    raise exception.Conflict(
        f'the provider of disk {uuid} changed during each of {_ATTEMPTS} '
        'attempts to update it'
    )


def ensure_claim(
    client: PlacementClient,
    uuid: str,
    server: str,
    claim: Resources,
    read_disk: collections.abc.Callable[[], discover.Disk],
) -> None:
    """Raise a server's claim on a disk to what its vdisks take; repeatable.

    One request changes the claim and the reserved part of the disk, so that
    the space never counts twice and never seems free. The server's other
    allocations stay.

    :param claim: the minimum of the server's claim on the disk.
    :param read_disk: see :func:`sync_disk`.
    :raises DiskError: the claim does not fit on the disk.
    :raises Conflict: other processes kept changing the provider or the
        server's allocations.
    :raises PlacementError: Placement does not answer or refuses, or the
        server has no allocations.
    """

    def attempt() -> None:
        state = read(client, uuid, read_disk)
        allocations = client.allocations(server)
        if not allocations.resources:
            raise exception.PlacementError(
                f'server {server} has no allocations in Placement'
            )
        before = state.claims.get(server, {})
        claimed = {
            name: max(before.get(name, 0), claim.get(name, 0))
            for name in before.keys() | claim.keys()
        }
        if state.disk.draining:
            raise exception.DiskError(
                f'disk {uuid} is being drained and takes no claims'
            )
        figures = compute_figures(
            state.disk, {**state.claims, server: claimed}
        )
        check_fits(uuid, figures)
        client.reshape(
            {uuid: (state.generation, inventories(figures))},
            server,
            dataclasses.replace(
                allocations,
                resources={**allocations.resources, uuid: claimed},
            ),
        )

    retry(f'change the claim of server {server} on disk {uuid}', attempt)


def release_claim(
    client: PlacementClient,
    uuid: str,
    migration: str,
    read_disk: collections.abc.Callable[[], discover.Disk],
) -> None:
    """Drop the claim of a migration on a disk; repeatable.

    One request drops the claim and reserves the vdisks that it covered. The
    other allocations of the migration stay.

    :param read_disk: see :func:`sync_disk`.
    :raises Conflict: other processes kept changing the provider or the
        migration's allocations.
    :raises PlacementError: Placement does not answer or refuses.
    """

    def attempt() -> None:
        state = read(client, uuid, read_disk)
        allocations = client.allocations(migration)
        kept = dict(allocations.resources)
        if kept.pop(uuid, None) is None:
            return
        claims = dict(state.claims)
        claims.pop(migration, None)
        figures = state.figures(claims)
        client.reshape(
            {uuid: (state.generation, inventories(figures))},
            migration,
            dataclasses.replace(allocations, resources=kept),
            'MIGRATION',
        )

    retry(f'drop the claim of migration {migration} on disk {uuid}', attempt)


def check_fits(uuid: str, figures: DiskFigures) -> None:
    """Check that a disk has the room for its claims and vdisks.

    :raises DiskError: it has not.
    """
    if figures.free_gb < 0 or figures.used_mbps > figures.total_mbps:
        raise exception.DiskError(
            f'the claim does not fit on disk {uuid}: {figures.used_gb} GiB '
            f'claimed and {figures.reserved_gb} GiB reserved of '
            f'{figures.total_gb}, {figures.used_mbps} of '
            f'{figures.total_mbps} MB/s claimed'
        )


def retry(change: str, attempt: collections.abc.Callable[[], None]) -> None:
    """Change claims; again where other processes have changed them meanwhile.

    :param change: what is changed, for the error.
    :param attempt: reads what it changes, and raises Conflict.
    :raises Conflict: others kept changing them.
    """
    refusal = ''
    for _ in range(_ATTEMPTS):
        try:
            attempt()
        except exception.Conflict as error:
            refusal = str(error)
        else:
            return
    raise exception.Conflict(
        f'Placement refused {_ATTEMPTS} times to {change}: {refusal}'
    )


def is_current(present: Inventories, figures: DiskFigures) -> bool:
    """Return whether a provider's inventories match the figures."""
    offered = inventories(figures)
    return present.keys() == offered.keys() and all(
        present[name][key] == value
        for name, inventory in offered.items()
        for key, value in inventory.items()
    )


def inventories(figures: DiskFigures) -> Inventories:
    """Return the inventories of a provider with these figures."""
    reserved = min(figures.offered.reserved_gb, figures.total_gb)
    return {
        name: {
            'total': total,
            'reserved': reserved,
            'min_unit': 1,
            'max_unit': _MAX_UNIT,
            'step_size': 1,
            'allocation_ratio': 1.0,
        }
        for name, total, reserved in (
            (GB, figures.total_gb, reserved),
            (MBPS, figures.total_mbps, 0),
        )
    }
