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

"""Disks on the NUMA cells of the vCPUs, for requests that ask for it.

Nova's prediction of the cells takes longer than all other steps, so the cells
are predicted only where they matter: not if no disks have room, not if the
server takes all cells, and, until Nova claims on the host, not if the disks of
every cell have room.
"""

import collections
import dataclasses
import typing

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler.numa_cells import Cells
from nova_diskplacer.scheduler.numa_cells import NumaClaim
from nova_diskplacer.scheduler.numa_cells import Release
from nova_diskplacer.scheduler.packing import Packing
from nova_diskplacer.scheduler.plan import NO_NODE
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

Hosts = list[typing.Any]


class Alignment:
    """Chooses disks on the cells of a request's vCPUs.

    :ivar required: reject hosts where disks cannot be aligned. Otherwise the
        disks there are chosen as if alignment had not been asked for, and
        score a third at most; aligned ones score two thirds at least.
    """

    def __init__(self, plan: DiskPlan, spec: typing.Any) -> None:
        self.required = plan.request.numa == flavor.REQUIRED
        self._plan = plan
        self._vcpus = numa_cells.VCPUPlacement(spec, pin=self.required)

    def choose(
        self,
        free: FreeCapacity,
        hosts: Hosts,
        packing: Packing | None = None,
    ) -> Choice:
        """Choose disks on each of the hosts.

        Where the cells were not predicted, the disks are those of any of the
        cells and the score is the average of all.
        """
        numa_cells.reapply_limits(hosts)
        evaluation = _HostEvaluation(self._plan, self._vcpus, free, hosts)
        return self._or_unaligned(evaluation.choose(), free, hosts, packing)

    def choose_for_claim(
        self, free: FreeCapacity, host: typing.Any, *, pending: bool
    ) -> tuple[Choice, Release | None]:
        """Choose disks on a host that is about to be claimed on.

        Sets the limits of the claim so that nova-compute takes the cells of
        the disks.

        :param free: that host's.
        :param pending: Nova is about to claim, not nova-conductor later.
        :returns: the choice, and what to call if a pending claim fails.
        """
        evaluation = _HostEvaluation(self._plan, self._vcpus, free, [host])
        choice = evaluation.choose(for_claim=True)
        release = None
        if choice.fits[0] and 0 in evaluation.claims:
            release = self._vcpus.record(
                host, evaluation.claims[0], pending=pending
            )
        return self._or_unaligned(choice, free, [host]), release

    def _or_unaligned(
        self,
        choice: Choice,
        free: FreeCapacity,
        hosts: Hosts,
        packing: Packing | None = None,
    ) -> Choice:
        if packing is not None:
            choice = packing.blend(choice)
        if self.required:
            return choice
        plain = self._plan.choose(free)
        if packing is not None:
            plain = packing.blend(plain)
        aligned = choice.fits
        full = np.fromiter(map(self._vcpus.lacks_room, hosts), dtype=bool)
        return Choice(
            aligned | (plain.fits & ~full),
            np.where(aligned[:, None], choice.counts, plain.counts),
            np.where(aligned, 2.0 + choice.scores, plain.scores) / 3,
        )


