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

"""The disk request of a request spec, and the disk plan of its server.

Contract with Nova: the state is an attribute of the request spec that is no
field of it. Nova passes the same request spec to all filters and weighers of
a request, and neither stores nor sends what is no field. For a multi-create
Nova filters once for each server and sets ``instance_uuid`` before.
"""

import collections.abc
import dataclasses
import json
import typing

import numpy as np
import sqlalchemy
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.db.api import api as api_db
from nova.db.api import models
from oslo_log import log as logging

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.placement import claimed_space
from nova_diskplacer.profiles import configured
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]

#: Name of the attribute of a request spec.
ATTRIBUTE = 'diskplacer_state'


class AttachedVolume(typing.NamedTuple):
    """A volume of a server's block device mapping.

    ``host`` is the host of a bound vdisk according to the connection
    information of the Cinder driver, None for any other volume and for one
    that was never connected. ``is_root``: the server boots from it.
    ``is_blank``: Nova has made it for the server's boot. ``size_gb`` is None
    if Nova does not know it.
    """

    volume_id: str
    host: str | None
    is_root: bool = False
    is_blank: bool = False
    size_gb: int | None = None


class BootVolume(typing.NamedTuple):
    """A volume of a server that is built.

    ``size_gb`` is in GiB; ``volume_type`` is None if the mapping names none.
    ``bootable``: the server boots from it, or it is made of an image.
    ``is_new``: it is created with the server.
    """

    size_gb: int | None
    volume_type: str | None
    bootable: bool = False
    is_new: bool = False


class ServerVolumes(typing.NamedTuple):
    """The volumes of a server: those that exist, and all that it boots with.

    ``at_boot`` is None for a server that moves.
    """

    attached: collections.abc.Sequence[AttachedVolume] = ()
    at_boot: collections.abc.Sequence[BootVolume] | None = None


@dataclasses.dataclass
class RequestState:
    """Results of the filters for one server so far; None is not known yet.

    ``choice`` is a plan, the rows of hosts in the cache, and the choice there.
    """

    server_id: str
    volumes: ServerVolumes | None = None
    choice: tuple[DiskPlan, base.Ints, Choice] | None = None
    last_run: candidates.FilterRun | None = None


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
    return configured.parse(spec.flavor.extra_specs)


def has_extra_specs(spec: typing.Any) -> bool:
    """Return whether the flavor has ``diskplacer:`` extra specs."""
    return 'extra_specs' in spec.flavor and any(
        name.startswith(flavor.NAMESPACE) for name in spec.flavor.extra_specs
    )


def attached_to(
    spec: typing.Any,
) -> collections.abc.Sequence[AttachedVolume]:
    """Return the volumes of the server that exist."""
    return volumes_of(spec).attached


def volumes_of(spec: typing.Any) -> ServerVolumes:
    """Return the volumes of the server; all filters read them once."""
    state = state_of(spec)
    if state.volumes is None:
        state.volumes = read_volumes(spec.obj_context, spec.instance_uuid)
    return state.volumes


def read_volumes(context: typing.Any, server_id: str) -> ServerVolumes:
    """Read the volumes of a server that is built or moved.

    A new server takes one database read, less than 1 ms, a move three. Nova's
    databases do not ask who the context's user is.
    """
    primitive = _build_request_bdms(context, server_id)
    if primitive is None:
        return ServerVolumes(_attached(_instance_bdms(context, server_id)))
    bdms = [
        bdm['nova_object.data']
        for bdm in primitive['nova_object.data']['objects']
    ]
    at_boot = [
        BootVolume(
            bdm.get('volume_size'),
            bdm.get('volume_type'),
            bdm.get('boot_index') == 0 or bdm.get('source_type') == 'image',
            bdm.get('source_type') != 'volume',
        )
        for bdm in bdms
        if bdm.get('destination_type') == 'volume'
    ]
    if not any(bdm.get('volume_id') for bdm in bdms):
        # blank volumes only: skip making objects, the slowest part
        return ServerVolumes((), at_boot)
    mappings = objects.BlockDeviceMappingList.obj_from_primitive(primitive)
    return ServerVolumes(_attached(mappings), at_boot)


