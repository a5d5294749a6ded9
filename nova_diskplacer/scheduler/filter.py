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
enabled_filters``: a filter behind it that rewrites the candidates loses the
query to Placement right before a claim, and NUMATopologyFilter, whose limits
this filter completes, must come before it.

A server with bound vdisks stays on their host, whatever its flavor asks for,
unless ``[diskplacer_scheduler] moves`` lets it go elsewhere; see
``vdisk_hosts``. A request without vdisks and without bound ones passes
untouched.
"""

import dataclasses
import itertools
import typing

import numpy as np
from nova import conf as nova_conf
from nova.scheduler import filters
from nova.scheduler import utils
from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import internals
from nova_diskplacer.placement import traits
from nova_diskplacer.scheduler import attempts as attempts_
from nova_diskplacer.scheduler import boot_volumes
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import filter_order
from nova_diskplacer.scheduler import nova_internals
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import retries
from nova_diskplacer.scheduler import scheduler_service
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache
from nova_diskplacer.scheduler.plan import DiskPlan
from nova_diskplacer.scheduler.plan import FreeCapacity

LOG = logging.getLogger(__name__)

Hosts = list[typing.Any]


class DiskPlacementFilter(filters.BaseHostFilter):
    """Choose hosts, and the exact disks of each, for a server's vdisks."""

    def __init__(self) -> None:
        # Nova creates its filters when nova-scheduler starts
        conf.register_opts(conf.CONF)
        internals.check(nova_internals.SCHEDULER, internals.NOVA)
        filter_order.check()
        scheduler_service.call_after_stop(report_listener.reset)

    def filter_all(
        self,
        filter_obj_list: typing.Iterable[typing.Any],
        spec_obj: typing.Any,
    ) -> typing.Iterable[typing.Any]:
        """Return the hosts that hold the request's vdisks."""
        if utils.request_is_rebuild(spec_obj):
            return filter_obj_list
        try:
            request = disk_request.from_spec(spec_obj)
        except (ValueError, exception.ProfileError) as error:
            LOG.warning(
                'No host is valid for server %s: flavor %s: %s',
                spec_obj.instance_uuid,
                spec_obj.flavor.name,
                error,
            )
            return []
        if request is not None:
            if not boot_volumes.allow(spec_obj, request):
                return []
            if request.numa != flavor.NONE and spec_obj.numa_topology:
                filter_order.check_numa()
            hosts = retries.unique(filter_obj_list)
            return _place(hosts, spec_obj, request)
        if not disk_request.attached_to(spec_obj):
            return filter_obj_list
        # its bound vdisks are not claimed: the inventories of their disks
        # reserve what no server claims
        found = disk_request.find_hosts(
            list(filter_obj_list), spec_obj, None, report_listener.get_cache()
        )
        return found.home or found.back


def _place(
    hosts: Hosts, spec: typing.Any, request: flavor.VDiskRequest
) -> Hosts:
    """Return the hosts that hold the vdisks, with their disks chosen."""
    cache = report_listener.get_cache()
    cache.pending_claims.release_failed()
    state = disk_request.state_of(spec)
    # Nova has claimed and runs the filter once more, for alternates of all
    # servers of a multi-create
    only_alternates = state.last_run is not None and state.last_run.is_claimed
    options = disk_request.options(hosts, spec, request, cache)
    option, attempts, outcome = _attempt(options, spec, cache, only_alternates)
    allowed, plan, pinned = option
    choice, free, packing, include_pending = outcome
    reporting = attempts.hosts
    run = state.last_run = candidates.FilterRun(
        spec.instance_uuid,
        plan,
        cache,
        attempts.rows,
        choice,
        free,
        attempts.alignment,
        packing,
        only_alternates,
    )
    fits = np.flatnonzero(choice.fits)
    if len(fits) and not only_alternates:
        fits = retries.order(fits, spec.instance_uuid)
    passed = run.offer(reporting, fits)
    if only_alternates:
        return passed
    decision_log.log_rejections(
        spec.instance_uuid,
        plan,
        cache,
        _not_judged(hosts, options, option),
        allowed,
        passed,
        include_pending=include_pending,
        pinned=pinned,
    )
    if not passed:
        free = cache.free_capacity(attempts.rows, include_pending=False)
        _log_rejection(spec, plan, free, len(allowed) - len(reporting))
        _warn_of_truncation(spec, len(hosts))
    return passed


