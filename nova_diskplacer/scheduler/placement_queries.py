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

"""What Placement says of disks right now, through Nova's own client."""

import collections
import typing
import urllib.parse

from keystoneauth1 import exceptions as ks_exc
from nova.scheduler.client import report
from oslo_log import log as logging

from nova_diskplacer import flavor
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits
from nova_diskplacer.scheduler import fleet

LOG = logging.getLogger(__name__)

_MICROVERSION = '1.36'


def of_host(provider: str) -> dict[str, fleet.Capacity]:
    """Return the disks below a compute node's provider.

    Empty if none has a GiB to give or Placement does not answer: what is
    known from the agent's report then has to do, and the claim decides.
    """
    return _disks(
        {
            'resources': f'{placement_client.GB}:1',
            'in_tree': provider,
            'limit': '1',
        }
    )


def with_room(request: flavor.VDiskRequest) -> set[str]:
    """Return the compute nodes' providers with disks that have room.

    That is as many disks as the request takes at least. One query over all
    disks, whose answer is as long as there are disks with room.
    """
    resources = {placement_client.GB: request.vdisk_gb}
    if request.vdisk_mbps:
        resources[placement_client.MBPS] = request.vdisk_mbps
    required = [placement_client.DISK_TRAIT]
    if request.media != flavor.ANY:
        required.append(traits.MEDIA[request.media])
    found = _get(
        '/resource_providers',
        {
            'resources': ','.join(
                f'{name}:{amount}' for name, amount in resources.items()
            ),
            'required': ','.join(required),
        },
    )
    disks = collections.Counter(
        provider['root_provider_uuid']
        for provider in found.get('resource_providers', ())
    )
    least = 1
    if request.mapping == flavor.ROUND_ROBIN:
        least = -(-request.vdisks // request.vdisks_per_disk)
    return {root for root, number in disks.items() if number >= least}


def hosts() -> set[str]:
    """Return the compute nodes' providers that have disks below them."""
    found = _get(
        '/resource_providers', {'required': placement_client.DISK_TRAIT}
    )
    return {
        provider['root_provider_uuid']
        for provider in found.get('resource_providers', ())
    }


def _disks(query: dict[str, str]) -> dict[str, fleet.Capacity]:
    found = _get('/allocation_candidates', query)
    disks = {}
    for uuid, summary in found.get('provider_summaries', {}).items():
        resources = summary['resources']
        if placement_client.GB in resources:
            gb = resources[placement_client.GB]
            mbps = resources.get(
                placement_client.MBPS, {'capacity': 0, 'used': 0}
            )
            disks[uuid] = fleet.Capacity(
                gb['capacity'], gb['used'], mbps['capacity'], mbps['used']
            )
    return disks


def _get(path: str, query: dict[str, str]) -> dict[str, typing.Any]:
    """Return what Placement answers, empty if it does not."""
    url = f'{path}?{urllib.parse.urlencode(query)}'
    try:
        response = report.report_client_singleton().get(
            url, version=_MICROVERSION
        )
    except ks_exc.ClientException as error:
        LOG.warning('Placement cannot be asked about disks: %s', error)
        return {}
    if response.status_code != 200:
        LOG.warning('Placement refused to tell about disks: %s', response.text)
        return {}
    try:
        answer: dict[str, typing.Any] = response.json()
    except ValueError as error:
        LOG.warning('Placement did not answer in JSON: %s', error)
        return {}
    return answer
