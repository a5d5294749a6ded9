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

"""Disk Placement Filter.

Passes the hosts whose local disks hold the vdisks that the flavor's
``diskplacer:`` extra specs, or its profile, ask for, and writes the exact
disks into their allocation candidates, so that Nova claims them in Placement
together with CPU and memory. Keep it last in ``[filter_scheduler]
enabled_filters``: a filter behind it that rewrites the candidates takes its
last look at Placement away, and NUMATopologyFilter, whose limits it completes,
must come before it.

Whatever its flavor asks for, a server that has or brings bound vdisks stays
on their host. A request with neither passes untouched.
"""

import typing

import numpy as np
from nova import conf as nova_conf
from nova.scheduler import filters
from nova.scheduler import utils
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import internals
from nova_diskplacer.mapping import base
from nova_diskplacer.placement import traits
from nova_diskplacer.scheduler import attached_volumes
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import filter_order
from nova_diskplacer.scheduler import fleet as fleets
from nova_diskplacer.scheduler import nova_internals
from nova_diskplacer.scheduler import numa_alignment
from nova_diskplacer.scheduler import numa_claims
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import plan as plans
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import shared_plans as plannings
from nova_diskplacer.scheduler import shuffle

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]

# How many hosts are looked at when no report shows room.
_LOOKS = 5


class DiskPlacementFilter(filters.BaseHostFilter):
    """Choose hosts, and the exact disks of each, for a server's vdisks."""

    def __init__(self) -> None:
        # Nova makes its filters when nova-scheduler starts
        internals.check(nova_internals.SCHEDULER, nova_internals.RELEASE)
        filter_order.check()

    def filter_all(
        self,
        filter_obj_list: typing.Iterable[typing.Any],
        spec_obj: typing.Any,
    ) -> typing.Iterable[typing.Any]:
        """Return the hosts that hold the request's vdisks."""
        if utils.request_is_rebuild(spec_obj):
            return filter_obj_list
        try:
            request = disk_request.by(spec_obj)
        except (ValueError, exception.ProfileError) as error:
            LOG.warning(
                'No host is valid for server %s: flavor %s: %s',
                spec_obj.instance_uuid,
                spec_obj.flavor.name,
                error,
            )
            return []
        if request is None:
            return _stay(filter_obj_list, spec_obj)
        filter_order.check_numa(spec_obj, request)
        return _place(candidates.once(filter_obj_list), spec_obj, request)


def _stay(
    hosts: typing.Iterable[typing.Any], spec: typing.Any
) -> typing.Iterable[typing.Any]:
    """Return the hosts for a server that asks for no vdisks.

    Those that it has or brings are not claimed: their disks' inventories
    reserve what no server claims.
    """
    attached = attached_volumes.brought(spec)
    if not attached:
        return hosts
    vdisks = _bound(attached, report_listener.get_fleet())
    return _where_bound(list(hosts), spec, attached, vdisks)


def _place(
    hosts: Hosts, spec: typing.Any, request: flavor.VDiskRequest
) -> Hosts:
    fleet = report_listener.get_fleet()
    fleet.under_way.settle()
    only_alternates = candidates.is_claimed(spec)
    allowed, found = planned(hosts, spec, request, fleet)
    plan = found.plan
    rows = fleet.rows(host.uuid for host in allowed)
    known = np.flatnonzero(rows >= 0)
    rows, choosable = rows[known], [allowed[at] for at in known.tolist()]
    alignment = None
    if request.numa != flavor.NONE:
        alignment = numa_alignment.Alignment(plan, numa_claims.VCPUs(spec))

    def choose(view: fleets.View) -> plans.Choice:
        if alignment is None:
            return plan.choose(view)
        return alignment.choose(view, choosable)

    if alignment is None:
        choice = found.choose(fleet, rows)
    else:
        choice = choose(fleet.view(rows))
    if not choice.fits.any() and not only_alternates:
        if _look_for_room(fleet, request, choosable, rows):
            choice = choose(fleet.view(rows))
        if not choice.fits.any() and fleet.is_holding:
            choice = choose(fleet.view(rows, holds=False))
    pass_ = candidates.Pass(
        spec.instance_uuid,
        plan,
        fleet,
        rows,
        choice,
        placement_queries.of_host,
        alignment,
        only_alternates=only_alternates,
    )
    candidates.keep(spec, pass_)
    passed = []
    for index in np.flatnonzero(choice.fits).tolist():
        host = choosable[index]
        host.allocation_candidates = candidates.DiskCandidates(
            host, pass_, index
        )
        passed.append(host)
    if not passed and not only_alternates:
        view = fleet.view(rows, holds=False)
        _explain(spec, plan, view, len(allowed) - len(choosable))
        _suspect_truncation(spec, len(hosts))
    if only_alternates or not passed:
        return passed
    # Nova takes the first of those that are equally good
    first = shuffle.first(len(passed), spec.instance_uuid)
    return candidates.repeated(passed[first:] + passed[:first])