def _attached(
    bdms: collections.abc.Iterable[typing.Any],
) -> list[AttachedVolume]:
    return [
        AttachedVolume(
            bdm.volume_id,
            _host(bdm.connection_info),
            bdm.boot_index == 0,
            bdm.source_type == 'blank',
            bdm.volume_size,
        )
        for bdm in bdms
        if bdm.is_volume and bdm.volume_id
    ]


# Most requests are for new servers. This column is a small part of their
# build request.
_BUILD_REQUEST_BDMS = sqlalchemy.select(
    models.BuildRequest.block_device_mappings
).where(models.BuildRequest.instance_uuid == sqlalchemy.bindparam('server'))


def _build_request_bdms(context: typing.Any, server_id: str) -> typing.Any:
    with api_db.context_manager.reader.connection.using(context) as database:
        text = database.execute(
            _BUILD_REQUEST_BDMS, {'server': server_id}
        ).scalar()
    return None if text is None else json.loads(text)


def _instance_bdms(context: typing.Any, server_id: str) -> typing.Any:
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            context, server_id
        )
    except exception.InstanceMappingNotFound:
        return []
    if mapping.cell_mapping is None:
        return []
    with nova_context.target_cell(context, mapping.cell_mapping) as cell:
        return objects.BlockDeviceMappingList.get_by_instance_uuid(
            cell, server_id
        )


def _host(connection_info: str | None) -> str | None:
    if not connection_info:
        return None
    data = json.loads(connection_info).get('data') or {}
    vdisk = data.get('vdisk')
    return vdisk.get('host') if isinstance(vdisk, dict) else None


def for_request(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    cache: HostDiskCache,
) -> tuple[Hosts, DiskPlan]:
    """Return the hosts where a request's server may be, and its plan.

    A server that brings vdisks is planned with all vdisks on that host that
    were bound for it, detached ones too: they fill its claims. So do those on
    a disk that is missing, which nobody reports.
    """
    allowed, vdisks = hosts_and_vdisks(hosts, spec, cache)
    reported = {vdisk.volume_id for vdisk in vdisks}
    unreported = sum(
        volume.volume_id not in reported and _may_be_vdisk(volume, request)
        for volume in attached_to(spec)
    )
    server = spec.instance_uuid
    # Cinder may have left the copy of a volume without its server
    bound = {v.volume_id for v in vdisks if v.server_id == server}
    own = [v for v in vdisks if v.volume_id in bound]
    roots = {
        volume.volume_id for volume in attached_to(spec) if volume.is_root
    }
    others = tuple(
        v
        for v in vdisks
        if v.volume_id not in bound
        # pieces may be of any size
        and request.is_vdisk(
            v.size_gb if request.legs == 1 else request.vdisk_gb,
            None,
            v.volume_id in roots,
        )
    )
    providers = {v.provider for v in vdisks}
    if len(providers) == 1:
        (provider,) = providers
        brought = {v.volume_id for v in vdisks}
        own += [
            vdisk
            for vdisk in cache.vdisks_of(provider, server)
            if vdisk.volume_id not in brought
        ]
    reserved = _reserved_for_others(cache, server, own)
    beside = _beside(request, volumes_of(spec).at_boot or ())
    plan = DiskPlan(request, tuple(own), others, reserved, beside, unreported)
    return allowed, plan


def _may_be_vdisk(
    volume: AttachedVolume, request: flavor.VDiskRequest
) -> bool:
    """Return whether an attached volume is a vdisk of its server's flavor.

    Only the disk of a bound volume tells. A blank volume of the boot is one
    whatever its size: the flavor or the volume may have been resized.
    """
    if volume.host is None or volume.is_root:
        return False
    return volume.is_blank or request.is_vdisk(
        request.vdisk_gb if volume.size_gb is None else volume.size_gb,
        None,
        volume.is_root,
    )


