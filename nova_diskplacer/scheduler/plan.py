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

"""Which disks of which hosts a server's vdisks go on: pure decisions."""

import collections
import dataclasses

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.mapping import base
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.scheduler import fleet

Resources = dict[str, int]


@dataclasses.dataclass(frozen=True)
class Choice:
    """What was chosen on H hosts.

    ``fits`` (H,) says which hosts hold the vdisks, ``counts`` (H, D) how
    many new ones go on each disk, ``scores`` (H,) how well the mapping
    likes it, 0 to 1.
    """

    fits: base.Bools
    counts: base.Ints
    scores: base.Floats


@dataclasses.dataclass(frozen=True)
class Plan:
    """A server's request and the vdisks that it comes with.

    ``own`` were bound for the server and count as the request's; ``others``
    were bound for somebody else and only keep new ones of a round robin off
    their disks. Where there are any, all lie on one host and only that host
    may be asked about.
    """

    request: flavor.VDiskRequest
    own: tuple[fleet.BoundVDisk, ...] = ()
    others: tuple[fleet.BoundVDisk, ...] = ()

    def choose(
        self, view: fleet.View, allowed: base.Bools | None = None
    ) -> Choice:
        """Choose disks on each host of the view.

        :param allowed: the disks to choose from, (H, D), default all; where
            vdisks that are there already are not on such ones, nothing fits.
        """
        request = self.request
        vdisks = request.vdisks
        per_disk = request.vdisks_per_disk
        if self.own or self.others:
            view, taken, bad = self._beside_own(view)
            slots = view.slots(request)
            vdisks = max(0, vdisks - len(self.own))
            if request.mapping == flavor.ROUND_ROBIN:
                slots = np.clip(slots, 0, np.maximum(per_disk - taken, 0))
            if allowed is not None:
                bad |= (taken > 0) & ~allowed
            unfit = bad.any(axis=1)
        else:
            slots = view.slots(request)
            unfit = np.zeros(len(slots), dtype=bool)
        if allowed is not None:
            slots = np.where(allowed, slots, 0)
        if request.cache_mode is not None:
            unfit |= view.cache_mode != request.cache_mode
        policy = mapping.load(request.mapping)
        counts = policy.place(slots, view.load, vdisks, per_disk)
        fits = (counts.sum(axis=1) == vdisks) & ~unfit
        return Choice(fits, counts, policy.score(counts, view.load))

    def _beside_own(
        self, view: fleet.View
    ) -> tuple[fleet.View, base.Ints, base.Bools]:
        """Return what is left beside the vdisks that are there already.

        :returns: the view without what they claim, how many of them are on
            each disk (H, D), and the disks that lack room for the claims
            (H, D).
        """
        taken = np.zeros_like(view.free_gb)
        gb, mbps = np.zeros_like(view.free_gb), np.zeros_like(view.free_mbps)
        on_disk = collections.Counter(
            vdisk.disk for vdisk in self.own + self.others
        )
        for row, disks in enumerate(view.disks):
            claims = self._own_claims(disks, view.reserved_gb[row])
            for column, disk in enumerate(disks):
                taken[row, column] = on_disk[disk]
                claim = claims.get(disk, {})
                gb[row, column] = claim.get(GB, 0)
                mbps[row, column] = claim.get(MBPS, 0)
        lacking: base.Bools = (gb > 0) & (gb > view.free_gb)
        lacking |= (mbps > 0) & (mbps > view.free_mbps)
        view = dataclasses.replace(
            view,
            free_gb=view.free_gb - gb,
            free_mbps=view.free_mbps - mbps,
        )
        return view, taken, lacking

    def _own_claims(
        self, disks: tuple[str, ...], reserved_gb: base.Ints
    ) -> dict[str, Resources]:
        """Return what the vdisks already there need to claim on each disk.

        The GiB that a disk's inventory reserves for them (a shelved
        server's, say) stay reserved and are not claimed a second time. MB/s
        are never reserved, so they are always claimed.
        """
        size: collections.Counter[str] = collections.Counter()
        for vdisk in self.own:
            size[vdisk.disk] += vdisk.size_gb
        number = collections.Counter(vdisk.disk for vdisk in self._of_flavor())
        claims = {}
        for disk, reserved in zip(disks, reserved_gb.tolist(), strict=False):
            claim = _resources(
                size[disk] - min(size[disk], reserved),
                number[disk] * self.request.vdisk_mbps,
            )
            if claim:
                claims[disk] = claim
        return claims

    def _of_flavor(self) -> list[fleet.BoundVDisk]:
        """Return the own vdisks that the flavor's MB/s are for.

        A server may have more than its flavor gives it: those attached
        while it ran claim none.
        """
        return sorted(
            self.own,
            key=lambda vdisk: (
                vdisk.size_gb != self.request.vdisk_gb,
                vdisk.volume_id,
            ),
        )[: self.request.vdisks]

    def allocations(
        self,
        disks: tuple[str, ...],
        counts: base.Ints,
        reserved_gb: base.Ints,
    ) -> dict[str, Resources]:
        """Return what to claim on each disk of one host.

        :param disks: the host's disks, D of them.
        :param counts: as chosen, (D,).
        :param reserved_gb: GiB reserved on each disk, (D,).
        """
        claims = self._own_claims(disks, reserved_gb) if self.own else {}
        for column in np.flatnonzero(counts).tolist():
            count = int(counts[column])
            new = _resources(
                count * self.request.vdisk_gb,
                count * self.request.vdisk_mbps,
            )
            claim = claims.setdefault(disks[column], {})
            for name, amount in new.items():
                claim[name] = claim.get(name, 0) + amount
        return claims


def _resources(gb: int, mbps: int) -> Resources:
    return {
        name: amount for name, amount in ((GB, gb), (MBPS, mbps)) if amount
    }
