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

"""The placement simulation: one stream of requests under several policies."""

import heapq
import typing

import numpy as np

import _placement_fleet as fleets
import _placement_loads as loads
import _placement_policies as policies_
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import retries

# A column of host indices in the results of requests that are refused.
REFUSED = -1


class Snapshot(typing.NamedTuple):
    """GiB and vdisks on the disks of P copies of H hosts, (P, H, D).

    ``host_free`` (P, H, 3) are free vCPUs, RAM and root disks.
    """

    used_gb: base.Ints
    vdisks: base.Ints
    used_mbps: base.Ints
    host_free: base.Ints


class Simulation:
    """A fleet under P policies, one copy of it for each.

    Rows of hosts are independent in the product's code, so that the
    evaluation of a flavor stands until a server comes to a host or leaves it.
    """

    def __init__(
        self,
        shape: fleets.Shape,
        mix: loads.Mix,
        policies: typing.Sequence[policies_.Policy],
        rng: np.random.Generator,
    ) -> None:
        self.mix = mix
        self.policies = policies
        self.fleet = fleets.Fleet(shape, len(policies))
        self.evaluations = [
            fleets.Evaluation(self.fleet, flavor) for flavor in mix
        ]
        self._stale = np.ones((len(mix), len(self.fleet.total_gb)), dtype=bool)
        for evaluation, stale in zip(
            self.evaluations, self._stale, strict=True
        ):
            evaluation.stale = stale
        self._rng = rng
        self._all_disks = np.ones(self.fleet.disks, dtype=bool)
        self._disks = {
            name: np.array([policy.disks == name for policy in policies])
            for name in ('fullest', 'first')
        }

    def run(
        self, arrivals: loads.Arrivals, times: typing.Sequence[float] = ()
    ) -> tuple[base.Ints, list[Snapshot]]:
        """Place servers as they come, and delete them at their ends.

        :param times: when to take snapshots.
        :returns: the host of each request by policy, (P, N), and snapshots.
        """
        hosts = np.full(
            (len(self.policies), len(arrivals.times)), REFUSED, np.int32
        )
        ends: list[tuple[float, int]] = []
        placed: dict[int, tuple[int, base.Ints, base.Ints]] = {}
        snapshots = []
        waiting = list(times)
        for number, (time, kind, end) in enumerate(
            zip(*(array.tolist() for array in arrivals), strict=True)
        ):
            while waiting and waiting[0] <= time:
                self._delete(ends, placed, waiting.pop(0))
                snapshots.append(self.snapshot())
            self._delete(ends, placed, time)
            rows = self.choose_rows(kind)
            hosts[:, number] = np.where(
                rows >= 0, rows % self.fleet.hosts, REFUSED
            )
            copies = np.flatnonzero(rows >= 0)
            if not len(copies):
                continue
            rows = rows[copies]
            counts = self.place(kind, copies, rows, f'{number}')
            self.claim(rows, counts, kind)
            placed[number] = kind, rows, counts
            heapq.heappush(ends, (end, number))
        return hosts, snapshots

    def snapshot(self) -> Snapshot:
        """Return a copy of the state."""
        fleet = self.fleet
        size = fleet.copies, fleet.hosts, -1
        return Snapshot(
            *(
                array.reshape(size).copy()
                for array in (
                    fleet.used_gb,
                    fleet.vdisks,
                    fleet.used_mbps,
                    fleet.host_free,
                )
            )
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Set the state."""
        fleet = self.fleet
        for array, kept in zip(
            (fleet.used_gb, fleet.vdisks, fleet.used_mbps, fleet.host_free),
            snapshot,
            strict=True,
        ):
            array[:] = kept.reshape(array.shape)
        self._stale[:] = True

    def _delete(
        self,
        ends: list[tuple[float, int]],
        placed: dict[int, tuple[int, base.Ints, base.Ints]],
        time: float,
    ) -> None:
        while ends and ends[0][0] <= time:
            _, number = heapq.heappop(ends)
            kind, rows, counts = placed.pop(number)
            self.claim(rows, counts, kind, -1)

    def claim(
        self, rows: base.Ints, counts: base.Ints, kind: int, sign: int = 1
    ) -> None:
        self.fleet.claim(rows, counts, self.mix[kind], sign)
        self._stale[:, rows] = True

    def choose_rows(self, kind: int) -> base.Ints:
        """Return the row that each policy chooses, REFUSED if none fits."""
        evaluation = self.evaluations[kind]
        evaluation.update()
        return np.array(
            [
                self._row(evaluation, copy, policy)
                for copy, policy in enumerate(self.policies)
            ]
        )

    def _row(
        self,
        evaluation: fleets.Evaluation,
        copy: int,
        policy: policies_.Policy,
    ) -> int:
        decision = policies_.Decision(evaluation, copy)
        if not len(decision.hosts):
            return REFUSED
        return int(decision.rows[policy.choose(decision, self._rng)])

    def place(
        self, kind: int, copies: base.Ints, rows: base.Ints, server: str
    ) -> base.Ints:
        """Choose the disks of a server, as ``candidates.FilterRun`` does.

        :param copies: the copies of the fleet that the rows belong to, (N,).
        :param rows: rows where the server fits, (N,).
        :returns: pieces on each disk, (N, D).
        """
        evaluation = self.evaluations[kind]
        blocks = evaluation.disks[rows]
        orders = np.empty((len(rows), self.fleet.disks), dtype=np.intp)
        for block in np.unique(blocks).tolist():
            # disks without room may be anywhere, they get nothing
            orders[blocks == block] = retries.disk_order(
                self._all_disks, block, f'{server} 0'
            )
        first = self._disks['first'][copies]
        orders[first] = np.arange(self.fleet.disks)
        free = self.fleet.free(rows, orders)
        if evaluation.spreads:
            full = self._disks['fullest'][copies]
            free.load[full] = free.free_gb[full]
            free.load[first] = np.arange(self.fleet.disks)
        choice = evaluation.choose(free)
        assert choice.fits.all()
        counts = np.empty_like(choice.counts)
        np.put_along_axis(counts, orders, choice.counts, axis=1)
        return counts
