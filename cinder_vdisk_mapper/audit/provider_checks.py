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

"""Compares disks with their resource providers in Placement."""

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory


def check(host: state.HostState, disk: discover.Disk) -> findings.Findings:
    """Compare a disk with its resource provider."""
    provider = host.providers.get(disk.uuid)
    if provider is None:
        if disk.health not in discover.UNAVAILABLE:
            yield findings.Finding(
                'no-provider',
                disk.uuid,
                '',
                '',
                'Placement has no provider of the disk',
                advice='check that diskplacer-agent runs on this host',
            )
        return
    if disk.health == discover.OK:
        wanted = inventory.compute_figures(disk, provider.claims)
    else:
        wanted = inventory.fully_reserved(
            provider.inventories, provider.claims
        )
    if not inventory.is_current(provider.inventories, wanted):
        published = provider.inventories.get(placement_client.GB, {})
        yield findings.Finding(
            'wrong-figures',
            disk.uuid,
            '',
            '',
            f'Placement has {published.get("reserved", 0)} of '
            f'{published.get("total", 0)} GiB reserved, the disk has '
            f'{min(wanted.reserved_gb, wanted.total_gb)} of '
            f'{wanted.total_gb}',
            findings.PUBLISH,
        )
    if disk.health == discover.OK and wanted.free_gb < 0:
        yield findings.Finding(
            'oversold',
            disk.uuid,
            '',
            '',
            f'servers claim {wanted.used_gb} GiB and vdisks without a claim '
            f'take {wanted.reserved_gb}, of {wanted.total_gb} GiB',
            advice='delete or migrate vdisks, or move servers away',
        )
    for consumer in sorted(host.nova.gone & provider.claims.keys()):
        yield findings.Finding(
            'claim-without-server',
            disk.uuid,
            '',
            consumer,
            f'{provider.claims[consumer].get(placement_client.GB, 0)} GiB are '
            'claimed by a consumer that is neither a server nor a migration',
            advice=f'nova-manage placement audit --resource_provider '
            f'{disk.uuid}',
        )


def check_orphan(uuid: str) -> findings.Finding:
    return findings.Finding(
        'provider-without-disk',
        uuid,
        '',
        '',
        'Placement has a provider of a disk that this host does not have',
        advice='diskplacer-agent deletes it when servers claim nothing of it',
    )
