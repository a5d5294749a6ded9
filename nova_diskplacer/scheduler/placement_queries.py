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

"""The scheduler's queries to Placement, through Nova's own client.

A failed query is logged and raises no error; the filters then rely on the
agents' reports.
"""

import collections
import collections.abc
import typing

from nova.scheduler.client import report
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.mapping import plugins
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

T = typing.TypeVar('T')


class _Adapter:
    """Nova's report client with the interface of a keystoneauth adapter."""

    def get(
        self, url: str, microversion: str, **_arguments: object
    ) -> typing.Any:
        client = report.report_client_singleton()
        return client.get(url, version=microversion)


_PLACEMENT = placement_client.PlacementClient(_Adapter())


def disks_in_tree(
    provider: str,
) -> dict[str, placement_client.DiskCapacity] | None:
    """Return the capacities of the disks below a compute node's provider.

    It is empty if no disk has a free GiB, None if the query fails.
    """
    return _query(lambda: _PLACEMENT.disk_capacities(provider))


def claims_on(disk: str) -> dict[str, int] | None:
    """Return the GiB of a disk that each consumer claims.

    None if the query fails.
    """
    claims = _query(lambda: _PLACEMENT.provider_allocations(disk))
    if claims is None:
        return None
    return {
        consumer: claim.get(placement_client.GB, 0)
        for consumer, claim in claims.items()
    }


def claims_of(
    consumer: str,
) -> dict[str, placement_client.Resources] | None:
    """Return a consumer's allocations by provider, None if the query fails."""
    allocations = _query(lambda: _PLACEMENT.allocations(consumer))
    return None if allocations is None else allocations.resources


def compute_nodes_with_room(request: flavor.VDiskRequest) -> set[str]:
    """Return the providers of compute nodes that may hold the vdisks.

    They have at least as many disks with room as the request takes. One query
    over all disks, whose answer is as long as there are disks with room.
    """
    resources = {placement_client.GB: request.piece_gb}
    if request.vdisk_mbps:
        resources[placement_client.MBPS] = request.piece_mbps
    any_medium = request.media == flavor.ANY
    required = [] if any_medium else [traits.MEDIA[request.media]]
    if request.legs > 1:
        required.append(traits.LVM)
    answer = _query(lambda: _PLACEMENT.disks_with_room(resources, *required))
    disks = collections.Counter(disk.root for disk in answer or ())
    least = 1
    if plugins.load(request.placed_by).spreads:
        per_disk = min(request.vdisks_per_disk, request.vdisks)
        least = -(-request.pieces // per_disk)
    return {root for root, number in disks.items() if number >= least}


def compute_nodes_with_disks() -> set[str]:
    """Return the providers of all compute nodes that have disks."""
    return {disk.root for disk in _query(_PLACEMENT.disks) or ()}


def _query(query: collections.abc.Callable[[], T]) -> T | None:
    """Return the answer to a query, None if it fails."""
    try:
        return query()
    except exception.PlacementError as error:
        LOG.warning('Query for disks failed: %s', error)
        return None