def _look_for_room(
    fleet: fleets.Fleet,
    request: flavor.VDiskRequest,
    hosts: Hosts,
    rows: base.Ints,
) -> bool:
    """Look at hosts that have room by now for all that Placement says.

    Servers deleted since the last reports may have left it.

    :param rows: the hosts' rows in the fleet, (H,).
    :returns: whether any was looked at.
    """
    if not hosts or not fleet.looks_for_room.take_turn():
        return False
    roomy = placement_queries.with_room(request)
    indices = [at for at, host in enumerate(hosts) if host.uuid in roomy]
    # there may be other reasons why these are out: others the next time
    for index in np.random.default_rng().permutation(indices)[:_LOOKS]:
        found = placement_queries.of_host(hosts[index].uuid)
        fleet.refresh(found, int(rows[index]))
    return bool(indices)


def planned(
    hosts: Hosts,
    spec: typing.Any,
    request: flavor.VDiskRequest,
    fleet: fleets.Fleet,
) -> tuple[Hosts, plannings.Planned]:
    """Return the hosts where a server's bound vdisks let it be, and its plan.

    The plan is made once for all filters that the request goes through.
    """
    kept = plannings.kept(spec)
    if kept is not None:
        return kept.allowed(hosts), kept
    attached = attached_volumes.brought(spec)
    vdisks = _bound(attached, fleet)
    allowed = _where_bound(hosts, spec, attached, vdisks)
    own = [v for v in vdisks if v.server_id == spec.instance_uuid]
    others = [v for v in vdisks if v.server_id != spec.instance_uuid]
    only = None
    if len(allowed) < len(hosts):
        only = frozenset(host.uuid for host in allowed)
    plan = plans.Plan(request, tuple(own), tuple(others))
    made = plannings.Planned(spec.instance_uuid, plan, only)
    plannings.keep(spec, made)
    return allowed, made


def _explain(
    spec: typing.Any, plan: plans.Plan, view: fleets.View, unknown: int
) -> None:
    request = plan.request
    other_mode = 0
    if request.cache_mode is not None:
        other_mode = int((view.cache_mode != request.cache_mode).sum())
    fit = 0
    if request.numa != flavor.NONE:
        fit = int(plan.choose(view).fits.sum())
    LOG.info(
        'No host is valid for server %s, which asks for %d vdisks of '
        '%d GiB (%s, media %s, NUMA %s, cache mode %s): %d hosts have no room '
        'for them, %d do not have the cache mode, %d cannot have them on the '
        "NUMA cells of the server's vCPUs, %d have no fresh report from "
        'diskplacer-agent.',
        spec.instance_uuid,
        request.vdisks,
        request.vdisk_gb,
        request.mapping,
        request.media,
        request.numa,
        request.cache_mode or 'any',
        len(view.disks) - other_mode - fit,
        other_mode,
        fit,
        unknown,
    )


def _suspect_truncation(spec: typing.Any, hosts: int) -> None:
    """Tell the operator if Placement may not have named hosts with disks.

    :param hosts: how many other filters have left of those that it named.
    """
    limit = nova_conf.CONF.scheduler.max_placement_results
    trait = f'trait:{traits.HOST}'
    if 2 * hosts >= limit and trait not in spec.flavor.extra_specs:
        LOG.warning(
            'Placement names no more than [scheduler] max_placement_results '
            '= %d hosts, and %d of them came to the filter: others may have '
            'the disks for server %s. Set %s=required on flavor %s, so that '
            'it names hosts with disks only.',
            limit,
            hosts,
            spec.instance_uuid,
            trait,
            spec.flavor.name,
        )


def _bound(
    attached: list[attached_volumes.Attached], fleet: fleets.Fleet
) -> list[fleets.BoundVDisk]:
    """Return those of the volumes that an agent reports as vdisks."""
    return fleet.bound(volume.volume_id for volume in attached)


def _where_bound(
    hosts: Hosts,
    spec: typing.Any,
    attached: list[attached_volumes.Attached],
    vdisks: list[fleets.BoundVDisk],
) -> Hosts:
    """Return the hosts on which all bound vdisks of a server lie.

    :param attached: the server's volumes. Of those that no agent reports,
        because it is away, Nova remembers the host from their connection.
    :param vdisks: those that an agent reports.
    :returns: ``hosts`` itself where nothing is bound.
    """
    providers = {vdisk.provider for vdisk in vdisks}
    names = _remembered(attached, vdisks)
    if not providers and not names:
        return hosts
    allowed = [
        host
        for host in hosts
        if providers <= {host.uuid} and names <= {host.host}
    ]
    if len(allowed) < len(hosts):
        LOG.info(
            'Server %s has vdisks on the disks of host %s and cannot be '
            'anywhere else: %d of %d hosts rejected. Volumes: %s',
            spec.instance_uuid,
            ', '.join(sorted({vdisk.host for vdisk in vdisks} | names)),
            len(hosts) - len(allowed),
            len(hosts),
            ', '.join(volume.volume_id for volume in attached),
        )
    return allowed


def _remembered(
    attached: list[attached_volumes.Attached], vdisks: list[fleets.BoundVDisk]
) -> set[str]:
    """Return the hosts of bound vdisks that no agent reports."""
    reported = {vdisk.volume_id for vdisk in vdisks}
    return {
        volume.host
        for volume in attached
        if volume.host and volume.volume_id not in reported
    }
