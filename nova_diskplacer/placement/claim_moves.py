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

"""Moves a server's claim from disk to disk, after a vdisk that it is for.

Space of vdisks without a claim is reserved. So the claim of a vdisk that has a
copy on another disk may be moved before or after the copy is filled: either
copy is claimed or reserved at every moment.
"""

import collections.abc
import dataclasses

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Allocations
from nova_diskplacer.placement.client import PlacementClient
from nova_diskplacer.placement.client import Resources

_ATTEMPTS = 10


def part_to_move(
    source: Resources,
    filled_gb: int,
    target: Resources,
    needed_gb: int,
    leaving_gb: int = 0,
) -> Resources:
    """Return the part of a server's claim that its vdisks have left.

    MB/s are moved in proportion to GiB.

    :param source: the claim on the disk that a vdisk leaves.
    :param filled_gb: GiB of the server's vdisks on that disk.
    :param target: the claim on the disk that the vdisk goes to.
    :param needed_gb: GiB of the server's vdisks there.
    :param leaving_gb: GiB of vdisks that are about to leave: no more is
        moved, since the rest is for vdisks to come. 0 if they have left.
    """
    claimed = source.get(GB, 0)
    gb = min(
        max(0, claimed - max(0, filled_gb - leaving_gb)),
        max(0, needed_gb - target.get(GB, 0)),
        leaving_gb or claimed,
    )
    if not gb:
        return {}
    mbps = source.get(MBPS, 0) * gb // claimed
    return {GB: gb, MBPS: mbps} if mbps else {GB: gb}


def follow(
    client: PlacementClient,
    server: str,
    source: str,
    target: str,
    read_disk: collections.abc.Callable[[str], discover.Disk],
    leaving_gb: int = 0,
) -> None:
    """Move the part of a claim that vdisks have left; repeatable.

    One request changes both claims and the reserved parts of both disks.

    :param read_disk: returns the present state of a disk.
    :param leaving_gb: GiB of vdisks that count as gone from ``source``, and
        the most that is moved; 0 if they are gone.
    :raises DiskError: the claim does not fit on ``target``.
    :raises Conflict: other processes kept changing the providers or the
        server's allocations.
    :raises PlacementError: Placement does not answer or refuses.
    """
    refusal = ''
    for _ in range(_ATTEMPTS):
        old = _read(client, source, read_disk)
        new = _read(client, target, read_disk)
        allocations = client.allocations(server)
        part = part_to_move(
            old.claims.get(server, {}),
            ledger.filled_gb(old.disk, server),
            new.claims.get(server, {}),
            ledger.filled_gb(new.disk, server),
            leaving_gb,
        )
        if not part:
            # or the answer to an attempt was lost
            return
        after = moved(allocations, source, target, part)
        left = old.figures(server, after.resources.get(source))
        # a claim that comes back to a disk that is drained fits
        usable = dataclasses.replace(new.disk, draining=False)
        filled = dataclasses.replace(new, disk=usable).figures(
            server, after.resources.get(target)
        )
        _check_fits(target, filled)
        try:
            client.reshape(
                {
                    source: (old.generation, inventory.inventories(left)),
                    target: (new.generation, inventory.inventories(filled)),
                },
                server,
                after,
            )
        except exception.Conflict as error:
            refusal = str(error)
        else:
            return
    raise exception.Conflict(
        f'Placement refused {_ATTEMPTS} times to move the claim of server '
        f'{server} from disk {source} to {target}: {refusal}'
    )


@dataclasses.dataclass(frozen=True)
class _State:
    """A disk, and its provider in Placement: generation and claims."""

    generation: int
    disk: discover.Disk
    claims: dict[str, Resources]

    def figures(
        self, server: str, claim: Resources | None
    ) -> inventory.DiskFigures:
        """Return the figures with another claim of a server, or without."""
        claims = {
            uuid: other
            for uuid, other in self.claims.items()
            if uuid != server
        }
        if claim:
            claims[server] = claim
        return inventory.compute_figures(self.disk, claims)


def _read(
    client: PlacementClient,
    uuid: str,
    read_disk: collections.abc.Callable[[str], discover.Disk],
) -> _State:
    # the generation comes first: a change after it is a conflict
    generation = client.inventories(uuid)[0]
    disk = read_disk(uuid)
    return _State(generation, disk, client.provider_allocations(uuid))


def moved(
    allocations: Allocations, source: str, target: str, part: Resources
) -> Allocations:
    """Return a server's allocations with a part of one claim elsewhere."""
    resources = {
        uuid: dict(claim) for uuid, claim in allocations.resources.items()
    }
    into = resources.setdefault(target, {})
    for name, amount in part.items():
        into[name] = into.get(name, 0) + amount
        resources[source][name] -= amount
    resources[source] = {
        name: amount for name, amount in resources[source].items() if amount
    }
    return dataclasses.replace(
        allocations,
        resources={uuid: claim for uuid, claim in resources.items() if claim},
    )


def _check_fits(uuid: str, figures: inventory.DiskFigures) -> None:
    if figures.free_gb < 0 or figures.used_mbps > figures.total_mbps:
        raise exception.DiskError(
            f'the claim does not fit on disk {uuid}: {figures.used_gb} GiB '
            f'claimed and {figures.reserved_gb} GiB reserved of '
            f'{figures.total_gb}, {figures.used_mbps} of '
            f'{figures.total_mbps} MB/s claimed'
        )
