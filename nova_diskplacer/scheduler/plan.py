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
from nova_diskplacer.mapping import base
from nova_diskplacer.mapping import plugins
from nova_diskplacer.placement import ledger
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

    ``total_gb`` and ``free_gb`` are in GiB, ``total_mbps`` and ``free_mbps``
    in MB/s. ``vdisks`` is the number of vdisks, or pieces of them. ``medium``
    is 0 where there is no disk that may be used. ``load`` is the committed
    share of the capacity, 0 to 1. ``numa_node`` is NO_NODE where it is not
    known.
    ``can_stripe`` is true for disks that may hold pieces of striped vdisks.
    ``disks`` holds each host's disk UUIDs in the order of the columns.
    ``cache_mode`` (H,) is empty where it is not known.
    """

    total_gb: base.Ints
    free_gb: base.Ints
    total_mbps: base.Ints
    free_mbps: base.Ints
    vdisks: base.Ints
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

    def usable(self, request: flavor.VDiskRequest) -> base.Bools:
        """Return which disks have the request's medium, (H, D)."""
        usable: base.Bools = self.medium > 0
        if request.media != flavor.ANY:
            usable = self.medium == MEDIA[request.media]
        return usable

    def slots(self, request: flavor.VDiskRequest) -> base.Ints:
        """Return how many of the request's pieces fit on each disk, (H, D)."""
        slots = self.free_gb // request.piece_gb
        if request.vdisk_mbps:
            np.minimum(slots, self.free_mbps // request.piece_mbps, out=slots)
        usable = self.usable(request)
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

    ``own_vdisks`` were bound for this server, attached or not, and count as
    the request's. So do ``kept_vdisks``, which were bound for another server
    or for none: their disks reserve their GiB. ``other_vdisks`` do not count.
    A policy that spreads vdisks counts all of them on their disks. Volumes
    that are no vdisks of the flavor, such as the one that the server boots
    from, are in none. If there are any of them, disks are chosen on their host
    only, or on two hosts that report all of them. ``reserved_for_others`` are
    the GiB of the disks with own vdisks that are to be reserved for anything
    else; what is reserved beyond them is for the own vdisks. A disk that is
    missing reserves nothing for them. ``beside_gb`` are the sizes of new
    volumes that are no vdisks of the flavor: the host must have room for them,
    unclaimed. ``unreported`` is the number of attached vdisks that no report
    has, as their disk is missing: they take the places of new ones, but no
    space.
    """

    request: flavor.VDiskRequest
    own_vdisks: tuple[BoundVDisk, ...] = ()
    other_vdisks: tuple[BoundVDisk, ...] = ()
    reserved_for_others: collections.abc.Mapping[str, int] = dataclasses.field(
        default_factory=dict
    )
    beside_gb: tuple[int, ...] = ()
    unreported: int = 0
    kept_vdisks: tuple[BoundVDisk, ...] = ()

    @property
    def bound_vdisks(self) -> tuple[BoundVDisk, ...]:
        """The vdisks that are bound to a disk already."""
        return self.own_vdisks + self.kept_vdisks + self.other_vdisks

    def choose(
        self, free: FreeCapacity, allowed: base.Bools | None = None
    ) -> Choice:
        """Choose disks on each host.

        :param allowed: the disks to choose from, (H, D), default all. A host
            with bound vdisks on any other disk does not fit.
        """
        bound = None
        unfit: base.Bools = np.zeros(len(free.free_gb), dtype=bool)
        if self.bound_vdisks:
            free, bound, bad = self._subtract_bound(free)
            if allowed is not None:
                bad |= (bound > 0) & ~allowed
            unfit |= bad.any(axis=1)
        if self.request.cache_mode is not None:
            unfit |= free.cache_mode != self.request.cache_mode
        choice = self._place(free, bound, unfit, allowed)
        if not self.beside_gb:
            return choice
        left_gb = free.free_gb - choice.counts * self.request.piece_gb
        enough, _ = self._set_aside(free, left_gb)
        enough &= choice.fits
        # other disks for the vdisks may leave room
        possible, left_gb = self._set_aside(free, free.free_gb)
        other = self._place(
            dataclasses.replace(free, free_gb=left_gb),
            bound,
            unfit | ~possible,
            allowed,
        )
        return Choice(
            enough | other.fits,
            np.where(enough[:, None], choice.counts, other.counts),
            np.where(enough, choice.scores, other.scores),
        )

    def _place(
        self,
        free: FreeCapacity,
        bound: base.Ints | None,
        unfit: base.Bools,
        allowed: base.Bools | None,
    ) -> Choice:
        """Choose disks for the vdisks that are not bound.

        :param bound: the number of bound vdisks on each disk, (H, D), None if
            there are none.
        :param unfit: the hosts that do not fit anyway, (H,).
        """
        request = self.request
        policy = plugins.load(request.placed_by)
        per_disk = request.vdisks_per_disk
        pieces = max(0, request.pieces - self._bound_pieces())
        slots = free.slots(request)
        if policy.spreads and bound is not None:
            slots = np.clip(slots, 0, np.maximum(per_disk - bound, 0))
        if allowed is not None:
            slots = np.where(allowed, slots, 0)
        # no vdisk has two pieces on one disk
        per_disk = min(per_disk, -(-pieces // request.stripe_disks))
        counts = policy.place(slots, free.load, pieces, per_disk)
        fits = (counts.sum(axis=1) == pieces) & ~unfit
        return Choice(fits, counts, policy.score(counts, free.load))

    def _set_aside(
        self, free: FreeCapacity, free_gb: base.Ints
    ) -> tuple[base.Bools, base.Ints]:
        """Take each volume beside the vdisks from the disk it fits best.

        :param free_gb: GiB to take from, (H, D).
        :returns: the hosts that have room, (H,), and what is left, (H, D).
        """
        left_gb = np.where(free.usable(self.request), free_gb, 0)
        fits: base.Bools = np.full(len(left_gb), left_gb.size > 0)
        if not left_gb.size:
            return fits, left_gb
        for size_gb in sorted(self.beside_gb, reverse=True):
            rows = np.flatnonzero(fits & (left_gb >= size_gb).any(axis=1))
            room = left_gb[rows]
            # the disk with the least room of those that have enough
            most = np.iinfo(room.dtype).max
            at = np.where(room >= size_gb, room, most).argmin(axis=1)
            left_gb[rows, at] -= size_gb
            fits[:] = False
            fits[rows] = True
        return fits, left_gb

    def _subtract_bound(
        self, free: FreeCapacity
    ) -> tuple[FreeCapacity, base.Ints, base.Bools]:
        """Subtract the claims of the vdisks that are bound already.

        A disk that gets a new vdisk has all of them claimed, see
        :mod:`ledger`.

        :returns: the free capacity without those claims, the number of bound
            vdisks on each disk (H, D), and the disks that lack room for the
            bound vdisks (H, D).
        """
        bound = np.zeros_like(free.free_gb)
        lacking = np.zeros(free.free_gb.shape, dtype=bool)
        # a sum of vdisks may be larger than any figure of a disk
        free_gb = free.free_gb.astype(np.int64)
        free_mbps = free.free_mbps.astype(np.int64)
        on_disk = collections.Counter(
            vdisk.disk for vdisk in self.bound_vdisks
        )
        own_gb = self._gb_of_bound()
        for row, disks in enumerate(free.disks):
            own_mbps = self._mbps_of_bound(disks)
            for column, disk in enumerate(disks):
                at = row, column
                gb, mbps = own_gb[disk], own_mbps[disk]
                held_gb = self._held_gb(disk, gb, int(free.reserved_gb[at]))
                bound[at] = on_disk[disk]
                lacking[at] = gb > held_gb and gb - held_gb > free_gb[at]
                lacking[at] |= mbps > 0 and mbps > free_mbps[at]
                free_gb[at] -= gb
                free_mbps[at] -= mbps
        free = dataclasses.replace(free, free_gb=free_gb, free_mbps=free_mbps)
        return free, bound, lacking

    def _gb_of_bound(self) -> collections.Counter[str]:
        """Return the GiB of own vdisks, by disk."""
        size: collections.Counter[str] = collections.Counter()
        for vdisk in self.own_vdisks:
            size[vdisk.disk] += vdisk.size_gb
        return size

    def _held_gb(self, disk: str, own_gb: int, reserved_gb: int) -> int:
        """Return the GiB of own vdisks that a disk's inventory reserves.

        MB/s are never reserved, so they are always claimed.

        :param own_gb: GiB of own vdisks on the disk.
        :param reserved_gb: the reserved part of the disk, for anything.
        """
        others = self.reserved_for_others.get(disk, reserved_gb)
        return min(max(0, reserved_gb - others), own_gb)

    def _bound_pieces(self) -> int:
        """Return how many of the request's pieces are bound already.

        They are counted by their vdisks: an elastic vdisk has more pieces
        while it is wide, a striped one fewer while a disk is missing. Two
        hosts may report the same vdisks.
        """
        bound = {
            vdisk.volume_id for vdisk in self.own_vdisks + self.kept_vdisks
        }
        return (len(bound) + self.unreported) * self.request.stripe_disks

    def _mbps_of_bound(
        self, disks: tuple[str, ...]
    ) -> collections.Counter[str]:
        """Return the MB/s that bound vdisks claim on a host's disks, by disk.

        Each disk of an elastic vdisk has its share of them.
        """
        request = self.request
        own, kept = (
            [vdisk for vdisk in vdisks if vdisk.disk in disks]
            for vdisks in (self.own_vdisks, self.kept_vdisks)
        )
        mbps: collections.Counter[str] = collections.Counter()
        if not request.widest_disks:
            for vdisk in self._vdisks_of_flavor(own, kept):
                mbps[vdisk.disk] += request.piece_mbps
            return mbps
        whole = collections.Counter[str]()
        for vdisk in own + kept:
            whole[vdisk.volume_id] += vdisk.size_gb
        usual = request.leg_gb * request.legs
        last = {vdisk.volume_id for vdisk in kept}
        of_flavor = sorted(
            whole, key=lambda uuid: (uuid in last, whole[uuid] != usual, uuid)
        )
        for vdisk in own + kept:
            if vdisk.volume_id in of_flavor[: request.vdisks]:
                total = request.vdisk_mbps * vdisk.size_gb
                mbps[vdisk.disk] += -(-total // whole[vdisk.volume_id])
        return mbps

    def _vdisks_of_flavor(
        self, own: list[BoundVDisk], kept: list[BoundVDisk]
    ) -> list[BoundVDisk]:
        """Return those bound vdisks of a host that claim the flavor's MB/s.

        A server may have more vdisks than its flavor gives it: those that
        were attached while it ran claim none.
        """

        def key(vdisk: BoundVDisk) -> tuple[bool, str]:
            return vdisk.size_gb != self.request.piece_gb, vdisk.volume_id

        ordered = sorted(own, key=key) + sorted(kept, key=key)
        return ordered[: self.request.pieces]

    def allocations(
        self, free: FreeCapacity, counts: base.Ints
    ) -> dict[str, Resources]:
        """Return the claims on the disks of one host, by disk.

        :param free: the free capacity of the host, D disks.
        :param counts: as chosen, (D,).
        """
        request = self.request
        disks = free.disks[0]
        own_gb, own_mbps = self._gb_of_bound(), self._mbps_of_bound(disks)
        claims = {}
        for column, disk in enumerate(disks):
            new = int(counts[column])
            gb = ledger.claim_gb(
                own_gb[disk],
                new * request.piece_gb,
                self._held_gb(
                    disk, own_gb[disk], int(free.reserved_gb[0, column])
                ),
                int(free.free_gb[0, column]),
            )
            amounts = {
                GB: gb,
                MBPS: own_mbps[disk] + new * request.piece_mbps,
            }
            if any(amounts.values()):
                claims[disk] = {
                    name: amount for name, amount in amounts.items() if amount
                }
        return claims
