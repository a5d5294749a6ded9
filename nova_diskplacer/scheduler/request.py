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
import typing

import numpy as np

from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.placement import ledger
from nova_diskplacer.profiles import configured
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import server_moves
from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler import vdisk_hosts
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import BootVolume
from nova_diskplacer.scheduler.server_volumes import ServerVolumes

Hosts = list[typing.Any]

#: Name of the attribute of a request spec.
ATTRIBUTE = 'diskplacer_state'


class Option(typing.NamedTuple):
    """Hosts where a server may be, and its plan there.

    ``pinned`` is why it can be on no other host, in words that follow "as", ''
    if that is not known.
    """

    hosts: Hosts
    plan: DiskPlan
    pinned: str = ''


@dataclasses.dataclass
class RequestState:
    """Results of the filters for one server so far; None is not known yet.

    ``choice`` is a plan, the rows of hosts in the cache, their disks, and the
    choice there.
    """

    server_id: str
    volumes: ServerVolumes | None = None
    choice: (
        tuple[DiskPlan, base.Ints, list[tuple[str, ...]], Choice] | None
    ) = None
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
        state.volumes = server_volumes.read(
            spec.obj_context,
            spec.instance_uuid,
            server_moves.may_leave(spec.flavor),
        )
    return state.volumes


def options(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    cache: HostDiskCache,
) -> list[Option]:
    """Return where a request's server may be, the best option first.

    A server whose vdisks can follow it stays on their host if it can. One
    whose vdisks have not settled goes back to them at last.

    :returns: at least one option, with no host if the server can be nowhere.
    """
    found = find_hosts(hosts, spec, request, cache)
    parts = [part for part in (found.home, found.back) if part]
    if not parts and not found.elsewhere:
        parts = [[]]
    possible = [
        Option(
            part,
            _plan_at_home(part, spec, request, cache, found.vdisks),
            found.pinned,
        )
        for part in parts
    ]
    if found.elsewhere:
        possible.append(Option(found.elsewhere, DiskPlan(request)))
    return possible


def _plan_at_home(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    cache: HostDiskCache,
    vdisks: collections.abc.Sequence[BoundVDisk],
) -> DiskPlan:
    """Return the plan of a server on the hosts that have its bound vdisks.

    It is planned with all vdisks on that host that were bound for it, detached
    ones too: they fill its claims. So do those on a disk that is missing,
    which nobody reports.

    :param vdisks: the bound ones, also those of other hosts.
    """
    if vdisks:
        uuids = {host.uuid for host in hosts}
        vdisks = [vdisk for vdisk in vdisks if vdisk.provider in uuids]
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
    brought = [v for v in vdisks if v.volume_id not in bound | roots]
    kept = _kept(spec, request, brought)
    others = tuple(
        v
        for v in brought
        if v not in kept
        # pieces may be of any size
        and request.is_vdisk(
            v.size_gb if request.legs == 1 else request.vdisk_gb, None, False
        )
    )
    providers = {v.provider for v in vdisks}
    if len(providers) == 1:
        (provider,) = providers
        own += [
            vdisk
            for vdisk in cache.vdisks_of(provider, server)
            if vdisk.volume_id not in reported
        ]
    reserved = _reserved_for_others(cache, server, own)
    beside = _beside(request, volumes_of(spec).at_boot or ())
    return DiskPlan(
        request, tuple(own), others, reserved, beside, unreported, kept
    )


def _kept(
    spec: typing.Any,
    request: flavor.VDiskRequest,
    vdisks: collections.abc.Sequence[BoundVDisk],
) -> tuple[BoundVDisk, ...]:
    """Return the vdisks that a server brings as its own.

    They were bound for another server, or for none: a clone, for example. So
    is a volume beside the vdisks of a flavor, and only Cinder knows its type.
    New volumes of the boot and vdisks of another server count before it, and
    a blank one that Nova has made for the server is one beside them.

    :param vdisks: those that are not the server's.
    """
    volumes = {volume.volume_id: volume for volume in attached_to(spec)}
    owned = {v.volume_id for v in vdisks if v.server_id}
    reported = collections.Counter[tuple[str, str]]()
    for vdisk in vdisks:
        reported[vdisk.volume_id, vdisk.provider] += vdisk.size_gb
    alike = {
        v.volume_id
        for v in vdisks
        if (v.volume_id in owned or not volumes[v.volume_id].is_blank)
        and request.is_vdisk(
            volumes[v.volume_id].size_gb or reported[v.volume_id, v.provider],
            None,
            False,
        )
    }
    new = sum(
        volume.is_new
        and request.is_vdisk(
            volume.size_gb, volume.volume_type, volume.bootable
        )
        for volume in volumes_of(spec).at_boot or ()
    )
    ordered = sorted(alike, key=lambda uuid: (uuid not in owned, uuid))
    chosen = ordered[: max(0, request.vdisks - new)]
    return tuple(v for v in vdisks if v.volume_id in chosen)


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
            reserved[disk] = ledger.reserved_of(taken, claims)
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
        _, chosen_rows, disks, before = state.choice
        at = np.full(
            max(chosen_rows.max(initial=0), rows.max(initial=0)) + 1, -1
        )
        at[chosen_rows] = np.arange(len(chosen_rows))
        at = at[rows]
        # a host may have reported another disk since
        if (
            (at >= 0).all()
            and before.counts.shape[1] == free.free_gb.shape[1]
            and [disks[index] for index in at.tolist()] == free.disks
        ):
            return Choice(
                before.fits[at], before.counts[at], before.scores[at]
            )
    choice = plan.choose(free)
    state.choice = plan, rows, free.disks, choice
    return choice


def find_hosts(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest | None,
    cache: HostDiskCache,
) -> vdisk_hosts.Found:
    """Return where a server may be.

    :param request: None for a server whose flavor asks for no vdisks.
    """
    return vdisk_hosts.find(
        spec.instance_uuid, volumes_of(spec), request, hosts, cache
    )
