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

"""Allocation candidates of a host, with the chosen disks written in.

The filter chooses disks on all hosts from the agents' reports. When Nova is
about to claim on a host, its disks are chosen again from Placement's current
figures.

Contract with Nova, which ``nova_internals`` checks at start:
``SchedulerManager._schedule`` tests ``host_state.allocation_candidates`` for
truth, takes item 0 of it, claims by that item, and only then goes on to
another host. So :class:`DiskCandidates` does what a sequence does not do
elsewhere:

- ``__bool__`` and ``__getitem__`` query Placement and choose disks, for the
  one host that Nova is about to claim on and not for the thousands that pass
  the filter. Concurrent requests so choose different disks instead of failing
  on the same ones. They count as used until the claim shows.
- ``__bool__`` is false if the host does not hold the vdisks any more.
- The item is garbage collected when Nova is done with the request. By that
  the scheduler detects a failed claim (``pending_claims``).

Other code reads Nova's candidates by ``without_disks``, without these effects.
"""

import collections
import collections.abc
import dataclasses
import functools
import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import numa_cells
from nova_diskplacer.scheduler import packing as packing_
from nova_diskplacer.scheduler import pending_claims
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import retries
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

Candidate = dict[str, typing.Any]

# Resources of disks only. A disk may have no GiB to claim: they are reserved.
_DISK_RESOURCES = frozenset((placement_client.GB, placement_client.MBPS))


class HostChoice(typing.NamedTuple):
    """The free capacity of one host, and the vdisks on each disk, (D,)."""

    free: FreeCapacity
    counts: base.Ints


class _Given(typing.NamedTuple):
    """The choice that Nova was given to claim, and the number of its host."""

    number: int
    choice: HostChoice


