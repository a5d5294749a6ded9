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

A server may claim more on a disk than its vdisks there take: the rest is for
vdisks to come, and stays where it is. Both disks have the vdisk meanwhile, so
that their claims alone do not tell if its claim has been moved. What was
unfilled before, on the disk that it leaves, does: it is recorded first. Where
an earlier release has begun a move, less may be moved.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Allocations
from nova_diskplacer.placement.client import PlacementClient
from nova_diskplacer.placement.client import Resources


class Held(NamedTuple):
    """The claim of a server on a disk.

    ``unfilled_gb`` are the GiB of it that no vdisk of the server fills, see
    :func:`ledger.unfilled_gb`.
    """

    claim: Resources
    unfilled_gb: int


def read_unfilled_gb(
    client: PlacementClient, server: str, disk: discover.Disk
) -> int:
    """Return what no vdisk fills of a server's claim, as :class:`Held`.

    :raises PlacementError: Placement does not answer.
    """
    claims = client.provider_allocations(disk.uuid)
    return _held(disk, claims, server).unfilled_gb


def _held(
    disk: discover.Disk, claims: dict[str, Resources], server: str
) -> Held:
    claim = claims.get(server, {})
    gb = claim.get(GB, 0)
    return Held(claim, ledger.unfilled_gb(disk.vdisks, server, gb))


def claimed_gb(size_gb: int, unfilled_gb: int) -> int:
    """Return the GiB of vdisks that the claim on their disk covers.

    :param unfilled_gb: of that disk.
    """
    return max(0, size_gb + min(0, unfilled_gb))


def part_to_move(
    source: Held, target: Held, size_gb: int, unfilled_gb: int | None = None
) -> Resources:
    """Return the part of a server's claim that is still to follow vdisks.

    MB/s are moved in proportion to GiB.

    :param source: the disk that the vdisks leave, which still has them.
    :param target: the disk that they go to, which has them already.
    :param size_gb: GiB of the vdisks.
    :param unfilled_gb: that of the source before the move, None if it is not
        known.
    """
    before_gb = unfilled_gb or 0
    moved_gb = max(0, before_gb - source.unfilled_gb)
    gb = claimed_gb(size_gb, before_gb) - moved_gb
    if unfilled_gb is None:
        gb = min(gb, -target.unfilled_gb)
    return _part(source.claim, gb)


def part_to_return(
    source: Held,
    target: Held,
    size_gb: int,
    unfilled_gb: int | None = None,
    coming_gb: int = 0,
) -> Resources:
    """Return the part of a server's claim that has followed vdisks in vain.

    The arguments are as for :func:`part_to_move`.

    :param coming_gb: GiB of the vdisks that the target still has.
    """
    gb = min(size_gb, (unfilled_gb or 0) - source.unfilled_gb)
    if unfilled_gb is None:
        gb = min(gb, target.unfilled_gb + coming_gb)
    return _part(target.claim, gb)


def _part(claim: Resources, gb: int) -> Resources:
    claimed = claim.get(GB, 0)
    gb = min(gb, claimed)
    if gb <= 0:
        return {}
    mbps = claim.get(MBPS, 0) * gb // claimed
    return {GB: gb, MBPS: mbps} if mbps else {GB: gb}


@dataclasses.dataclass(frozen=True)
class VDiskMove:
    """The vdisks of a server that move from disk to disk.

    :param read_disk: returns the present state of a disk.
    :param unfilled_gb: as for :func:`part_to_move`.
    """

    client: PlacementClient
    server: str
    source: str
    target: str
    size_gb: int
    read_disk: collections.abc.Callable[[str], discover.Disk]
    unfilled_gb: int | None = None

    def check_target(self, target: discover.Disk) -> None:
        """Check that the vdisks fill no claim for vdisks to come.

        :param target: has none of them yet.
        :raises DiskError: some are not claimed, and would fill one.
        :raises PlacementError: Placement does not answer.
        """
        if self.unfilled_gb is None:
            return
        lacking_gb = self.size_gb - claimed_gb(self.size_gb, self.unfilled_gb)
        if lacking_gb and (
            read_unfilled_gb(self.client, self.server, target) > 0
        ):
            raise exception.DiskError(
                f'disk {self.target} has space that server {self.server} '
                f'claims for vdisks to come, and {lacking_gb} of '
                f'{self.size_gb} GiB that move are not claimed'
            )

    def follow(self) -> None:
        """Move their claim to the target, which has them, too; repeatable.

        One request changes both claims and the reserved parts of both disks.

        :raises DiskError: the claim does not fit on the target.
        :raises Conflict: other processes kept changing the providers or the
            server's allocations.
        :raises PlacementError: Placement does not answer or refuses.
        """
        self._move(
            self.source,
            self.target,
            lambda source, target: part_to_move(
                source, target, self.size_gb, self.unfilled_gb
            ),
        )

    def give_back(self, coming_gb: int = 0) -> None:
        """Move their claim back to the source; repeatable.

        :param coming_gb: GiB of them that are still on the target.
        :raises DiskPlacerError: as :meth:`follow`.
        """
        self._move(
            self.target,
            self.source,
            lambda target, source: part_to_return(
                source, target, self.size_gb, self.unfilled_gb, coming_gb
            ),
        )

    def _move(
        self,
        source: str,
        target: str,
        part_of: collections.abc.Callable[[Held, Held], Resources],
    ) -> None:
        """Move a part of the server's claim, which ``part_of`` returns."""
        client, server = self.client, self.server

        def attempt() -> None:
            old = inventory.read(
                client, source, lambda: self.read_disk(source)
            )
            new = inventory.read(
                client, target, lambda: self.read_disk(target)
            )
            allocations = client.allocations(server)
            part = part_of(
                _held(old.disk, old.claims, server),
                _held(new.disk, new.claims, server),
            )
            if not part:
                # or the answer to an attempt was lost
                return
            after = moved(allocations, source, target, part)
            left = _figures(old, old.disk, server, after.resources.get(source))
            # a claim that comes back to a disk that is drained fits
            usable = dataclasses.replace(new.disk, draining=False)
            filled = _figures(new, usable, server, after.resources.get(target))
            inventory.check_fits(target, filled)
            client.reshape(
                {
                    source: (old.generation, inventory.inventories(left)),
                    target: (new.generation, inventory.inventories(filled)),
                },
                server,
                after,
            )

        inventory.retry(
            f'move the claim of server {server} from disk {source} to '
            f'{target}',
            attempt,
        )


def _figures(
    state: inventory.DiskState,
    disk: discover.Disk,
    server: str,
    claim: Resources | None,
) -> inventory.DiskFigures:
    """Return the figures of a disk with another claim of a server, or none."""
    claims = dict(state.claims)
    claims.pop(server, None)
    if claim:
        claims[server] = claim
    return inventory.compute_figures(disk, claims)


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
