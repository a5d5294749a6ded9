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

"""What a request spec asks for, and the disk plan of its server.

Contract with Nova: the state is an attribute of the request spec that is no
field of it. Nova passes the same request spec to all filters and weighers of
a request, and neither stores nor sends what is no field. For a multi-create
Nova filters once for each server and sets ``instance_uuid`` before.
"""

import dataclasses
import functools
import typing

import numpy as np
from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.scheduler import attached_volumes
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan

if typing.TYPE_CHECKING:
    from nova_diskplacer.scheduler import candidates

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]

_PROFILE = flavor.NAMESPACE + flavor.PROFILE

#: Name of the attribute of a request spec.
ATTRIBUTE = 'diskplacer_state'


@dataclasses.dataclass
class RequestState:
    """Results of the filters for one server so far; None is not known yet.

    ``choice`` is a plan, the rows of hosts in the cache, and the choice there.
    """

    server_id: str
    volumes: list[attached_volumes.AttachedVolume] | None = None
    choice: tuple[DiskPlan, base.Ints, Choice] | None = None
    last_run: 'candidates.FilterRun | None' = None


def state_of(spec: typing.Any) -> RequestState:
    """Return the state of the server that a request spec is for now."""
    state: RequestState | None = getattr(spec, ATTRIBUTE, None)
    if state is None or state.server_id != spec.instance_uuid:
        state = RequestState(spec.instance_uuid)
        setattr(spec, ATTRIBUTE, state)
    return state


def from_spec(spec: typing.Any) -> flavor.VDiskRequest | None:
    """Return the vdisks that a request spec asks for, None for none.

    :raises ValueError: the flavor's extra specs are not valid.
    :raises ProfileError: the catalogue of profiles cannot be read.
    """
    if 'extra_specs' not in spec.flavor:
        return None
    extra_specs = spec.flavor.extra_specs
    profiles = _profiles() if _PROFILE in extra_specs else flavor.NO_PROFILES
    return flavor.parse(extra_specs, profiles)


def has_extra_specs(spec: typing.Any) -> bool:
    """Return whether the flavor has ``diskplacer:`` extra specs."""
    return 'extra_specs' in spec.flavor and any(
        name.startswith(flavor.NAMESPACE) for name in spec.flavor.extra_specs
    )


@functools.cache
def _profiles() -> catalogue.Catalogue:
    conf.register_opts(conf.CONF)
    return catalogue.load(conf.CONF.diskplacer.profile_dirs)


def attached_to(spec: typing.Any) -> list[attached_volumes.AttachedVolume]:
    """Return the volumes of the server; all filters read them once."""
    state = state_of(spec)
    if state.volumes is None:
        state.volumes = attached_volumes.read(
            spec.obj_context, spec.instance_uuid
        )
    return state.volumes


def for_request(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    cache: HostDiskCache,
) -> tuple[Hosts, DiskPlan]:
    """Return the hosts where a request's server may be, and its plan."""
    allowed, vdisks = hosts_and_vdisks(hosts, spec, cache)
    own = tuple(v for v in vdisks if v.server_id == spec.instance_uuid)
    others = tuple(v for v in vdisks if v.server_id != spec.instance_uuid)
    return allowed, DiskPlan(request, own, others)


def choose(
    spec: typing.Any, plan: DiskPlan, cache: HostDiskCache, rows: base.Ints
) -> Choice:
    """Choose disks on hosts, regardless of NUMA cells.

    A second filter gets the choice of the first one.

    :param rows: the hosts' rows in the cache, (H,).
    """
    state = state_of(spec)
    if state.choice is not None and state.choice[0] == plan:
        _, known, before = state.choice
        at = np.full(len(cache), -1)
        at[known] = np.arange(len(known))
        at = at[rows]
        if (at >= 0).all():
            return Choice(
                before.fits[at], before.counts[at], before.scores[at]
            )
    choice = plan.choose(cache.free_capacity(rows))
    state.choice = plan, rows, choice
    return choice


def hosts_and_vdisks(
    hosts: Hosts, spec: typing.Any, cache: HostDiskCache
) -> tuple[Hosts, list[BoundVDisk]]:
    """Return the hosts that have all bound vdisks of a server, and these.

    All hosts are returned if no volume of the server is bound.
    """
    volumes = attached_to(spec)
    vdisks = cache.bound_vdisks(volume.volume_id for volume in volumes)
    providers = {vdisk.provider for vdisk in vdisks}
    reported = {vdisk.volume_id for vdisk in vdisks}
    names = {
        volume.host
        for volume in volumes
        if volume.host and volume.volume_id not in reported
    }
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
