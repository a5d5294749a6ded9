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

"""The choice of disks for a server's vdisks, as pure functions of arrays."""

import collections
import dataclasses

import numpy as np
import numpy.typing as npt

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.mapping import base
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Resources

#: Media by their number in an array; 0 is a disk that may not be used.
MEDIA = {constants.HDD: 1, constants.SSD: 2}

#: NUMA node of a disk that does not report one.
NO_NODE = -1


@dataclasses.dataclass(frozen=True)
class FreeCapacity:
    """Free capacity on the disks of H hosts; arrays of shape (H, D).

    ``free_gb`` is in GiB, ``free_mbps`` in MB/s. ``medium`` is 0 where there
    is no disk that may be used. ``load`` is the committed share of the
    capacity, 0 to 1. ``numa_node`` is NO_NODE where it is not known.
    ``can_stripe`` is true for disks that may hold pieces of striped vdisks.
    ``disks`` holds each host's disk UUIDs in the order of the columns.
    ``cache_mode`` (H,) is empty where it is not known.
    """

    free_gb: base.Ints
    free_mbps: base.Ints
    medium: base.Ints
    load: base.Floats
    reserved_gb: base.Ints
    numa_node: base.Ints
    can_stripe: base.Bools
    disks: list[tuple[str, ...]]
    cache_mode: npt.NDArray[np.str_]

    def of_host(self, index: int) -> 'FreeCapacity':
        """Return the free capacity of one of the hosts."""
        fields = dataclasses.fields(self)
        return FreeCapacity(
            **{
                f.name: getattr(self, f.name)[index : index + 1]
                for f in fields
            }
        )

    def reorder_disks(self, order: base.Ints) -> 'FreeCapacity':
        """Return the free capacity of one host with its disks reordered.

        :param order: each column once, (D,), those without a disk last.
        """
        (disks,) = self.disks
        arrays = {
            field.name: getattr(self, field.name)[:, order]
            for field in dataclasses.fields(self)
            if field.name not in ('disks', 'cache_mode')
        }
        reordered = tuple(disks[at] for at in order[: len(disks)].tolist())
        return dataclasses.replace(self, **arrays, disks=[reordered])

    def slots(self, request: flavor.VDiskRequest) -> base.Ints:
        """Return how many of the request's pieces fit on each disk, (H, D)."""
        slots = self.free_gb // request.piece_gb
        if request.vdisk_mbps:
            np.minimum(slots, self.free_mbps // request.piece_mbps, out=slots)
        usable = self.medium > 0
        if request.media != flavor.ANY:
            usable = self.medium == MEDIA[request.media]
        if request.legs > 1:
            usable = usable & self.can_stripe
        return np.where(usable & (slots > 0), slots, 0)


@dataclasses.dataclass(frozen=True)
class BoundVDisk:
    """A vdisk, or a piece of one, on a disk; ``size_gb`` in GiB."""

    volume_id: str
    provider: str
    disk: str
    server_id: str | None
    size_gb: int
    host: str


@dataclasses.dataclass(frozen=True)
class Choice:
    """The disks that were chosen on H hosts.

    ``fits`` (H,) is true for the hosts that hold the vdisks, ``counts``
    (H, D) is the number of new pieces on each disk, ``scores`` (H,) is the
    score of the mapping policy, 0 to 1.
    """

    fits: base.Bools
    counts: base.Ints
    scores: base.Floats


@dataclasses.dataclass(frozen=True)
class DiskPlan:
    """A server's request and the vdisks of its attached volumes.

    ``own_vdisks`` were bound for this server and count as the request's.
    ``other_vdisks`` were bound for another server; a policy that spreads
    vdisks counts them on their disks. If there are any of either, disks are
    chosen on their host only, or on two hosts that report all of them.
    """

    request: flavor.VDiskRequest
    own_vdisks: tuple[BoundVDisk, ...] = ()
    other_vdisks: tuple[BoundVDisk, ...] = ()

    def choose(
        self, free: FreeCapacity, allowed: base.Bools | None = None
    ) -> Choice:
        """Choose disks on each host.

        :param allowed: the disks to choose from, (H, D), default all. A host
            with bound vdisks on any other disk does not fit.
        """
        request = self.request
        pieces = request.pieces
        per_disk = request.vdisks_per_disk
        policy = mapping.load(request.placed_by)
        if self.own_vdisks or self.other_vdisks:
            free, bound, bad = self._subtract_bound(free)
            slots = free.slots(request)
            pieces = max(0, pieces - self._bound_pieces())
            if policy.spreads:
                slots = np.clip(slots, 0, np.maximum(per_disk - bound, 0))
            if allowed is not None:
                bad |= (bound > 0) & ~allowed
            unfit = bad.any(axis=1)
        else:
            slots = free.slots(request)
            unfit = np.zeros(len(slots), dtype=bool)
        if allowed is not None:
            slots = np.where(allowed, slots, 0)
        if request.cache_mode is not None:
            unfit |= free.cache_mode != request.cache_mode
        # no vdisk has two pieces on one disk
        per_disk = min(per_disk, -(-pieces // request.stripe_disks))
        counts = policy.place(slots, free.load, pieces, per_disk)
        fits = (counts.sum(axis=1) == pieces) & ~unfit
        return Choice(fits, counts, policy.score(counts, free.load))

    def _subtract_bound(
        self, free: FreeCapacity
    ) -> tuple[FreeCapacity, base.Ints, base.Bools]:
        """Subtract the claims of the vdisks that are bound already.

        :returns: the free capacity without those claims, the number of bound
            vdisks on each disk (H, D), and the disks that lack room for the
            claims (H, D).
        """
        bound = np.zeros_like(free.free_gb)
        # a sum of vdisks may be larger than any figure of a disk
        gb = np.zeros(bound.shape, dtype=np.int64)
        mbps = np.zeros_like(gb)
        on_disk = collections.Counter(
            vdisk.disk for vdisk in self.own_vdisks + self.other_vdisks
        )
        for row, disks in enumerate(free.disks):
            claims = self._claims_of_bound(disks, free.reserved_gb[row])
            for column, disk in enumerate(disks):
                bound[row, column] = on_disk[disk]
                gb[row, column], mbps[row, column] = claims[disk]
        lacking: base.Bools = (gb > 0) & (gb > free.free_gb)
        lacking |= (mbps > 0) & (mbps > free.free_mbps)
        free = dataclasses.replace(
            free, free_gb=free.free_gb - gb, free_mbps=free.free_mbps - mbps
        )
        return free, bound, lacking

    def _claims_of_bound(
        self, disks: tuple[str, ...], reserved_gb: base.Ints
    ) -> dict[str, tuple[int, int]]:
        """Return the GiB and MB/s that bound vdisks claim, by disk.

        The GiB that a disk's inventory reserves for them (those of a shelved
        server, for example) stay reserved and are not claimed a second time.
        MB/s are never reserved, so they are always claimed.
        """
        own = [vdisk for vdisk in self.own_vdisks if vdisk.disk in disks]
        size: collections.Counter[str] = collections.Counter()
        for vdisk in own:
            size[vdisk.disk] += vdisk.size_gb
        mbps = self._mbps_of_bound(own)
        return {
            disk: (max(0, size[disk] - reserved), mbps[disk])
            for disk, reserved in zip(
                disks, reserved_gb.tolist(), strict=False
            )
        }

    def _bound_pieces(self) -> int:
        """Return how many of the request's pieces are bound already.

        An elastic vdisk has more pieces while it is wide.
        """
        if not self.request.widest_disks:
            # the same volumes on each host that reports them
            on_host = collections.Counter(v.provider for v in self.own_vdisks)
            return max(on_host.values(), default=0)
        bound = {vdisk.volume_id for vdisk in self.own_vdisks}
        return len(bound) * self.request.stripe_disks

    def _mbps_of_bound(
        self, own: list[BoundVDisk]
    ) -> collections.Counter[str]:
        """Return the MB/s that a host's bound vdisks claim, by disk.

        Each disk of an elastic vdisk has its share of them.
        """
        request = self.request
        found: collections.Counter[str] = collections.Counter()
        if not request.widest_disks:
            for vdisk in self._vdisks_of_flavor(own):
                found[vdisk.disk] += request.piece_mbps
            return found
        whole = collections.Counter[str]()
        for vdisk in own:
            whole[vdisk.volume_id] += vdisk.size_gb
        usual = request.leg_gb * request.legs
        of_flavor = sorted(whole, key=lambda one: (whole[one] != usual, one))
        for vdisk in own:
            if vdisk.volume_id in of_flavor[: request.vdisks]:
                total = request.vdisk_mbps * vdisk.size_gb
                found[vdisk.disk] += -(-total // whole[vdisk.volume_id])
        return found

    def _vdisks_of_flavor(self, own: list[BoundVDisk]) -> list[BoundVDisk]:
        """Return those bound vdisks of a host that claim the flavor's MB/s.

        A server may have more vdisks than its flavor gives it: those that
        were attached while it ran claim none.
        """
        return sorted(
            own,
            key=lambda vdisk: (
                vdisk.size_gb != self.request.piece_gb,
                vdisk.volume_id,
            ),
        )[: self.request.pieces]

    def allocations(
        self, disks: tuple[str, ...], counts: base.Ints, reserved_gb: base.Ints
    ) -> dict[str, Resources]:
        """Return the claims on the disks of one host, by disk.

        :param disks: the host's disks, D of them.
        :param counts: as chosen, (D,).
        :param reserved_gb: GiB reserved on each disk, (D,).
        """
        claims = self._claims_of_bound(disks, reserved_gb)
        for column in np.flatnonzero(counts).tolist():
            gb, mbps = claims[disks[column]]
            gb += int(counts[column]) * self.request.piece_gb
            mbps += int(counts[column]) * self.request.piece_mbps
            claims[disks[column]] = gb, mbps
        return {
            disk: {
                name: amount
                for name, amount in ((GB, gb), (MBPS, mbps))
                if amount
            }
            for disk, (gb, mbps) in claims.items()
            if gb or mbps
        }
