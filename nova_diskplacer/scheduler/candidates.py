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

"""A host's allocation candidates with the chosen disks written in.

Nova claims ``host_state.allocation_candidates[0]``. The filter looks at
thousands of hosts, Nova claims on one: so the disks are written when the
candidate is taken out, and the one host that is about to be claimed is looked
up in Placement first. That is what makes concurrent requests choose different
disks instead of failing on the same ones.
"""

import collections
import collections.abc
import dataclasses
import functools
import typing

import numpy as np

from nova_diskplacer.mapping import base
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import claims
from nova_diskplacer.scheduler import fleet as fleets
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import plan as plans
from nova_diskplacer.scheduler import shuffle

Candidate = dict[str, typing.Any]

#: Returns the disks of a provider tree as Placement sees them now.
Look = collections.abc.Callable[
    [str], collections.abc.Mapping[str, fleets.Capacity]
]

Offer = tuple[fleets.View, base.Ints]

#: What is claimed on disks only; a disk's GiB may be reserved already.
_OF_DISKS = frozenset((placement_client.GB, placement_client.MBPS))

# How often Nova is to try for a server before it gives up. On a host that is
# the only one it may well lose against other scheduler workers once or twice.
_TRIES = 4

#: A list of hosts in which some may be several times is no longer than this.
FEW = 2 * (_TRIES - 1)

# Attribute of a request spec. Nova neither stores nor sends what is no field.
_KEPT = 'diskplacer_pass'


class Pass:
    """One pass of the filter over the H hosts of one request.

    Nova takes the candidates of one host after the other until it can claim
    one. If it takes more, the claims before have failed; if a claim was made,
    it collects alternates. Each try on a host chooses anew.

    :param server_id: the request's server.
    :param rows: the hosts' rows in the fleet, (H,).
    :param choice: what the filter chose on them.
    :param look: returns the disks of a provider tree as Placement sees them.
    :param alignment: for a request that wants disks on its vCPUs' cells.
    :param only_alternates: nothing will be claimed.
    """

    def __init__(
        self,
        server_id: str,
        plan: plans.Plan,
        fleet: fleets.Fleet,
        rows: base.Ints,
        choice: plans.Choice,
        look: Look,
        alignment: numa_alignment.Alignment | None = None,
        *,
        only_alternates: bool = False,
    ) -> None:
        self.plan = plan
        self.fleet = fleet
        self.scores = choice.scores
        self.server_id = server_id
        self._rows = rows
        self._counts = choice.counts
        self._look = look
        self._alignment = alignment
        self._only_alternates = only_alternates
        self._claim: claims.Claim | None = None
        self._tries: collections.Counter[int] = collections.Counter()
        self._next: tuple[int, Offer | None] | None = None
        self._alternates: dict[int, Offer | None] = {}

    @functools.cached_property
    def pressures(self) -> base.Floats:
        """Mean pressure on the disks chosen on each host, 0 to 1 (H,)."""
        return self.fleet.pressure(self._rows, self._counts)

    @property
    def is_claimed(self) -> bool:
        """Tell that the server has its host."""
        if self._only_alternates:
            return True
        return self._claim is not None and self._claim.is_made

    def of(self, hosts: list[typing.Any], figures: base.Floats) -> base.Floats:
        """Return the figures of those hosts (N,) that are left.

        :param figures: a figure for each host of the pass, (H,).
        """
        return figures[[host.allocation_candidates._index for host in hosts]]

    def chosen(self, index: int) -> Offer:
        """Return a host's view and what the filter chose on it, (D,)."""
        view = self.fleet.view(self._rows[index : index + 1])
        return view, self._counts[index]

    def offers(self, host: typing.Any, index: int) -> bool:
        """Tell whether Nova should try to claim on a host, or name it."""
        if self.is_claimed:
            # a host that is in the list several times is one alternate
            if not self._only_alternates and index in self._alternates:
                return False
            return self._alternate(host, index) is not None
        required = self._alignment is not None and self._alignment.required
        if not required and not self._tries[index]:
            return True
        offer = self._choose(host, index)
        self._next = index, offer
        return offer is not None

    def choose(self, host: typing.Any, index: int) -> Offer:
        """Choose the disks of a host that is about to be claimed.

        :returns: the host's view and the vdisks on each disk, (D,).
        """
        if self.is_claimed:
            offer = self._alternates[index] = self._alternate(host, index)
        elif self._next is not None and self._next[0] == index:
            offer = self._next[1]
        else:
            offer = self._choose(host, index)
        self._next = None
        return offer or self.chosen(index)

    def hand_out(self, candidate: claims.Candidate) -> None:
        """Have the last choice last as long as Nova keeps the candidate."""
        if self._claim is not None and not self.is_claimed:
            self._claim.hand_out(candidate)

    def _alternate(self, host: typing.Any, index: int) -> Offer | None:
        """Choose without a look at Placement: nothing is claimed now."""
        if index in self._alternates:
            return self._alternates[index]
        if self._alignment is None:
            return self.chosen(index)
        view = self.fleet.view(self._rows[index : index + 1])
        choice, _ = self._alignment.settle(view, host, claim=False)
        return (view, choice.counts[0]) if choice.fits[0] else None

    def _choose(self, host: typing.Any, index: int) -> Offer | None:
        if self._claim is not None:
            self.fleet.under_way.fail(self._claim)
            self._claim = None
        self.fleet.under_way.settle()
        row = int(self._rows[index])
        found = self._look(host.uuid)
        self._tries[index] += 1
        if not found and self._tries[index] > 1:
            return None
        self.fleet.refresh(found, row)
        with self.fleet.choosing:
            # where nothing else fits, compete for what others chose a
            # moment ago: their claims may fail
            for holds in (True, False):
                view = self.fleet.view(base.rows(row), holds=holds)
                order = self._order(view, index)
                view = view.arrange(order)
                if self._tries[index] > 1:
                    # to get any disk is worth more now than the best
                    view = dataclasses.replace(
                        view, load=np.zeros_like(view.load)
                    )
                undo = None
                if self._alignment is None:
                    choice = self.plan.choose(view)
                else:
                    choice, undo = self._alignment.settle(
                        view, host, claim=True
                    )
                if choice.fits[0]:
                    self._hold(host, row, order, choice.counts[0], undo)
                    return view, choice.counts[0]
        return None

    def _order(self, view: fleets.View, index: int) -> base.Ints:
        """Return an order of a host's disks that is this request's own."""
        usable = view.slots(self.plan.request)[0] > 0
        disks = max(1, int(np.count_nonzero(self._counts[index])))
        seed = f'{self.server_id} {self._tries[index]}'
        return shuffle.order(usable, disks, seed)

    def _hold(
        self,
        host: typing.Any,
        row: int,
        order: base.Ints,
        counts: base.Ints,
        undo: numa_alignment.Undo | None,
    ) -> None:
        """Count what was chosen as used.

        :param order: the fleet's column of each of the view's, (D,).
        """
        request, fleet = self.plan.request, self.fleet
        held = np.zeros_like(counts)
        held[order] = counts
        fleet.hold(row, held, request.vdisk_gb, request.vdisk_mbps)

        def let_go() -> None:
            fleet.hold(row, -held, request.vdisk_gb, request.vdisk_mbps)
            if undo is not None:
                undo()

        self._claim = claims.Claim(host, let_go)
        fleet.under_way.add(self._claim)


