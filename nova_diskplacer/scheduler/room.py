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

"""Disk Room Filter.

Rejects the hosts whose local disks have no room for a request's vdisks, so
that NUMATopologyFilter, Nova's most expensive filter, does not evaluate them.
Put it before that one in ``[filter_scheduler] enabled_filters``;
DiskPlacementFilter is needed all the same. Requests without a NUMA topology
pass untouched, since NUMATopologyFilter costs nothing for them.
"""

import typing

import numpy as np
from nova.scheduler import filters
from nova.scheduler import utils

from nova_diskplacer import exception
from nova_diskplacer.scheduler import decision_log
from nova_diskplacer.scheduler import report_listener
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler.host_disk_cache import HostDiskCache


class DiskRoomFilter(filters.BaseHostFilter):
    """Reject hosts without room for the vdisks.

    Everything else is left to DiskPlacementFilter. If no host has room all
    pass, so that it can query Placement or log why. If a server may leave the
    host of its vdisks, the others with room pass beside it: another filter may
    reject it.
    """

    def filter_all(
        self,
        filter_obj_list: typing.Iterable[typing.Any],
        spec_obj: typing.Any,
    ) -> typing.Iterable[typing.Any]:
        """Return the hosts with room for the request's vdisks."""
        if utils.request_is_rebuild(spec_obj) or not spec_obj.numa_topology:
            return filter_obj_list
        try:
            request = disk_request.from_spec(spec_obj)
        except (ValueError, exception.ProfileError):
            return filter_obj_list
        if request is None:
            return filter_obj_list
        hosts = list(filter_obj_list)
        cache = report_listener.get_cache()
        options = disk_request.options(hosts, spec_obj, request, cache)
        passed = [
            host
            for option in options
            for host in _with_room(option, spec_obj, cache)
        ]
        if not passed:
            return hosts
        judged = hosts
        for allowed, plan, pinned in options:
            if len(options) > 1:
                judged = allowed
            decision_log.log_rejections(
                spec_obj.instance_uuid,
                plan,
                cache,
                judged,
                allowed,
                passed,
                pinned=pinned,
            )
        return passed


def _with_room(
    option: disk_request.Option, spec: typing.Any, cache: HostDiskCache
) -> list[typing.Any]:
    """Return the hosts of an option that have room by their last reports."""
    rows = cache.rows(host.uuid for host in option.hosts)
    fresh = np.flatnonzero(rows >= 0)
    rows = rows[fresh]
    free = cache.free_capacity(rows)
    fits = disk_request.choose(spec, option.plan, rows, free).fits
    return [option.hosts[index] for index in fresh[fits].tolist()]