def _beside(
    request: flavor.VDiskRequest,
    volumes: collections.abc.Iterable[BootVolume],
) -> tuple[int, ...]:
    """Return the GiB of each new volume on the disks that is no vdisk.

    Those that name the flavor's volume type, or none as it does: only Cinder
    knows whether another type has the same backend.
    """
    return tuple(
        volume.size_gb
        for volume in volumes
        if volume.is_new
        and volume.size_gb
        and volume.volume_type == request.volume_type
        and not request.is_vdisk(
            volume.size_gb, volume.volume_type, volume.bootable
        )
    )


def _reserved_for_others(
    cache: HostDiskCache,
    server: str,
    own: collections.abc.Iterable[BoundVDisk],
) -> dict[str, int]:
    """Return the GiB to be reserved for others on disks with own vdisks.

    A disk is missing if Placement does not tell who claims it. One query for
    each disk, and only for a server that comes back to its vdisks.
    """
    reserved = {}
    for provider, disk in {(vdisk.provider, vdisk.disk) for vdisk in own}:
        claims = placement_queries.claims_on(disk)
        if claims is not None:
            taken = cache.taken_gb(provider, disk)
            taken.pop(server, None)
            reserved[disk] = claimed_space.reserved_of(taken, claims)
    return reserved


def choose(
    spec: typing.Any, plan: DiskPlan, rows: base.Ints, free: FreeCapacity
) -> Choice:
    """Choose disks on hosts, regardless of NUMA cells.

    A second filter gets the choice of the first one.

    :param rows: the hosts' rows in the cache, (H,).
    :param free: the free capacity of the hosts.
    """
    state = state_of(spec)
    if state.choice is not None and state.choice[0] == plan:
        _, chosen_rows, before = state.choice
        at = np.full(
            max(chosen_rows.max(initial=0), rows.max(initial=0)) + 1, -1
        )
        at[chosen_rows] = np.arange(len(chosen_rows))
        at = at[rows]
        if (at >= 0).all():
            return Choice(
                before.fits[at], before.counts[at], before.scores[at]
            )
    choice = plan.choose(free)
    state.choice = plan, rows, choice
    return choice


def hosts_and_vdisks(
    hosts: Hosts, spec: typing.Any, cache: HostDiskCache
) -> tuple[Hosts, list[BoundVDisk]]:
    """Return the hosts that have all bound vdisks of a server, and these.

    All hosts are returned if no volume of the server is bound.
    """
    volumes = attached_to(spec)
    names, vdisks = _locate(volumes, hosts, cache)
    reporting: dict[str, set[str]] = {}
    for vdisk in vdisks:
        reporting.setdefault(vdisk.volume_id, set()).add(vdisk.provider)
    if not reporting and not names:
        return hosts, []
    # a host that has them all reports each of them
    providers = set.intersection(*reporting.values()) if reporting else None
    allowed = [
        host
        for host in hosts
        if names <= {host.host}
        and (providers is None or host.uuid in providers)
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
    uuids = {host.uuid for host in allowed}
    return allowed, [vdisk for vdisk in vdisks if vdisk.provider in uuids]


def _locate(
    volumes: collections.abc.Sequence[AttachedVolume],
    hosts: Hosts,
    cache: HostDiskCache,
) -> tuple[set[str], list[BoundVDisk]]:
    """Return where volumes are: the names of hosts, and reported vdisks.

    Two hosts report a volume that Cinder has moved until it has deleted the
    vdisk on the former one. The volume's connection tells which is right.
    Without a connection it may be either. A connection to a host that does not
    report the volume counts more than the report of another one, unless no
    host has that name: Cinder may have a name of its own for the host.
    """
    reported: dict[str, list[BoundVDisk]] = {}
    for vdisk in cache.bound_vdisks(volume.volume_id for volume in volumes):
        reported.setdefault(vdisk.volume_id, []).append(vdisk)
    names, vdisks = set(), []
    for volume_id, name, *_ in volumes:
        copies = reported.get(volume_id, [])
        connected = [vdisk for vdisk in copies if vdisk.host == name]
        if connected:
            vdisks += connected
        elif name and (
            not copies
            or cache.knows(name)
            or any(host.host == name for host in hosts)
        ):
            names.add(name)
        else:
            vdisks += copies
    return names, vdisks
