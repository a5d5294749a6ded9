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

"""The NUMA cells of a host on which Nova puts a server's vCPUs.

nova-compute chooses them when it claims, by ``nova.virt.hardware``, from the
figures that the scheduler has too. The same function predicts them here.
nova-compute takes the limits of the claim into account, and only one of them
names cells: the physical networks that the server needs. A physical network
that a compute node maps to one cell alone pins the claim to that cell, whether
or not Neutron knows the network.

nova-compute claims some time after the scheduler has chosen the host. Until
Nova shows the claim it is recorded here: on the host state for the other
servers of the same request, and in this process for all requests.

Contract with Nova: the record of a request is an attribute of the host state
that is no part of it. Nova keeps the state of a host for all servers of a
multi-create, and reads ``limits`` at the end of the request: the servers of a
request on one host all have the same limits.
"""

import collections.abc
import dataclasses
import functools
import itertools
import typing

from nova import exception
from nova import objects
from nova.virt import hardware
from oslo_utils import timeutils

from nova_diskplacer.scheduler import pending_claims

Cells = tuple[int, ...]

#: Undoes what was recorded for a claim.
Release = collections.abc.Callable[[], None]


#: Key of the NUMA limits in the limits of a host state.
LIMITS = 'numa_topology'

#: Name of the attribute of a host state.
ATTRIBUTE = 'diskplacer_numa_claim'


@dataclasses.dataclass(frozen=True)
class NumaClaim:
    """NUMA cells of a host for a server, and the limits of the claim.

    ``limits`` is None where Nova takes these cells without any.
    """

    cells: Cells
    limits: typing.Any = None


@dataclasses.dataclass(frozen=True)
class _Recorded:
    """A claim of a request; the rest is the host state before it."""

    claim: NumaClaim
    instances: int
    limits: typing.Any


@dataclasses.dataclass(frozen=True, eq=False)
class _Pending:
    """A pending claim; ``fitted`` is an instance topology on the host.

    ``updated`` is when nova-compute last reported, by the host's clock.
    """

    host: typing.Any
    instances: int
    updated: typing.Any
    fitted: typing.Any

    def shows_on(self, host: typing.Any) -> bool:
        """Return whether a host's state includes the claim.

        Compares times of the host's clock with one another, so its offset
        from the clock of this machine is of no importance.
        """
        if host is self.host:
            # the next server of the same request
            return bool(host.num_instances > self.instances)
        if self.updated is None or host.updated is None:
            return host.updated is not None
        normalize = timeutils.normalize_time
        return bool(normalize(host.updated) > normalize(self.updated))


_PENDING = pending_claims.ExpiringSet[_Pending]()


def of_request(host: typing.Any) -> NumaClaim | None:
    """Return the claim that servers of the same request share on a host."""
    recorded = _made(host)
    return None if recorded is None else recorded.claim


def _made(host: typing.Any) -> _Recorded | None:
    recorded: _Recorded | None = getattr(host, ATTRIBUTE, None)
    if recorded is None or host.num_instances <= recorded.instances:
        return None
    return recorded


def reapply_limits(hosts: list[typing.Any]) -> None:
    """Set the limits again that NUMATopologyFilter has replaced."""
    for host in hosts:
        claim = of_request(host)
        if claim is not None and claim.limits is not None:
            host.limits[LIMITS] = claim.limits


def add_pending(host: typing.Any, fitted: typing.Any) -> _Pending:
    """Count a fitted instance topology as used on a host."""
    # Nova sets ``updated`` to its own time when it has claimed
    updated = next(
        (claim.updated for claim in _pending_on(host) if claim.host is host),
        host.updated,
    )
    pending = _Pending(host, host.num_instances, updated, fitted)
    _PENDING.add(pending)
    return pending


