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

"""The disk plan of a request's server, made once for all filters."""

import dataclasses
import typing

import numpy as np
from oslo_log import log as logging

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import attached_volumes
from nova_diskplacer.scheduler import request_state
from nova_diskplacer.scheduler.host_disk_cache import BoundVDisk
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]


@dataclasses.dataclass
class ServerPlan:
    """The disk plan of a server, and the hosts where the server may be.

    :ivar providers: the providers of those hosts, None for all hosts.
    """

    plan: DiskPlan
    providers: frozenset[str] | None
    _rows: base.Ints | None = None
    _choice: Choice | None = None

    def allowed_hosts(self, hosts: Hosts) -> Hosts:
        """Return those of the hosts where the server may be."""
        if self.providers is None:
            return hosts
        return [host for host in hosts if host.uuid in self.providers]

    def choose(self, cache: HostDiskCache, rows: base.Ints) -> Choice:
        """Choose disks on hosts, regardless of NUMA cells.

        A second filter gets the choice of the first one.

        :param rows: the hosts' rows in the cache, (H,).
        """
        if self._rows is not None and self._choice is not None:
            at = np.full(len(cache), -1)
            at[self._rows] = np.arange(len(self._rows))
            at = at[rows]
            if (at >= 0).all():
                before = self._choice
                return Choice(
                    before.fits[at], before.counts[at], before.scores[at]
                )
        self._rows = rows
        self._choice = self.plan.choose(cache.free_capacity(rows))
        return self._choice


def for_request(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    cache: HostDiskCache,
) -> tuple[Hosts, ServerPlan]:
    """Return the hosts where a request's server may be, and its plan."""
    state = request_state.of(spec)
    if state.plan is not None:
        return state.plan.allowed_hosts(hosts), state.plan
    allowed, vdisks = _hosts_and_vdisks(hosts, spec, cache)
    own = [v for v in vdisks if v.server_id == spec.instance_uuid]
    others = [v for v in vdisks if v.server_id != spec.instance_uuid]
    providers = None
    if len(allowed) < len(hosts):
        providers = frozenset(host.uuid for host in allowed)
    plan = DiskPlan(request, tuple(own), tuple(others))
    state.plan = ServerPlan(plan, providers)
    return allowed, state.plan


def hosts_of_bound_vdisks(
    hosts: Hosts, spec: typing.Any, cache: HostDiskCache
) -> Hosts:
    """Return the hosts where a server that asks for no vdisks may be.

    Its bound vdisks are not claimed: the inventories of their disks reserve
    what no server claims.
    """
    return _hosts_and_vdisks(hosts, spec, cache)[0]


def _hosts_and_vdisks(
    hosts: Hosts, spec: typing.Any, cache: HostDiskCache
) -> tuple[Hosts, list[BoundVDisk]]:
    """Return the hosts that have all bound vdisks of a server, and these.

    All hosts are returned if no volume of the server is bound.
    """
    volumes = attached_volumes.for_spec(spec)
    vdisks = cache.bound_vdisks(volume.volume_id for volume in volumes)
    providers = {vdisk.provider for vdisk in vdisks}
    names = _hosts_from_connection_info(volumes, vdisks)
    if not providers and not names:
        return hosts, vdisks
    allowed = [
        host
        for host in hosts
        if providers <= {host.uuid} and names <= {host.host}
    ]
    if len(allowed) < len(hosts):
        LOG.info(
            'Server %s has vdisks on the disks of host %s and can be on no '
            'other host: %d of %d hosts rejected. Volumes: %s',
            spec.instance_uuid,
            ', '.join(sorted({vdisk.host for vdisk in vdisks} | names)),
            len(hosts) - len(allowed),
            len(hosts),
            ', '.join(volume.volume_id for volume in volumes),
        )
    return allowed, vdisks


def _hosts_from_connection_info(
    volumes: list[attached_volumes.AttachedVolume], vdisks: list[BoundVDisk]
) -> set[str]:
    """Return the hosts of bound vdisks whose agents do not report."""
    reported = {vdisk.volume_id for vdisk in vdisks}
    return {
        volume.host
        for volume in volumes
        if volume.host and volume.volume_id not in reported
    }