@dataclasses.dataclass(eq=False)
class FilterRun:
    """One run of the filter over the H hosts of a request.

    Nova takes the candidates of one host after the other until it can claim
    one. If it takes more, the claims before have failed; if a claim was made,
    it collects alternates. Each try on a host chooses again.

    ``rows`` are the hosts' rows in the cache, (H,), and ``choice`` is the
    choice of the filter on them, by the capacity ``free``. ``alignment``
    aligns disks with vCPUs, if the request asks for it. ``packing`` is what
    the scores have of it, if the request packs. ``only_alternates``: Nova has
    claimed for this server already.
    """

    server_id: str
    plan: DiskPlan
    cache: HostDiskCache
    rows: base.Ints
    choice: Choice
    free: FreeCapacity
    alignment: numa_alignment.Alignment | None = None
    packing: packing_.Packing | None = None
    only_alternates: bool = False

    def __post_init__(self) -> None:
        self._pending_claim: pending_claims.PendingClaim | None = None
        self._tries: collections.Counter[int] = collections.Counter()
        self._given: _Given | None = None
        self._next: tuple[int, HostChoice | None] | None = None
        self._alternates: dict[int, HostChoice | None] = {}
        self._passed: list[typing.Any] = []
        self._indices: base.Ints = np.zeros(0, dtype=np.intp)

    @functools.cached_property
    def pressures(self) -> base.Floats:
        """Mean pressure on the disks chosen on each host, 0 to 1, (H,)."""
        return self.cache.pressure(self.rows, self.choice.counts)

    @property
    def is_claimed(self) -> bool:
        """Return whether Nova has claimed for the server."""
        claim = self._pending_claim
        return self.only_alternates or (claim is not None and claim.is_made)

    def offer(
        self, hosts: list[typing.Any], indices: base.Ints
    ) -> list[typing.Any]:
        """Write the chosen disks into the candidates of hosts that fit.

        :param hosts: the states of all H hosts.
        :param indices: the hosts to offer to Nova, (N,), in this order.
        :returns: their states.
        """
        at = indices.tolist()
        passed = [hosts[index] for index in at]
        for host, index in zip(passed, at, strict=True):
            host.allocation_candidates = DiskCandidates(host, self, index)
        self._passed, self._indices = passed, indices
        return passed.copy()

    def values_for(
        self, hosts: list[typing.Any], values: base.Floats
    ) -> base.Floats:
        """Return the values of N of the offered hosts, (N,).

        Nova weighs the hosts as the last filter returns them, so their
        indices are known without a look at any. The lists are compared all
        the same: another filter may have rejected some. Hosts are those of
        this request, whatever another one writes into their states meanwhile,
        and the run has read the provider of each: nothing is kept from one
        request to the next.

        :param values: those of all hosts, (H,).
        """
        if hosts == self._passed:
            return values[self._indices]
        index_of = dict(
            zip(map(id, self._passed), self._indices.tolist(), strict=True)
        )
        return values[[index_of[id(host)] for host in hosts]]

    def is_usable(self, host: typing.Any, index: int) -> bool:
        """Return whether Nova should claim on a host or list it.

        The disks of the claim are chosen to know it. A claim alone would not
        tell: nobody claims room for volumes beside the vdisks.
        """
        if self.is_claimed:
            # a host that is in the list several times is one alternate
            if not self.only_alternates and index in self._alternates:
                return False
            return self._alternate(host, index) is not None
        choice = self._choose_for_claim(host, index)
        self._next = index, choice
        if choice is None:
            decision_log.log_skip(
                self.server_id,
                self.plan,
                self.cache,
                host,
                int(self.rows[index]),
            )
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
        if choice is not None:
            return choice
        # Nova takes the candidate without a look whether it is usable
        if not self.is_claimed:
            self._pending_claim = pending_claims.PendingClaim(
                host, lambda: None
            )
        return self._filter_choice(index)

    def track(self, candidate: pending_claims.Candidate) -> None:
        """Keep the last choice pending as long as Nova keeps the candidate."""
        if self._pending_claim is not None and not self.is_claimed:
            self._pending_claim.track(candidate)

    def log(self, host: typing.Any, index: int, choice: HostChoice) -> None:
        """Log the disks of the candidate that Nova takes of a host."""
        if not decision_log.is_enabled():
            return
        decision_log.log_choice(
            self.server_id,
            host,
            'alternate' if self.is_claimed else f'try {self._tries[index]}',
            self.plan,
            choice.free,
            choice.counts,
            float(self.choice.scores[index]),
            self._describe_packing(index),
            float(self.pressures[index]),
        )

    def _describe_packing(self, index: int) -> str:
        """Return what a host's score has of packing, for the log."""
        return '' if self.packing is None else self.packing.describe(index)

    def _filter_choice(self, index: int) -> HostChoice:
        # the host may have other disks by now
        return HostChoice(self.free.of_host(index), self.choice.counts[index])

    def _alternate(self, host: typing.Any, index: int) -> HostChoice | None:
        """Choose disks on an alternate, without a query to Placement."""
        if index in self._alternates:
            return self._alternates[index]
        if self.alignment is None:
            return self._filter_choice(index)
        free = self.cache.free_capacity(self.rows[[index]])
        choice, _ = self.alignment.choose_for_claim(free, host, pending=False)
        return HostChoice(free, choice.counts[0]) if choice.fits[0] else None

    def _choose_for_claim(
        self, host: typing.Any, index: int
    ) -> HostChoice | None:
        """Choose disks from fresh figures, and count them as used."""
        self._tries[index] += 1
        given = self._given
        if given and given.number == index and self._may_have(given.choice):
            # Nova did not get the answer, and would add other disks
            return given.choice
        if self._pending_claim is not None:
            self.cache.pending_claims.fail(self._pending_claim)
            self._pending_claim = None
        self.cache.pending_claims.release_failed()
        row = int(self.rows[index])
        capacities = placement_queries.disks_in_tree(host.uuid)
        if not capacities and self._tries[index] > 1:
            return None
        if capacities is not None:
            self.cache.update_from_placement(row, capacities)
        with self.cache.selection_lock:
            # if nothing else fits, compete for disks that others have just
            # chosen: their claims may fail
            for include_pending in (True, False):
                free = self.cache.free_capacity(
                    self.rows[[index]], include_pending=include_pending
                )
                order = self._disk_order(free, index)
                free = free.reorder_disks(order)
                compared = free
                if self._tries[index] > 1:
                    # all requests would prefer the same disks again
                    compared = dataclasses.replace(
                        free, load=np.zeros_like(free.load)
                    )
                release = None
                if self.alignment is None:
                    choice = self.plan.choose(compared)
                else:
                    choice, release = self.alignment.choose_for_claim(
                        compared, host, pending=True
                    )
                if choice.fits[0]:
                    counts = choice.counts[0]
                    self._add_pending(host, row, order, counts, release)
                    self._given = _Given(index, HostChoice(free, counts))
                    return self._given.choice
        return None

    def _may_have(self, choice: HostChoice) -> bool:
        """Return whether the server has claims on the disks of a choice.

        It may if the query fails.
        """
        disks = self.plan.allocations(choice.free, choice.counts).keys()
        claims = placement_queries.claims_of(self.server_id)
        return claims is None or (bool(disks) and disks <= claims.keys())

    def _disk_order(self, free: FreeCapacity, index: int) -> base.Ints:
        """Return an order of a host's disks that is this request's own."""
        usable = free.slots(self.plan.request)[0] > 0
        disks = max(1, int(np.count_nonzero(self.choice.counts[index])))
        seed = f'{self.server_id} {self._tries[index]}'
        return retries.disk_order(usable, disks, seed)

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
        made = cache.add_pending(
            row, pending, request.piece_gb, request.piece_mbps
        )

        def release() -> None:
            cache.release_pending(made)
            if release_cells is not None:
                release_cells()

        self._pending_claim = pending_claims.PendingClaim(host, release)
        cache.pending_claims.add(self._pending_claim)


