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

"""Attempts to choose disks on all hosts of a request.

If no host holds the vdisks by the last reports, the filter asks Placement for
hosts that have room by now, and at last does without what concurrent requests
have chosen, because their claims may fail.
"""

import collections.abc
import typing

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import packing
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

Hosts = list[typing.Any]

# Number of hosts to query for room that no report shows.
_ROOM_QUERIES = 5

# As many hosts are queried without asking for room in the whole cloud: one or
# two have the bound vdisks of a server, which the answer does not count.
_FEW_HOSTS = 2


class Outcome(typing.NamedTuple):
    """The choice on H hosts, with pack scores if the request packs.

    ``free`` is the free capacity by which it was made.
    ``include_pending`` tells whether pending choices count as used.
    """

    choice: Choice
    free: FreeCapacity
    packing: packing.Packing | None
    include_pending: bool = True

    @property
    def fits(self) -> bool:
        """True if a host holds the vdisks."""
        return bool(self.choice.fits.any())


class Attempts:
    """Attempts on the H hosts with a fresh report.

    ``hosts`` are their states and ``rows`` their rows in the cache, (H,).
    ``alignment`` aligns disks with vCPUs, if the request asks for it.
    """

    def __init__(
        self,
        spec: typing.Any,
        plan: DiskPlan,
        cache: HostDiskCache,
        hosts: Hosts,
    ) -> None:
        self._spec, self._plan, self._cache = spec, plan, cache
        rows = cache.rows([host.uuid for host in hosts])
        fresh = np.flatnonzero(rows >= 0)
        self.rows: base.Ints = rows[fresh]
        self.hosts = hosts
        if len(fresh) < len(hosts):
            self.hosts = [hosts[at] for at in fresh.tolist()]
        self.alignment = None
        if plan.request.numa != flavor.NONE:
            self.alignment = numa_alignment.Alignment(plan, spec)

    def choose(
        self, only_alternates: bool, *, is_last: bool = True
    ) -> Outcome:
        """Return the outcome of the first attempt that finds a host.

        :param only_alternates: Nova has claimed for the server already, so
            the first attempt is the only one.
        :param is_last: whether the server can be on no other hosts. If it
            can, it does not compete with concurrent requests here, and not
            even the first attempt relies on reports: Nova does not come to the
            other hosts when a claim fails.
        """
        is_updated = not (is_last or only_alternates) and self._update_few()
        free = self._cache.free_capacity(self.rows)
        choice = None
        if self.alignment is None and not is_updated:
            # a filter before may have made it
            choice = disk_request.choose(
                self._spec, self._plan, self.rows, free
            )
        outcome = self._choose(free, choice)
        if outcome.fits or only_alternates:
            return outcome
        if not is_updated and (
            self._update_few() or self._update_hosts_with_room()
        ):
            outcome = self._choose(self._cache.free_capacity(self.rows))
        if not outcome.fits and is_last and self._cache.has_pending:
            reported = self._cache.free_capacity(
                self.rows, include_pending=False
            )
            outcome = self._choose(reported)._replace(include_pending=False)
        return outcome

    def _choose(
        self, free: FreeCapacity, choice: Choice | None = None
    ) -> Outcome:
        """Choose by free capacity.

        :param choice: of the plan, if it was made before.
        """
        request = self._plan.request
        pack = packing.of_request(
            free, request, self.hosts, self._spec.instance_uuid
        )
        if self.alignment is not None:
            choice = self.alignment.choose(free, self.hosts, pack)
            return Outcome(choice, free, pack)
        choice = choice or self._plan.choose(free)
        return Outcome(
            choice if pack is None else pack.blend(choice), free, pack
        )

    def _update_few(self) -> bool:
        """Update all hosts if they are few.

        :returns: whether they are.
        """
        if not 0 < len(self.hosts) <= _FEW_HOSTS:
            return False
        self._update(range(len(self.hosts)))
        return True

    def _update_hosts_with_room(self) -> bool:
        """Update some hosts that have room according to Placement.

        Servers that were deleted since the last reports may have left it.

        :returns: whether any was updated.
        """
        if not self.hosts or not self._cache.allow_room_query():
            return False
        roomy = placement_queries.compute_nodes_with_room(self._plan.request)
        indices = [
            at for at, host in enumerate(self.hosts) if host.uuid in roomy
        ]
        shuffled = np.random.default_rng().permutation(indices)
        # there may be other reasons why the first ones do not fit
        self._update(shuffled[:_ROOM_QUERIES].tolist())
        return bool(indices)

    def _update(self, indices: collections.abc.Iterable[int]) -> None:
        """Update hosts from Placement."""
        for index in indices:
            capacities = placement_queries.disks_in_tree(
                self.hosts[index].uuid
            )
            if capacities is not None:
                self._cache.update_from_placement(
                    int(self.rows[index]), capacities
                )
