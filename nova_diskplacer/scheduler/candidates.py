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

Contract with Nova, which ``nova_internals`` checks at start:
``SchedulerManager._schedule`` tests ``host_state.allocation_candidates`` for
truth, takes item 0 of it, claims by that item, and only then goes on to
another host. So :class:`DiskCandidates` does what a sequence does not do
elsewhere:

- ``__bool__`` and ``__getitem__`` query Placement and choose disks, for the
  one host that Nova is about to claim on and not for the thousands that pass
  the filter. Concurrent requests so choose different disks instead of failing
  on the same ones.
- ``__getitem__`` counts the chosen disks as used until the claim shows.
- The item is garbage collected when Nova is done with the request. By that
  the scheduler detects a failed claim (``pending_claims``).

Other code reads Nova's candidates by ``without_disks``, without these effects.
"""

import collections.abc
import typing

from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import filter_run
from nova_diskplacer.scheduler import pending_claims

Candidate = dict[str, typing.Any]

# Resources of disks only. A disk may have no GiB to claim: they are reserved.
_DISK_RESOURCES = frozenset((placement_client.GB, placement_client.MBPS))


class DiskCandidates(collections.abc.Sequence[Candidate]):
    """Nova's candidates of one host, each with the same disks added.

    Taking item 0 chooses the disks from fresh figures, and so does iterating.
    Nova's own dictionaries are never written to: a multi-create request
    filters the same candidates again for every server. If the server cannot
    have disks, the sequence is false and iterating yields nothing.

    :param host: the host state; its candidates are Nova's, or those of an
        earlier run of the filter.
    :param index: the host's index in the run.
    """

    __slots__ = ('_candidates', '_host', '_index', '_run')

    def __init__(
        self, host: typing.Any, run: filter_run.FilterRun, index: int
    ) -> None:
        found = host.allocation_candidates
        if type(found) is DiskCandidates:
            found = found._candidates
        self._candidates: collections.abc.Sequence[Candidate] = found
        self._host = host
        self._run = run
        self._index = index

    def __bool__(self) -> bool:
        return self._run.is_usable(self._host, self._index)

    def __len__(self) -> int:
        return len(self._candidates)

    @property
    def run(self) -> filter_run.FilterRun:
        """Return the run of the filter that made the candidates."""
        return self._run

    @property
    def host_index(self) -> int:
        """Return the host's index in the run."""
        return self._index

    @property
    def without_disks(self) -> collections.abc.Sequence[Candidate]:
        """Return Nova's own candidates."""
        return self._candidates

    def __iter__(self) -> collections.abc.Iterator[Candidate]:
        if not self:
            return
        choice = self._run.choose(self._host, self._index)
        for candidate in self._candidates:
            yield self._add_disks(candidate, choice)

    @typing.overload
    def __getitem__(self, index: int) -> Candidate: ...

    @typing.overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if index != 0:
            return list(self)[index]
        choice = self._run.choose(self._host, self._index)
        candidate = self._add_disks(self._candidates[0], choice)
        self._run.track(candidate)
        return candidate

    def _add_disks(
        self, candidate: Candidate, choice: filter_run.HostChoice
    ) -> pending_claims.Candidate:
        allocations = {
            provider: allocation
            for provider, allocation in candidate['allocations'].items()
            if allocation['resources'].keys().isdisjoint(_DISK_RESOURCES)
        }
        claimed = self._run.plan.allocations(
            choice.free.disks[0], choice.counts, choice.free.reserved_gb[0]
        )
        for disk, resources in claimed.items():
            allocations[disk] = {'resources': resources}
        return pending_claims.Candidate(candidate, allocations=allocations)


def run_of(hosts: list[typing.Any]) -> filter_run.FilterRun | None:
    """Return the run of the filter that a request's hosts have passed.

    None if the request asks for no vdisks.
    """
    found = hosts[0].allocation_candidates
    return found.run if type(found) is DiskCandidates else None
