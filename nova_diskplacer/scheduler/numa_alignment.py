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

Where will Nova put the vCPUs, and do the disks there hold the vdisks? To ask
Nova takes longer than all the rest, so hosts are asked about only where it
makes a difference: not where no disks have room, not where the server takes
all cells, and not, before one of them is to be claimed, where every cell's
disks have room.
"""

import collections
import collections.abc
import functools
import itertools
import typing

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import fleet
from nova_diskplacer.scheduler import numa_claims
from nova_diskplacer.scheduler import pending_numa_claims
from nova_diskplacer.scheduler import plan as plans

Hosts = list[typing.Any]
Undo = collections.abc.Callable[[], None]


class Alignment:
    """Chooses disks on the cells of a request's vCPUs.

    :ivar required: reject what cannot be aligned; otherwise disks are chosen
        there as if nothing had been asked, and score at most a third, aligned
        ones at least two thirds.
    """

    def __init__(self, plan: plans.Plan, vcpus: numa_claims.VCPUs) -> None:
        self.required = plan.request.numa == flavor.REQUIRED
        self._plan = plan
        self._vcpus = vcpus

    def choose(self, view: fleet.View, hosts: Hosts) -> plans.Choice:
        """Choose disks on each of the hosts.

        Where Nova was not asked, the disks are those of any of the cells and
        the score is the average of all.
        """
        numa_claims.restore(hosts)
        look = _Look(self._plan, self._vcpus, view, hosts)
        return self._or_any(look.choose(), view)

    def settle(
        self, view: fleet.View, host: typing.Any, *, claim: bool
    ) -> tuple[plans.Choice, Undo]:
        """Choose disks on a host whose candidate is taken.

        Sets the limits of its claim where the vCPUs must be steered, and
        those of a ``required`` wherever possible: what another scheduler has
        put on the host meanwhile then fails the claim instead of moving it
        to another cell.

        :param view: that host's.
        :param claim: whether the claim is made now.
        :returns: the choice, and what undoes the rest if the claim fails.
        """
        look = _Look(self._plan, self._vcpus, view, [host])
        choice = look.choose(settle=True, name=self.required)
        undo = _nothing
        if choice.fits[0] and 0 in look.seats:
            limits = look.limits.get(0)
            if limits is None and self.required:
                limits = self._vcpus.steer(host, look.seats[0])
            numa_claims.take(host, look.seats[0], limits)
            if claim:
                undo = functools.partial(_leave, self._vcpus.give(host))
        return self._or_any(choice, view), undo

    def _or_any(self, choice: plans.Choice, view: fleet.View) -> plans.Choice:
        if self.required:
            return choice
        plain = self._plan.choose(view)
        aligned = choice.fits
        return plans.Choice(
            aligned | plain.fits,
            np.where(aligned[:, None], choice.counts, plain.counts),
            np.where(aligned, 2.0 + choice.scores, plain.scores) / 3,
        )


def _leave(given: pending_numa_claims.Given) -> None:
    pending_numa_claims.RECENT.remove(given)
    numa_claims.leave(given.host)


def _nothing() -> None:
    pass


class _Look:
    """One look at what is free on H hosts.

    :ivar seats: {index of a host: cells of the vCPUs}, where they are known.
    :ivar limits: {index of a host: limits that steer the claim there}.
    """

    def __init__(
        self,
        plan: plans.Plan,
        vcpus: numa_claims.VCPUs,
        view: fleet.View,
        hosts: Hosts,
    ) -> None:
        self.seats: dict[int, numa_claims.Cells] = {}
        self.limits: dict[int, typing.Any] = {}
        self._joined: set[int] = set()
        self._plan = plan
        self._vcpus = vcpus
        self._view = view
        self._hosts = hosts
        self._cells = [numa_claims.of_host(host) for host in hosts]
        self._node = _nodes(view, self._cells)
        self._on = {
            node: plan.choose(view, self._node == node)
            for node in np.unique(self._node[view.medium > 0]).tolist()
            if node != fleet.NO_NODE
        }
        shape = self._node.shape
        self._fits = np.zeros(shape[0], dtype=bool)
        self._counts = np.zeros(shape, dtype=np.int64)
        self._scores = np.zeros(shape[0])

    def choose(
        self, *, settle: bool = False, name: bool = False
    ) -> plans.Choice:
        """Choose disks on all hosts.

        :param settle: ask Nova even where every cell would do.
        :param name: prefer cells that will be left when all that is under
            way has been claimed, where they can be named.
        """
        if self._vcpus.cells:
            self._follow(settle, name)
        else:
            self._best_node()
        return plans.Choice(self._fits, self._counts, self._scores)

    def _best_node(self) -> None:
        """Keep to one node of each host: the agent moves the vCPUs there."""
        for choice in self._on.values():
            better = ~self._fits | (choice.scores > self._scores)
            self._take(choice, choice.fits & better)

    def _follow(self, settle: bool, name: bool) -> None:
        room = self._plan.choose(self._view, self._node != fleet.NO_NODE).fits
        allowed = np.zeros(self._node.shape, dtype=bool)
        for own, rows in self._by_cells(room).items():
            if len(own) == self._vcpus.cells:
                self.seats.update(dict.fromkeys(rows.tolist(), own))
            else:
                if not settle:
                    rows = self._where_all_fit(own, rows)
                self._predict(rows, name)
        for index, seat in self.seats.items():
            allowed[index] = np.isin(self._node[index], seat)
        choice = self._plan.choose(self._view, allowed)
        seated = np.zeros(len(self._fits), dtype=bool)
        seated[list(self.seats)] = True
        self._take(choice, choice.fits & seated)
        for index in np.flatnonzero(seated & ~choice.fits).tolist():
            self._steer(index)

    def _by_cells(
        self, room: base.Bools
    ) -> dict[numa_claims.Cells, base.Ints]:
        """Return the hosts with room and enough cells, by their cells.

        Without those where servers of the same request are already.
        """
        groups = collections.defaultdict(list)
        for index in np.flatnonzero(room).tolist():
            own = self._cells[index]
            taken = numa_claims.taken(self._hosts[index])
            if taken is not None:
                self._join(index, taken)
            elif len(own) >= self._vcpus.cells:
                groups[own].append(index)
        return {own: np.array(rows) for own, rows in groups.items()}

    def _join(self, index: int, taken: numa_claims.Seat) -> None:
        """Take the cells that servers of the same request have taken.

        They are built in any order and by the same limits, so with different
        cells nobody could tell which of them is where.
        """
        if self._vcpus.predict(self._hosts[index]) == taken.cells:
            self.seats[index] = taken.cells
            self.limits[index] = taken.limits
            self._joined.add(index)

    def _where_all_fit(
        self, own: numa_claims.Cells, rows: base.Ints
    ) -> base.Ints:
        """Take any cell where each has room; return the other hosts.

        Those where none has are not among them, unless two may together.
        """
        choices = [self._on[cell] for cell in own if cell in self._on]
        if not choices:
            return rows[:0]
        fits = np.array([choice.fits[rows] for choice in choices])
        if len(choices) == len(own):
            every = fits.all(axis=0)
            chosen = np.zeros(len(self._fits), dtype=bool)
            chosen[rows[every]] = True
            self._take(choices[0], chosen)
            self._scores[chosen] = np.mean(
                [choice.scores[chosen] for choice in choices], axis=0
            )
            rows, fits = rows[~every], fits[:, ~every]
        if self._vcpus.cells == 1:
            rows = rows[fits.any(axis=0)]
        return rows

    def _predict(self, rows: base.Ints, name: bool) -> None:
        for index in rows.tolist():
            host = self._hosts[index]
            seat: numa_claims.Cells = ()
            if name:
                seat, self.limits[index] = self._vcpus.name(host)
            seat = seat or self._vcpus.predict(host)
            if seat:
                self.seats[index] = seat

    def _steer(self, index: int) -> None:
        """Look for other cells of a host that its vCPUs can be sent to."""
        host, own = self._hosts[index], self._cells[index]
        if len(own) == self._vcpus.cells or index in self._joined:
            return
        for seat in itertools.combinations(own, self._vcpus.cells):
            choice, at = self._on_cells(index, seat)
            if not choice.fits[at]:
                continue
            limits = self._vcpus.steer(host, seat)
            if limits is None or self._vcpus.fit(host, limits) != seat:
                continue
            self.seats[index] = seat
            self.limits[index] = limits
            self._fits[index] = True
            self._counts[index] = choice.counts[at]
            self._scores[index] = choice.scores[at]
            return

    def _on_cells(
        self, index: int, seat: numa_claims.Cells
    ) -> tuple[plans.Choice, int]:
        """Return a choice on those cells of a host, and the host's index."""
        if len(seat) == 1 and seat[0] in self._on:
            return self._on[seat[0]], index
        row = base.rows(index)
        allowed = np.isin(self._node[row], seat)
        return self._plan.choose(self._view.take(row), allowed), 0

    def _take(self, choice: plans.Choice, where: base.Bools) -> None:
        self._fits |= where
        self._counts[where] = choice.counts[where]
        self._scores[where] = choice.scores[where]


def _nodes(view: fleet.View, host_cells: list[numa_claims.Cells]) -> base.Ints:
    """Return each disk's node, (H, D).

    On a machine with one cell firmware need not tell a disk's.
    """
    only = np.array(
        [own[0] if len(own) == 1 else fleet.NO_NODE for own in host_cells],
        dtype=np.int64,
    )[:, None]
    unknown = view.numa_node == fleet.NO_NODE
    return np.where(unknown, only, view.numa_node)
