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

import collections.abc
import functools
import typing

from nova_diskplacer import placement
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import alignment as alignments
from nova_diskplacer.scheduler import fleet as fleets
from nova_diskplacer.scheduler import plan as plans

Candidate = dict[str, typing.Any]

#: Returns the disks of a provider tree as Placement sees them now.
Look = collections.abc.Callable[
    [str], collections.abc.Mapping[str, fleets.Capacity]
]

Offer = tuple[fleets.View, base.Ints]

#: What is claimed on disks only; a disk's GiB may be reserved already.
_OF_DISKS = frozenset((placement.GB, placement.MBPS))


class Pass:
    """One pass of the filter over the H hosts of one request.

    :param rows: the hosts' rows in the fleet, (H,).
    :param choice: what the filter chose on them.
    :param look: returns the disks of a provider tree as Placement sees them.
    :param alignment: for a request that wants disks on its vCPUs' cells.
    """

    def __init__(
        self,
        plan: plans.Plan,
        fleet: fleets.Fleet,
        rows: base.Ints,
        choice: plans.Choice,
        look: Look,
        alignment: alignments.Alignment | None = None,
    ) -> None:
        self.plan = plan
        self.fleet = fleet
        self.scores = choice.scores
        self._rows = rows
        self._counts = choice.counts
        self._look = look
        self._alignment = alignment
        self._offers: dict[int, Offer | None] = {}
        self._claiming: tuple[typing.Any, int, int, base.Ints] | None = None

    @functools.cached_property
    def pressures(self) -> base.Floats:
        """Mean pressure on the disks chosen on each host, 0 to 1 (H,)."""
        return self.fleet.pressure(self._rows, self._counts)

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
        """Whether Nova should try to claim on a host."""
        if self._alignment is None or not self._alignment.required:
            return True
        return self._offer(host, index) is not None

    def choose(self, host: typing.Any, index: int) -> Offer:
        """Choose the disks of a host that is about to be claimed.

        :returns: the host's view and the vdisks on each disk, (D,).
        """
        return self._offer(host, index) or self.chosen(index)

    def _offer(self, host: typing.Any, index: int) -> Offer | None:
        if index not in self._offers:
            if self._claimed():
                # Nova collects alternates: nothing will be claimed now
                offer = self._alternate(host, index)
            else:
                offer = self._choose(host, index)
            self._offers[index] = offer
        return self._offers[index]

    def _alternate(self, host: typing.Any, index: int) -> Offer | None:
        if self._alignment is None:
            return self.chosen(index)
        view = self.fleet.view(self._rows[index : index + 1])
        choice = self._alignment.settle(view, host, claim=False)
        return (view, choice.counts[0]) if choice.fits[0] else None

    def _choose(self, host: typing.Any, index: int) -> Offer | None:
        row = int(self._rows[index])
        rows = base.rows(row)
        self.fleet.refresh(self._look(host.uuid), row)
        with self.fleet.choosing:
            # where nothing else fits, compete for what others chose a
            # moment ago: their claims may fail
            for holds in (True, False):
                view = self.fleet.view(rows, holds=holds)
                if self._alignment is None:
                    choice = self.plan.choose(view)
                else:
                    choice = self._alignment.settle(view, host, claim=True)
                if choice.fits[0]:
                    counts = choice.counts[0]
                    self._hold(row, counts)
                    self._claiming = (host, host.num_instances, row, counts)
                    return view, counts
        return None

    def _claimed(self) -> bool:
        """Whether the last choice was claimed; if not, let go of it."""
        if self._claiming is None:
            return False
        host, instances, row, counts = self._claiming
        if host.num_instances > instances:
            return True
        self._hold(row, -counts)
        if self._alignment is not None:
            self._alignment.let_go()
        self._claiming = None
        return False

    def _hold(self, row: int, counts: base.Ints) -> None:
        request = self.plan.request
        self.fleet.hold(row, counts, request.vdisk_gb, request.vdisk_mbps)


class DiskCandidates(collections.abc.Sequence[Candidate]):
    """Nova's candidates of one host, each with the same disks added.

    Taking item 0 chooses the disks anew from fresh figures; iterating yields
    what the filter chose. Nova's own dictionaries are never written to: a
    multi-create request filters the same candidates again for every server.
    Where disks must be on the vCPUs' cells and turn out not to be, it is
    false.

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

    def __iter__(self) -> collections.abc.Iterator[Candidate]:
        view, counts = self._pass.chosen(self._index)
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
        return self._write(self._candidates[0], view, counts)

    def _write(
        self, candidate: Candidate, view: fleets.View, counts: base.Ints
    ) -> Candidate:
        allocations = {
            provider: allocation
            for provider, allocation in candidate['allocations'].items()
            if allocation['resources'].keys().isdisjoint(_OF_DISKS)
        }
        claims = self._pass.plan.allocations(
            view.disks[0], counts, view.reserved_gb[0]
        )
        for disk, resources in claims.items():
            allocations[disk] = {'resources': resources}
        return {**candidate, 'allocations': allocations}


def passed(hosts: list[typing.Any]) -> Pass | None:
    """Return the pass that a request's hosts have come through.

    None where vdisks are not asked for.
    """
    found = hosts[0].allocation_candidates
    return found._pass if type(found) is DiskCandidates else None
