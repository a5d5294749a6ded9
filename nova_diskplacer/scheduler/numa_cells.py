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
"""

import collections.abc
import functools
import itertools
import typing

from nova import objects
from nova.virt import hardware

from nova_diskplacer.scheduler import numa_claims
from nova_diskplacer.scheduler.numa_claims import Cells
from nova_diskplacer.scheduler.numa_claims import NumaClaim

#: Undoes what was recorded for a claim.
Release = collections.abc.Callable[[], None]


def of_host(host: typing.Any) -> Cells:
    """Return the IDs of a host's cells, none if it reports no topology."""
    topology = host.numa_topology
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
        return (
            numa_claims.of_request(host) is not None
            or len(host_cells) == self.cells
        )

    def expected_claim(
        self,
        host: typing.Any,
        host_cells: Cells,
        *,
        for_claim: bool = False,
    ) -> NumaClaim | None:
        """Return the claim that nova-compute will make, None for no claim.

        :param host_cells: all cells of the host.
        :param for_claim: if claims are to be pinned, prefer cells that will
            be left when all pending claims are made.
        """
        earlier = numa_claims.of_request(host)
        if earlier is not None:
            return earlier if self._predict(host) == earlier.cells else None
        if len(host_cells) == self.cells:
            return NumaClaim(host_cells)
        claim = self._claim_beside_pending(host) if for_claim else None
        if claim is None and (cells := self._predict(host)):
            claim = NumaClaim(cells)
        return claim

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

    def record(self, host: typing.Any, claim: NumaClaim) -> None:
        """Set the limits by which nova-compute makes the claim."""
        if claim.limits is None and self._pin:
            limits = self._limits_for(host, claim.cells)
            claim = NumaClaim(claim.cells, limits)
        numa_claims.record(host, claim)

    def record_pending(self, host: typing.Any, claim: NumaClaim) -> Release:
        """Record a claim that Nova is about to make.

        :returns: removes the record if the claim fails.
        """
        self.record(host, claim)
        topology = numa_claims.pending_topology(host)
        limits = host.limits.get(numa_claims.LIMITS)
        fitted = self._fitted(host, topology, limits)
        pending = numa_claims.add_pending(host, fitted)
        return functools.partial(numa_claims.remove_pending, pending)

    def _predict(self, host: typing.Any) -> Cells:
        if host.uuid not in self._predicted:
            limits = host.limits.get(numa_claims.LIMITS)
            self._predicted[host.uuid] = self._fit(host, limits)
        return self._predicted[host.uuid]

    def _claim_beside_pending(self, host: typing.Any) -> NumaClaim | None:
        if not self._pin:
            return None
        topology = numa_claims.pending_topology(host)
        limits = host.limits.get(numa_claims.LIMITS)
        cells = _ids(self._fitted(host, topology, limits))
        return self.pinned_claim(host, cells) if cells else None

    def _fit(self, host: typing.Any, limits: typing.Any) -> Cells:
        """Return the cells that a claim with these limits will get.

        Takes about 0.1 ms for shared and 0.2 ms for dedicated CPUs.
        """
        return _ids(self._fitted(host, host.numa_topology, limits))

    def _fitted(
        self, host: typing.Any, topology: typing.Any, limits: typing.Any
    ) -> typing.Any:
        spec = self._spec
        requests = spec.pci_requests and spec.pci_requests.requests
        provider_mapping = None
        if requests:
            found = host.allocation_candidates
            # an item of DiskCandidates would choose disks
            found = getattr(found, 'without_disks', found)
            provider_mapping = found[0]['mappings']
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
        limits = host.limits.get(numa_claims.LIMITS)
        if limits is None:
            return None
        physnets = {
            cell.id: _physnets(cell) for cell in host.numa_topology.cells
        }
        wanted = set()
        tunneled = False
        if 'network_metadata' in limits:
            wanted |= limits.network_metadata.physnets
            tunneled = limits.network_metadata.tunneled
        for cell in cells:
            elsewhere = (physnets[c] for c in physnets if c != cell)
            own = physnets[cell].difference(*elsewhere)
            if not own:
                return None
            wanted.add(min(own))
        return objects.NUMATopologyLimits(
            cpu_allocation_ratio=limits.cpu_allocation_ratio,
            ram_allocation_ratio=limits.ram_allocation_ratio,
            network_metadata=objects.NetworkMetadata(
                physnets=wanted, tunneled=tunneled
            ),
        )


def _ids(fitted: typing.Any) -> Cells:
    return tuple(sorted(cell.id for cell in fitted.cells)) if fitted else ()


def _physnets(cell: typing.Any) -> set[str]:
    if 'network_metadata' not in cell:
        return set()
    physnets: set[str] = cell.network_metadata.physnets
    return physnets