def _attempt(
    options: list[disk_request.Option],
    spec: typing.Any,
    cache: HostDiskCache,
    only_alternates: bool,
) -> tuple[disk_request.Option, attempts_.Attempts, attempts_.Outcome]:
    """Choose disks by the first option that has a host with room.

    :returns: that option, or the last one if no host has room.
    """
    for option in options:
        is_last = option is options[-1]
        attempts = attempts_.Attempts(spec, option.plan, cache, option.hosts)
        outcome = attempts.choose(only_alternates, is_last=is_last)
        if outcome.fits or is_last:
            break
        decision_log.log_rejections(
            spec.instance_uuid,
            option.plan,
            cache,
            option.hosts,
            option.hosts,
            [],
        )
    return option, attempts, outcome


def _not_judged(
    hosts: Hosts,
    options: list[disk_request.Option],
    last: disk_request.Option,
) -> Hosts:
    """Return the hosts that are in no option before the last one tried."""
    if last is options[0]:
        return hosts
    tried = itertools.takewhile(lambda option: option is not last, options)
    judged = {id(host) for option in tried for host in option.hosts}
    return [host for host in hosts if id(host) not in judged]


def _log_rejection(
    spec: typing.Any, plan: DiskPlan, free: FreeCapacity, unknown: int
) -> None:
    """Log why no host is valid.

    :param free: the free capacity of hosts with a fresh report.
    :param unknown: the number of other hosts.
    """
    request = plan.request
    if plan.beside_gb:
        alone = dataclasses.replace(plan, beside_gb=()).choose(free).fits
        LOG.info(
            'New volumes of %s GiB, which are no vdisks of server %s, need '
            'room on one disk each, and have none on %d hosts with room for '
            'the vdisks.',
            ', '.join(map(str, plan.beside_gb)),
            spec.instance_uuid,
            int((alone & ~plan.choose(free).fits).sum()),
        )
    other_mode = 0
    if request.cache_mode is not None:
        other_mode = int((free.cache_mode != request.cache_mode).sum())
    fit = 0
    if request.numa != flavor.NONE:
        fit = int(plan.choose(free).fits.sum())
    LOG.info(
        'No host is valid for server %s, which asks for %d vdisks of '
        '%d GiB (%s, media %s, NUMA %s, cache mode %s): %d hosts have no room '
        'for them, %d have another cache mode, %d cannot align them with the '
        "NUMA cells of the server's vCPUs, %d have no fresh report from "
        'diskplacer-agent.',
        spec.instance_uuid,
        request.vdisks,
        request.vdisk_gb,
        request.mapping,
        request.media,
        request.numa,
        request.cache_mode or 'any',
        len(free.disks) - other_mode - fit,
        other_mode,
        fit,
        unknown,
    )


def _warn_of_truncation(spec: typing.Any, hosts: int) -> None:
    """Log that Placement's answer may be truncated before hosts with disks.

    :param hosts: the number of hosts that other filters passed.
    """
    limit = nova_conf.CONF.scheduler.max_placement_results
    trait = f'trait:{traits.HOST}'
    if 2 * hosts >= limit and trait not in spec.flavor.extra_specs:
        LOG.warning(
            'Placement returns no more than [scheduler] max_placement_results '
            '= %d hosts, and %d of them came to the filter: other hosts may '
            'have disks for server %s. Set %s=required on flavor %s to get '
            'hosts with disks only.',
            limit,
            hosts,
            spec.instance_uuid,
            trait,
            spec.flavor.name,
        )
