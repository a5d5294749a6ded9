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


class DiskRoomFilter(filters.BaseHostFilter):
    """Reject hosts without room for the vdisks.

    Everything else is left to DiskPlacementFilter. If no host has room all
    pass, so that it can query Placement or log why.
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
        allowed, plan = disk_request.for_request(
            hosts, spec_obj, request, cache
        )
        rows = cache.rows(host.uuid for host in allowed)
        fresh = np.flatnonzero(rows >= 0)
        rows = rows[fresh]
        free = cache.free_capacity(rows)
        fits = disk_request.choose(spec_obj, plan, rows, free).fits
        passed = [allowed[index] for index in fresh[fits].tolist()]
        if not passed:
            return hosts
        decision_log.log_rejections(
            spec_obj.instance_uuid, plan, cache, hosts, allowed, passed
        )
        return passed