class DiskCandidates(collections.abc.Sequence[Candidate]):
    """Nova's candidates of one host, each with the same disks added.

    Taking item 0 chooses the disks from fresh figures, and so does iterating.
    Nova's own dictionaries are never written to: a multi-create request
    filters the same candidates again for every server. If the server cannot
    have disks, the sequence is false and iterating yields nothing.

    :param host: the host state; its candidates are Nova's, or those of an
        earlier run of the filter.
    :param run: the run of the filter that makes the candidates.
    :param index: the host's index in the run.
    :ivar without_disks: Nova's own candidates.
    """

    __slots__ = ('_host', '_index', '_run', 'without_disks')

    def __init__(self, host: typing.Any, run: FilterRun, index: int) -> None:
        before = host.allocation_candidates
        if type(before) is DiskCandidates:
            before = before.without_disks
        self.without_disks: collections.abc.Sequence[Candidate] = before
        self._host = host
        self._run = run
        self._index = index

    def __bool__(self) -> bool:
        return self._run.is_usable(self._host, self._index)

    def __len__(self) -> int:
        return len(self.without_disks)

    def __iter__(self) -> collections.abc.Iterator[Candidate]:
        if self._run.is_claimed:
            # the filters of another server, which has no disks yet
            yield from self.without_disks
            return
        if not self:
            return
        choice = self._run.choose(self._host, self._index)
        for candidate in self.without_disks:
            yield self._add_disks(candidate, choice)

    def __getitem__(self, index: typing.Any) -> typing.Any:
        if index != 0:
            return list(self)[index]
        choice = self._run.choose(self._host, self._index)
        candidate = self._add_disks(self.without_disks[0], choice)
        self._run.track(candidate)
        self._run.log(self._host, self._index, choice)
        return candidate

    def _add_disks(
        self, candidate: Candidate, choice: HostChoice
    ) -> pending_claims.Candidate:
        allocations = {
            provider: allocation
            for provider, allocation in candidate['allocations'].items()
            if allocation['resources'].keys().isdisjoint(_DISK_RESOURCES)
        }
        claimed = self._run.plan.allocations(choice.free, choice.counts)
        for disk, resources in claimed.items():
            allocations[disk] = {'resources': resources}
        return pending_claims.Candidate(candidate, allocations=allocations)
