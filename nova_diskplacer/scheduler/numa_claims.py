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

"""NUMA cells that servers are about to claim.

nova-compute claims the cells, some time after the scheduler has chosen the
host. Until Nova shows the claim it is recorded here: on the host state for
the other servers of the same request, and in this process for all requests.

Contract with Nova: the record of a request is an attribute of the host state
that is no part of it. Nova keeps the state of a host for all servers of a
multi-create, and reads ``limits`` at the end of the request: the servers of a
request on one host all have the same limits.
"""

import dataclasses
import typing

from nova import exception
from nova.virt import hardware
from oslo_utils import timeutils

from nova_diskplacer.scheduler import pending_claims

Cells = tuple[int, ...]

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


def record(host: typing.Any, claim: NumaClaim) -> None:
    """Record the claim of a request, and set the limits that it needs."""
    before = host.limits.get(LIMITS)
    if claim.limits is not None:
        host.limits[LIMITS] = claim.limits
    if _made(host) is None:
        recorded = _Recorded(claim, host.num_instances, before)
        setattr(host, ATTRIBUTE, recorded)


def remove(host: typing.Any) -> None:
    """Remove the recorded claim, unless a server has made it."""
    recorded: _Recorded | None = getattr(host, ATTRIBUTE, None)
    if recorded is None or _made(host) is not None:
        return
    if recorded.claim.limits is not None:
        host.limits[LIMITS] = recorded.limits
    delattr(host, ATTRIBUTE)


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
        (one.updated for one in _pending_on(host) if one.host is host),
        host.updated,
    )
    pending = _Pending(host, host.num_instances, updated, fitted)
    _PENDING.add(pending)
    return pending


def remove_pending(pending: _Pending) -> None:
    """Remove a pending claim that was not made, and its record."""
    _PENDING.remove(pending)
    remove(pending.host)


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
        except exception.CPUPinningInvalid:
            # the CPUs are in use: the claim was made
            continue
    return topology


def _pending_on(host: typing.Any) -> list[_Pending]:
    return [one for one in _PENDING.items() if one.host.uuid == host.uuid]