class DiskCandidates(collections.abc.Sequence[Candidate]):
    """Nova's candidates of one host, each with the same disks added.

    Taking item 0 chooses the disks anew from fresh figures, and so does
    iterating. Nova's own dictionaries are never written to: a multi-create
    request filters the same candidates again for every server. Where disks
    must be on the vCPUs' cells and turn out not to be, it is false and
    iterating yields nothing.

    :param host: the host state; its candidates are those without disks, or
        what an earlier pass made of them.
    :param index: the host's index in the pass.
    """

    __slots__ = ('_candidates', '_host', '_index', '_pass')

    def __init__(self, host: typing.Any, pass_: Pass, index: int) -> None:
        found = host.allocation_candidates
        if type(found) is DiskCandidates:
            found = found._candidates
        self._candidates: collections.abc.Sequence[Candidate] = found
        self._host = host
        self._pass = pass_
        self._index = index

    def __bool__(self) -> bool:
        # Nova asks right before it takes item 0, and skips the host if not
        return self._pass.offers(self._host, self._index)

    def __len__(self) -> int:
        return len(self._candidates)

    @property
    def without_disks(self) -> collections.abc.Sequence[Candidate]:
        """The candidates as Nova made them, at no cost."""
        return self._candidates

    def __iter__(self) -> collections.abc.Iterator[Candidate]:
        if not self:
            return
        view, counts = self._pass.choose(self._host, self._index)
        for candidate in self._candidates:
            yield self._write(candidate, view, counts)

    @typing.overload
    def __getitem__(self, index: int) -> Candidate: ...

    @typing.overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if index != 0:
            return list(self)[index]
        view, counts = self._pass.choose(self._host, self._index)
        candidate = self._write(self._candidates[0], view, counts)
        self._pass.hand_out(candidate)
        return candidate

    def _write(
        self, candidate: Candidate, view: fleets.View, counts: base.Ints
    ) -> claims.Candidate:
        allocations = {
            provider: allocation
            for provider, allocation in candidate['allocations'].items()
            if allocation['resources'].keys().isdisjoint(_OF_DISKS)
        }
        claimed = self._pass.plan.allocations(
            view.disks[0], counts, view.reserved_gb[0]
        )
        for disk, resources in claimed.items():
            allocations[disk] = {'resources': resources}
        return claims.Candidate(candidate, allocations=allocations)


def passed(hosts: list[typing.Any]) -> Pass | None:
    """Return the pass that a request's hosts have come through.

    None where vdisks are not asked for.
    """
    found = hosts[0].allocation_candidates
    return found._pass if type(found) is DiskCandidates else None


def keep(spec: typing.Any, pass_: Pass) -> None:
    """Keep the last pass with its request."""
    setattr(spec, _KEPT, pass_)


def is_claimed(spec: typing.Any) -> bool:
    """Tell whether a request's server, of several, has its host already.

    Nova filters once more then, to find alternates for all of them.
    """
    last: Pass | None = getattr(spec, _KEPT, None)
    return (
        last is not None
        and last.server_id == spec.instance_uuid
        and last.is_claimed
    )


def repeated(hosts: list[typing.Any]) -> list[typing.Any]:
    """Return a request's hosts as often as Nova is to try them.

    Nova goes on to the next host of its list when a claim fails, which other
    scheduler workers may be the reason of. Few hosts are in the list several
    times, so that it comes back to them.
    """
    return hosts * -(-_TRIES // len(hosts))


def once(hosts: collections.abc.Iterable[typing.Any]) -> list[typing.Any]:
    """Return each of a request's hosts once, in the same order."""
    found = list(hosts)
    if len(found) > FEW:
        return found
    return list({id(host): host for host in found}.values())