def remove_pending(pending: _Pending) -> None:
    """Remove a pending claim, and its record unless a server has made it."""
    _PENDING.remove(pending)
    host = pending.host
    recorded: _Recorded | None = getattr(host, ATTRIBUTE, None)
    if recorded is None or _made(host) is not None:
        return
    if recorded.claim.limits is not None:
        host.limits[LIMITS] = recorded.limits
    delattr(host, ATTRIBUTE)


def pending_topology(host: typing.Any) -> typing.Any:
    """Return a host's NUMA topology with the pending claims as used."""
    topology = host.numa_topology
    for pending in _pending_on(host):
        if pending.shows_on(host):
            continue
        try:
            topology = hardware.numa_usage_from_instance_numa(
                topology, pending.fitted
            )
        except (exception.CPUPinningInvalid, exception.CPUPinningUnknown):
            # the CPUs are in use: the claim was made; or the host gives them
            # to no server any more: the claim will fail
            continue
    return topology


def _pending_on(host: typing.Any) -> list[_Pending]:
    return [
        claim for claim in _PENDING.items() if claim.host.uuid == host.uuid
    ]


def ids(topology: typing.Any) -> Cells:
    """Return the IDs of a topology's cells, none without a topology."""
    if not topology:
        return ()
    return tuple(sorted(cell.id for cell in topology.cells))


