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

"""The choice of disks on each host that Nova tries, in one run of the filter.

The filter chooses disks on all hosts from the agents' reports. When Nova is
about to claim on a host, its disks are chosen again from Placement's current
figures.
"""

import collections
import collections.abc
import dataclasses
import functools
import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler import pending_claims
from nova_diskplacer.scheduler import request_state
from nova_diskplacer.scheduler import shuffle
from nova_diskplacer.scheduler.free_capacity import FreeCapacity
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan

#: Returns the current capacities of the disks in a provider tree.
QueryDisks = collections.abc.Callable[
    [str], collections.abc.Mapping[str, placement_client.DiskCapacity]
]


class HostChoice(typing.NamedTuple):
    """The free capacity of one host, and the vdisks on each disk, (D,)."""

    free: FreeCapacity
    counts: base.Ints


class FilterRun:
    """One run of the filter over the H hosts of a request.

    Nova takes the candidates of one host after the other until it can claim
    one. If it takes more, the claims before have failed; if a claim was made,
    it collects alternates. Each try on a host chooses again.

    :param server_id: the request's server.
    :param rows: the hosts' rows in the cache, (H,).
    :param choice: the choice of the filter.
    :param query_disks: queries Placement for the disks of a host.
    :param alignment: aligns disks with vCPUs, if the request asks for it.
    :param only_alternates: Nova has claimed for this server already.
    """

    def __init__(
        self,
        server_id: str,
        plan: DiskPlan,
        cache: HostDiskCache,
        rows: base.Ints,
        choice: Choice,
        query_disks: QueryDisks,
        alignment: numa_alignment.Alignment | None = None,
        *,
        only_alternates: bool = False,
    ) -> None:
        self.plan = plan
        self.cache = cache
        self.scores = choice.scores
        self._server_id = server_id
        self._rows = rows
        self._counts = choice.counts
        self._query_disks = query_disks
        self._alignment = alignment
        self._only_alternates = only_alternates
        self._pending_claim: pending_claims.PendingClaim | None = None
        self._tries: collections.Counter[int] = collections.Counter()
        self._next: tuple[int, HostChoice | None] | None = None
        self._alternates: dict[int, HostChoice | None] = {}

    @functools.cached_property
    def pressures(self) -> base.Floats:
        """Mean pressure on the disks chosen on each host, 0 to 1, (H,)."""
        return self.cache.pressure(self._rows, self._counts)

    @property
    def is_claimed(self) -> bool:
        """Return whether Nova has claimed for the server."""
        if self._only_alternates:
            return True
        claim = self._pending_claim
        return claim is not None and claim.is_made

    def values_for(
        self, hosts: list[typing.Any], values: base.Floats
    ) -> base.Floats:
        """Return the values of some hosts of the run, (N,).

        :param values: a value for each host of the run, (H,).
        """
        indices = [host.allocation_candidates.host_index for host in hosts]
        return values[indices]

    def filter_choice(self, index: int) -> HostChoice:
        """Return the choice of the filter on a host."""
        free = self.cache.free_capacity(self._rows[index : index + 1])
        return HostChoice(free, self._counts[index])

    def is_usable(self, host: typing.Any, index: int) -> bool:
        """Return whether Nova should claim on a host or list it.

        A host that has not been tried is usable: the claim shows if it holds
        the vdisks.
        """
        if self.is_claimed:
            # a host that is in the list several times is one alternate
            if not self._only_alternates and index in self._alternates:
                return False
            return self._alternate(host, index) is not None
        required = self._alignment is not None and self._alignment.required
        if not required and not self._tries[index]:
            return True
        choice = self._choose_for_claim(host, index)
        self._next = index, choice
        return choice is not None

    def choose(self, host: typing.Any, index: int) -> HostChoice:
        """Choose the disks of a host whose candidate Nova takes."""
        if self.is_claimed:
            choice = self._alternates[index] = self._alternate(host, index)
        elif self._next is not None and self._next[0] == index:
            choice = self._next[1]
        else:
            choice = self._choose_for_claim(host, index)
        self._next = None
        return choice or self.filter_choice(index)

    def track(self, candidate: pending_claims.Candidate) -> None:
        """Keep the last choice pending as long as Nova keeps the candidate."""
        if self._pending_claim is not None and not self.is_claimed:
            self._pending_claim.track(candidate)

    def _alternate(self, host: typing.Any, index: int) -> HostChoice | None:
        """Choose disks on an alternate, without a query to Placement."""
        if index in self._alternates:
            return self._alternates[index]
        if self._alignment is None:
            return self.filter_choice(index)
        free = self.cache.free_capacity(self._rows[index : index + 1])
        choice = self._alignment.choose_for_alternate(free, host)
        return HostChoice(free, choice.counts[0]) if choice.fits[0] else None

    def _choose_for_claim(
        self, host: typing.Any, index: int
    ) -> HostChoice | None:
        """Choose disks from fresh figures, and count them as used."""
        if self._pending_claim is not None:
            self.cache.pending_claims.fail(self._pending_claim)
            self._pending_claim = None
        self.cache.pending_claims.release_failed()
        row = int(self._rows[index])
        capacities = self._query_disks(host.uuid)
        self._tries[index] += 1
        if not capacities and self._tries[index] > 1:
            return None
        self.cache.update_from_placement(row, capacities)
        with self.cache.selection_lock:
            # if nothing else fits, compete for disks that others have just
            # chosen: their claims may fail
            for include_pending in (True, False):
                free = self.cache.free_capacity(
                    base.rows(row), include_pending=include_pending
                )
                order = self._disk_order(free, index)
                free = free.reorder_disks(order)
                if self._tries[index] > 1:
                    # all requests would prefer the same disks again
                    free = dataclasses.replace(
                        free, load=np.zeros_like(free.load)
                    )
                release = None
                if self._alignment is None:
                    choice = self.plan.choose(free)
                else:
                    choice, release = self._alignment.choose_for_claim(
                        free, host
                    )
                if choice.fits[0]:
                    counts = choice.counts[0]
                    self._add_pending(host, row, order, counts, release)
                    return HostChoice(free, counts)
        return None

    def _disk_order(self, free: FreeCapacity, index: int) -> base.Ints:
        """Return an order of a host's disks that is this request's own."""
        usable = free.slots(self.plan.request)[0] > 0
        disks = max(1, int(np.count_nonzero(self._counts[index])))
        seed = f'{self._server_id} {self._tries[index]}'
        return shuffle.order(usable, disks, seed)

    def _add_pending(
        self,
        host: typing.Any,
        row: int,
        order: base.Ints,
        counts: base.Ints,
        release_cells: numa_cells.Release | None,
    ) -> None:
        """Count a choice as used until its claim is made or fails.

        :param order: the cache's column of each chosen column, (D,).
        """
        request, cache = self.plan.request, self.cache
        pending = np.zeros_like(counts)
        pending[order] = counts
        cache.add_pending(row, pending, request.vdisk_gb, request.vdisk_mbps)

        def release() -> None:
            cache.add_pending(
                row, -pending, request.vdisk_gb, request.vdisk_mbps
            )
            if release_cells is not None:
                release_cells()

        self._pending_claim = pending_claims.PendingClaim(host, release)
        cache.pending_claims.add(self._pending_claim)


def is_claimed(spec: typing.Any) -> bool:
    """Return whether Nova has claimed for the server of a request spec.

    Nova then runs the filter once more, for alternates of all servers of a
    multi-create.
    """
    last = request_state.of(spec).last_run
    return last is not None and last.is_claimed
