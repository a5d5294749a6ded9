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

"""Compares the vdisks of servers with their claims in Placement."""

from cinder_vdisk_mapper import claims as claims_
from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory


def check(host: state.HostState) -> findings.Findings:
    """Compare the vdisks of this host's servers with their claims."""
    held = host.vdisks_by_server()
    for server, request in host.nova.servers:
        yield from _check_server(host, server, request, held.get(server, []))


def _check_server(
    host: state.HostState,
    server: str,
    request: flavor.VDiskRequest,
    held: list[tuple[str, VDisk]],
) -> findings.Findings:
    """Compare a server's vdisks and flavor with its claims."""
    found, nowhere = claims_.lacks(request, held, host.claims_of(server))
    healthy = {
        disk.uuid: disk
        for disk in host.disks
        if disk.health == discover.OK and disk.uuid in host.providers
    }
    for lack in found:
        refusal = f'make disk {lack.disk} healthy and known to Placement'
        if lack.disk in healthy:
            claims = host.providers[lack.disk].claims
            after = inventory.compute_figures(
                healthy[lack.disk],
                {**claims, server: with_lack(claims.get(server, {}), lack)},
            )
            refusal = _refusal(after)
        yield findings.Finding(
            'unclaimed',
            lack.disk,
            '',
            server,
            f'server {server} lacks a claim of {lack.gb} GiB and {lack.mbps} '
            'MB/s for the vdisks of its flavor',
            '' if refusal else findings.CLAIM,
            refusal,
        )
    # a disk that cannot be read may hold the vdisks
    if nowhere and len(healthy) == len(host.disks):
        yield findings.Finding(
            'without-vdisks',
            '',
            '',
            server,
            f'the flavor of server {server} asks for {request.vdisks} vdisks '
            f'of {request.vdisk_gb} GiB; {nowhere} of them neither exist nor '
            'are claimed',
            advice='to get them, create the server again without forcing its '
            'host, or shelve and unshelve it',
        )


def with_lack(
    claim: placement_client.Resources, lack: claims_.Lack
) -> placement_client.Resources:
    """Return a claim extended by its missing part."""
    total = {
        placement_client.GB: claim.get(placement_client.GB, 0) + lack.gb,
        placement_client.MBPS: claim.get(placement_client.MBPS, 0) + lack.mbps,
    }
    return {**claim, **{name: units for name, units in total.items() if units}}


def _refusal(after: inventory.DiskFigures) -> str:
    """Return the reason why claims do not fit on a disk, '' if they do."""
    if after.free_gb < 0:
        return (
            f'the disk lacks {-after.free_gb} GiB for its vdisks and claims: '
            'delete or migrate vdisks, or move servers away'
        )
    if after.used_mbps > after.total_mbps:
        return (
            f'{after.used_mbps} of {after.total_mbps} MB/s of the disk would '
            'be claimed: move servers away, or correct its throughput'
        )
    return ''