class VCPUPlacement:
    """The placement of a server's vCPUs on cells, for one run of the filter.

    :param pin: pin claims to their cells wherever possible. A claim then
        fails, instead of getting other cells, if another scheduler has used
        the cells meanwhile.
    :ivar cells: how many cells the vCPUs take, 0 if they float over the host.
    """

    def __init__(self, spec: typing.Any, *, pin: bool) -> None:
        self._spec = spec
        self._pin = pin
        self._image = spec.image or objects.ImageMeta.from_dict({})
        topology = self._topology()
        self.cells = len(topology.cells) if topology else 0
        self._predicted: dict[str, Cells] = {}

    def is_decided(self, host: typing.Any, host_cells: Cells) -> bool:
        """Return whether a host with these cells leaves no choice of them.

        The server takes all cells, or those of the same request's servers
        that are on the host already. They are built in any order and with
        the same limits, so which of them has which cells would be unknown if
        those differed.
        """
        return of_request(host) is not None or len(host_cells) == self.cells

    def expected_claim(
        self, host: typing.Any, host_cells: Cells, *, for_claim: bool = False
    ) -> NumaClaim | None:
        """Return the claim that nova-compute will make, None for no claim.

        :param host_cells: all cells of the host.
        :param for_claim: if claims are to be pinned, prefer cells that will
            be left when all pending claims are made.
        """
        earlier = of_request(host)
        if earlier is not None:
            cells = self._fit(host, host.limits.get(LIMITS))
            return earlier if cells == earlier.cells else None
        if len(host_cells) == self.cells:
            return NumaClaim(host_cells)
        claim = self._claim_beside_pending(host) if for_claim else None
        if claim is None and (cells := self._predict(host)):
            claim = NumaClaim(cells)
        return claim

    def lacks_room(self, host: typing.Any) -> bool:
        """Return whether the cells of the request's servers have no room.

        Their claims are pinned to these cells, and so would the server's be.
        """
        earlier = of_request(host)
        if earlier is None or earlier.limits is None:
            return False
        return not self._fit(host, earlier.limits)

    def other_cells(
        self, host: typing.Any, host_cells: Cells
    ) -> collections.abc.Iterable[Cells]:
        """Return the sets of cells to which a claim might be pinned."""
        if self.is_decided(host, host_cells):
            return ()
        return itertools.combinations(host_cells, self.cells)

    def pinned_claim(self, host: typing.Any, cells: Cells) -> NumaClaim | None:
        """Return a claim of these cells, None if it cannot be pinned."""
        limits = self._limits_for(host, cells)
        if limits is None or self._fit(host, limits) != cells:
            return None
        return NumaClaim(cells, limits)

    def record(
        self, host: typing.Any, claim: NumaClaim, *, pending: bool
    ) -> Release | None:
        """Record a claim, and set the limits by which nova-compute makes it.

        :param pending: Nova is about to make the claim.
        :returns: removes the record of a pending claim if it fails.
        """
        limits = before = host.limits.get(LIMITS)
        if claim.limits is None and self._pin:
            claim = NumaClaim(claim.cells, self._limits_for(host, claim.cells))
        if claim.limits is not None:
            limits = host.limits[LIMITS] = claim.limits
        if _made(host) is None:
            recorded = _Recorded(claim, host.num_instances, before)
            setattr(host, ATTRIBUTE, recorded)
        if not pending:
            return None
        fitted = self._fitted(host, pending_topology(host), limits)
        return functools.partial(remove_pending, add_pending(host, fitted))

    def _predict(self, host: typing.Any) -> Cells:
        if host.uuid not in self._predicted:
            limits = host.limits.get(LIMITS)
            self._predicted[host.uuid] = self._fit(host, limits)
        return self._predicted[host.uuid]

    def _claim_beside_pending(self, host: typing.Any) -> NumaClaim | None:
        if not self._pin:
            return None
        limits = host.limits.get(LIMITS)
        cells = ids(self._fitted(host, pending_topology(host), limits))
        return self.pinned_claim(host, cells) if cells else None

    def _fit(self, host: typing.Any, limits: typing.Any) -> Cells:
        """Return the cells that a claim with these limits will get.

        Takes about 0.1 ms for shared and 0.2 ms for dedicated CPUs.
        """
        return ids(self._fitted(host, host.numa_topology, limits))

    def _fitted(
        self, host: typing.Any, topology: typing.Any, limits: typing.Any
    ) -> typing.Any:
        spec = self._spec
        requests = spec.pci_requests and spec.pci_requests.requests
        provider_mapping = None
        if requests:
            host_candidates = host.allocation_candidates
            # an item of DiskCandidates would choose disks
            host_candidates = getattr(
                host_candidates, 'without_disks', host_candidates
            )
            provider_mapping = host_candidates[0]['mappings']
        return hardware.numa_fit_instance_to_host(
            topology,
            self._topology(),
            provider_mapping,
            limits=limits,
            pci_requests=requests,
            pci_stats=host.pci_stats,
        )

    def _topology(self) -> typing.Any:
        # not the topology of the request spec, which may be fitted to the
        # host of an earlier server of a multi-create
        return hardware.numa_get_constraints(self._spec.flavor, self._image)

    @staticmethod
    def _limits_for(
        host: typing.Any, cells: collections.abc.Collection[int]
    ) -> typing.Any:
        """Return limits that pin a claim to cells of a host.

        :returns: None if one of the cells has no physical network of its own,
            or NUMATopologyFilter, which sets the limits, has not run before.
        """
        limits = host.limits.get(LIMITS)
        if limits is None:
            return None
        physnets = {
            cell.id: _physnets(cell) for cell in host.numa_topology.cells
        }
        networks = set()
        tunneled = False
        if 'network_metadata' in limits:
            networks |= limits.network_metadata.physnets
            tunneled = limits.network_metadata.tunneled
        for cell in cells:
            elsewhere = (physnets[c] for c in physnets if c != cell)
            own = physnets[cell].difference(*elsewhere)
            if not own:
                return None
            networks.add(min(own))
        return objects.NUMATopologyLimits(
            cpu_allocation_ratio=limits.cpu_allocation_ratio,
            ram_allocation_ratio=limits.ram_allocation_ratio,
            network_metadata=objects.NetworkMetadata(
                physnets=networks, tunneled=tunneled
            ),
        )


def _physnets(cell: typing.Any) -> set[str]:
    if 'network_metadata' not in cell:
        return set()
    physnets: set[str] = cell.network_metadata.physnets
    return physnets