@dataclasses.dataclass
class _HostEvaluation:
    """Evaluates the disks and cells of H hosts.

    :ivar claims: {index of a host: the claim of its cells}, as far as known.
    """

    plan: DiskPlan
    vcpus: numa_cells.VCPUPlacement
    free: FreeCapacity
    hosts: Hosts
    claims: dict[int, NumaClaim] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._cells = [
            numa_cells.ids(host.numa_topology) for host in self.hosts
        ]
        # on a machine with one cell, firmware need not report a disk's node
        only = [own[0] if len(own) == 1 else NO_NODE for own in self._cells]
        node = self.free.numa_node
        self._node = np.where(
            node == NO_NODE, np.array(only, dtype=np.int64)[:, None], node
        )
        self._on_node = {
            node: self.plan.choose(self.free, self._node == node)
            for node in np.unique(self._node[self.free.medium > 0]).tolist()
            if node != NO_NODE
        }
        shape = self._node.shape
        self._fits = np.zeros(shape[0], dtype=bool)
        self._counts = np.zeros(shape, dtype=np.int64)
        self._scores = np.zeros(shape[0])

    def choose(self, *, for_claim: bool = False) -> Choice:
        """Choose disks on all hosts.

        :param for_claim: predict cells even where the disks of all would do.
        """
        if self.vcpus.cells:
            self._choose_on_cells_of_vcpus(for_claim)
        else:
            self._choose_best_node()
        return Choice(self._fits, self._counts, self._scores)

    def _choose_best_node(self) -> None:
        """Choose one node of each host; the agent pins the vCPUs there."""
        for choice in self._on_node.values():
            better = ~self._fits | (choice.scores > self._scores)
            self._accept(choice, choice.fits & better)

    def _choose_on_cells_of_vcpus(self, for_claim: bool) -> None:
        known, unknown = self._by_cells()
        for cells, rows in unknown.items():
            if not for_claim:
                rows = self._accept_where_all_fit(cells, rows)
            known += rows.tolist()
        allowed = np.zeros(self._node.shape, dtype=bool)
        expected = np.zeros(len(self._fits), dtype=bool)
        for index in known:
            claim = self.vcpus.expected_claim(
                self.hosts[index], self._cells[index], for_claim=for_claim
            )
            if claim is not None:
                self.claims[index] = claim
                allowed[index] = np.isin(self._node[index], claim.cells)
                expected[index] = True
        choice = self.plan.choose(self.free, allowed)
        self._accept(choice, choice.fits & expected)
        for index in np.flatnonzero(expected & ~choice.fits).tolist():
            self._pin_to_other_cells(index)

    def _by_cells(self) -> tuple[list[int], dict[Cells, base.Ints]]:
        """Return the hosts with room and enough cells.

        :returns: those without a choice of cells, and the others by their
            cells.
        """
        on_any_cell = self.plan.choose(self.free, self._node != NO_NODE)
        decided = []
        groups = collections.defaultdict(list)
        for index in np.flatnonzero(on_any_cell.fits).tolist():
            cells = self._cells[index]
            if self.vcpus.is_decided(self.hosts[index], cells):
                decided.append(index)
            elif len(cells) > self.vcpus.cells:
                groups[cells].append(index)
        return decided, {own: np.array(rows) for own, rows in groups.items()}

    def _accept_where_all_fit(
        self, cells: Cells, rows: base.Ints
    ) -> base.Ints:
        """Accept any cell of the hosts whose cells all have room.

        :returns: the other hosts, without those where no cell has room unless
            two may have it together.
        """
        choices = [self._on_node[c] for c in cells if c in self._on_node]
        if not choices:
            return rows[:0]
        fits = np.array([choice.fits[rows] for choice in choices])
        if len(choices) == len(cells):
            every = fits.all(axis=0)
            chosen = np.zeros(len(self._fits), dtype=bool)
            chosen[rows[every]] = True
            self._accept(choices[0], chosen)
            self._scores[chosen] = np.mean(
                [choice.scores[chosen] for choice in choices], axis=0
            )
            rows, fits = rows[~every], fits[:, ~every]
        if self.vcpus.cells == 1:
            rows = rows[fits.any(axis=0)]
        return rows

    def _pin_to_other_cells(self, index: int) -> None:
        """Choose other cells of a host, to which its vCPUs can be pinned."""
        host = self.hosts[index]
        for cells in self.vcpus.other_cells(host, self._cells[index]):
            choice, at = self._on_cells(index, cells)
            if not choice.fits[at]:
                continue
            claim = self.vcpus.pinned_claim(host, cells)
            if claim is None:
                continue
            self.claims[index] = claim
            self._fits[index] = True
            self._counts[index] = choice.counts[at]
            self._scores[index] = choice.scores[at]
            return

    def _on_cells(self, index: int, cells: Cells) -> tuple[Choice, int]:
        """Return a choice on those cells of a host, and the host's index."""
        if len(cells) == 1 and cells[0] in self._on_node:
            return self._on_node[cells[0]], index
        allowed = np.isin(self._node[[index]], cells)
        return self.plan.choose(self.free.of_host(index), allowed), 0

    def _accept(self, choice: Choice, where: base.Bools) -> None:
        self._fits |= where
        self._counts[where] = choice.counts[where]
        self._scores[where] = choice.scores[where]
