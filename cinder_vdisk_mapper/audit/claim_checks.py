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

"""Compares disks and the vdisks on them with the claims in Placement.

Nova claims space on disks when it schedules a server. A server that was forced
to a host without the scheduler's filters has no claims, and ``nova-manage
placement heal_allocations --force`` drops the claims of a server. The space of
its vdisks is then reserved, but its MB/s are available to others. The space
alone is no finding: a server that was unshelved or resized onto a disk without
room to count its vdisks twice has it reserved as well.

While Nova moves a server, the migration has its old claim. If Nova cannot give
it back or drop it, because Placement is away, the claim stays. So do those of
a server that was evacuated, until nova-compute starts on its former host.
"""

import collections
import collections.abc
import dataclasses

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Resources


def check(host: state.HostState) -> findings.Findings:
    """Compare disks with their providers, and servers with their claims."""
    for disk in host.disks:
        yield from _check_disk(host, disk)
    for uuid, node in host.foreign.items():
        yield findings.Finding(
            'provider-elsewhere',
            uuid,
            message=f'Placement has the disk below compute node {node}, which '
            'is not this host',
            advice='if that node is this host, set [diskplacer] compute_node '
            'in cinder.conf; if the disk was taken to that host: '
            f'diskplacer-manage disk forget {uuid}; if it came from there, '
            'diskplacer-agent offers it here when servers claim nothing of it',
        )
    for uuid in host.orphan_providers:
        yield findings.Finding(
            'provider-without-disk',
            uuid,
            message='Placement has a provider of a disk that this host does '
            'not have',
            advice='diskplacer-agent deletes it when servers claim nothing of '
            'it',
        )
    for server, request in host.nova.servers:
        yield from _check_server(host, server, request)


def _check_disk(
    host: state.HostState, disk: discover.Disk
) -> findings.Findings:
    """Compare a disk with its resource provider."""
    if disk.uuid in host.foreign:
        return
    provider = host.providers.get(disk.uuid)
    if provider is None:
        if disk.health not in discover.UNAVAILABLE:
            yield findings.Finding(
                'no-provider',
                disk.uuid,
                message='Placement has no provider of the disk',
                advice='check that diskplacer-agent runs on this host',
            )
        return
    if disk.health == discover.OK:
        figures = inventory.compute_figures(disk, provider.claims)
    else:
        figures = inventory.fully_reserved(
            provider.inventories, provider.claims
        )
    if not inventory.is_current(provider.inventories, figures):
        published = provider.inventories.get(GB, {})
        yield findings.Finding(
            'wrong-figures',
            disk.uuid,
            message=f'Placement has {published.get("reserved", 0)} of '
            f'{published.get("total", 0)} GiB reserved, the disk has '
            f'{min(figures.offered.reserved_gb, figures.total_gb)} of '
            f'{figures.total_gb}',
            repair=findings.PUBLISH,
        )
    if disk.health == discover.OK and not disk.draining:
        # what a migration holds is for the vdisks of its server
        real = inventory.compute_figures(
            disk, _by_server(provider.claims, host.nova)
        )
        if real.free_gb < 0:
            yield findings.Finding(
                'oversold',
                disk.uuid,
                message=f'servers claim {real.used_gb} GiB and vdisks '
                f'without a claim take {real.reserved_gb}, of '
                f'{real.total_gb} GiB',
                advice='delete or migrate vdisks, or move servers away',
            )
    for consumer in sorted(provider.claims):
        gb = provider.claims[consumer].get(GB, 0)
        if consumer in host.nova.gone:
            yield findings.Finding(
                'claim-without-server',
                disk.uuid,
                owner=consumer,
                message=f'{gb} GiB are claimed by a consumer that is neither '
                'a server nor a migration of this Nova',
                advice='if no other Nova uses this Placement, and all cells '
                'of this one answer: openstack resource provider allocation '
                f'delete {consumer}',
            )
        if there := host.nova.elsewhere.get(consumer):
            yield findings.Finding(
                'claim-of-server-elsewhere',
                disk.uuid,
                owner=consumer,
                message=f'{gb} GiB are claimed by a server that is on host '
                f'{there}, with no task of Nova',
                advice='start nova-compute of this host, which drops the '
                'claims of servers that were evacuated from it; if the claim '
                'stays, look at: openstack resource provider allocation show '
                f'{consumer}',
            )
        migration = host.nova.migrations.get(consumer)
        if migration and migration.is_over:
            yield findings.Finding(
                'claim-of-migration',
                disk.uuid,
                owner=consumer,
                message=f'{gb} GiB are claimed by a migration of server '
                f'{migration.server} that is over ({migration.status})',
                repair=findings.RELEASE,
            )
        if migration and migration.is_forgotten:
            yield findings.Finding(
                'claim-of-migration',
                disk.uuid,
                owner=consumer,
                message=f'{gb} GiB are claimed by a live migration of server '
                f'{migration.server} that Nova has forgotten: it is '
                f'{migration.status}, and the server has no task',
                advice='if it stays, give it back to the server as in "A live '
                'migration that Nova has forgotten" of the documentation',
            )


def _by_server(
    claims: collections.abc.Mapping[str, Resources], nova: state.Nova
) -> dict[str, Resources]:
    """Return claims with those of migrations counted as their servers'."""
    by_server: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for consumer, claim in claims.items():
        migration = nova.migrations.get(consumer)
        by_server[migration.server if migration else consumer].update(claim)
    return {consumer: dict(claim) for consumer, claim in by_server.items()}


def _check_server(
    host: state.HostState, server: str, request: flavor.VDiskRequest
) -> findings.Findings:
    """Compare a server's vdisks and flavor with its claims."""
    lacking, nowhere = lacks(
        request, host.vdisks_of(server), host.claims_of(server)
    )
    healthy = {
        disk.uuid: disk
        for disk in host.disks
        if disk.health == discover.OK
        and not disk.draining
        and disk.uuid in host.providers
    }
    for lack in lacking:
        if not lack.mbps:
            # the GiB are reserved
            continue
        refusal = f'make disk {lack.disk} healthy and known to Placement'
        if lack.disk in healthy:
            claims = host.providers[lack.disk].claims
            after = inventory.compute_figures(
                healthy[lack.disk],
                {**claims, server: lack.added_to(claims.get(server, {}))},
            )
            refusal = _refusal(after)
        yield findings.Finding(
            'unclaimed',
            lack.disk,
            owner=server,
            message=f'server {server} lacks a claim of {lack.gb} GiB and '
            f'{lack.mbps} MB/s for the vdisks of its flavor',
            repair='' if refusal else findings.CLAIM,
            advice=refusal,
        )
    # a disk that cannot be read may hold the vdisks
    if nowhere and len(healthy) == len(host.disks):
        yield findings.Finding(
            'without-vdisks',
            '',
            owner=server,
            message=f'the flavor of server {server} asks for {request.vdisks} '
            f'vdisks of {request.vdisk_gb} GiB; {nowhere} of them neither '
            'exist nor are claimed',
            advice='to get them, create the server again without forcing its '
            'host, or shelve and unshelve it',
        )


def _refusal(after: inventory.DiskFigures) -> str:
    """Return the reason why claims do not fit on a disk, '' if they do."""
    if after.draining:
        return (
            'the disk is being drained: finish the drain, or end it with '
            'diskplacer-manage disk drain --cancel'
        )
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


@dataclasses.dataclass(frozen=True)
class Lack:
    """The part of a server's claim on a disk that is missing.

    ``vdisks`` is the number of its vdisks there without a claim, ``gb`` and
    ``mbps`` are the GiB and MB/s that its claim lacks for them.
    """

    disk: str
    vdisks: int
    gb: int
    mbps: int

    def added_to(self, claim: Resources) -> Resources:
        """Return a claim extended by its missing part."""
        total = {
            GB: claim.get(GB, 0) + self.gb,
            MBPS: claim.get(MBPS, 0) + self.mbps,
        }
        return {
            **claim,
            **{name: units for name, units in total.items() if units},
        }


def lacks(
    request: flavor.VDiskRequest,
    bound: collections.abc.Iterable[tuple[str, VDisk]],
    claims: collections.abc.Mapping[str, Resources],
) -> tuple[list[Lack], int]:
    """Return the claims that a server lacks for its vdisks.

    Vdisks beyond those of its flavor, which were attached while it ran, need
    no claim, and no MB/s if they have one: a move claims their GiB.

    :param bound: its vdisks, or the pieces of striped ones, with their disks.
    :param claims: its claims by disk.
    :returns: the missing part of each claim, and the number of the flavor's
        vdisks that neither exist nor are claimed.
    """
    if request.widest_disks:
        leg_gb = request.leg_gb
        bound = [leg for piece in bound for leg in _legs(*piece, leg_gb)]
        request = dataclasses.replace(
            request, stripe_disks=request.widest_disks
        )
    left = {disk: claim.get(GB, 0) for disk, claim in claims.items()}
    number: collections.Counter[str] = collections.Counter()
    unclaimed = []
    for disk, vdisk in sorted(
        bound,
        key=lambda leg: (leg[1].size_gb != request.piece_gb, leg[1].name),
    ):
        if left.get(disk, 0) >= vdisk.size_gb:
            left[disk] -= vdisk.size_gb
            number[disk] += 1
        else:
            unclaimed.append((disk, vdisk))
    to_come = sum(gb // request.piece_gb for gb in left.values())
    missing = max(0, request.pieces - number.total() - to_come)
    gb: collections.Counter[str] = collections.Counter()
    without: collections.Counter[str] = collections.Counter()
    for disk, vdisk in unclaimed[:missing]:
        without[disk] += 1
        gb[disk] += vdisk.size_gb
    lacking = []
    beyond = max(0, number.total() + to_come - request.pieces)
    for disk in sorted(number | without):
        pieces = (number + without)[disk]
        claimed = claims.get(disk, {}).get(MBPS, 0)
        while beyond and claimed < _mbps(request, pieces):
            pieces -= 1
            beyond -= 1
        lack = Lack(
            disk,
            without[disk],
            max(0, gb[disk] - left.get(disk, 0)),
            max(0, _mbps(request, pieces) - claimed),
        )
        if lack.gb or lack.mbps:
            lacking.append(lack)
    nowhere = missing - without.total()
    return lacking, -(-nowhere // request.stripe_disks)


def _mbps(request: flavor.VDiskRequest, pieces: int) -> int:
    """Return the MB/s of pieces on one disk."""
    if request.widest_disks:
        # what moves with a leg is rounded down
        return pieces * request.vdisk_mbps // request.widest_disks
    return pieces * request.piece_mbps


def _legs(disk: str, vdisk: VDisk, leg_gb: int) -> list[tuple[str, VDisk]]:
    """Return the legs of the piece of an elastic vdisk on a disk.

    :param leg_gb: GiB of a leg by the flavor, for those that move.
    """
    number = vdisk.stripe.count(disk)
    if vdisk.moving:
        number = vdisk.size_gb // leg_gb
    number = max(1, number)
    leg = dataclasses.replace(vdisk, size_bytes=vdisk.size_bytes // number)
    return [(disk, leg)] * number


def extended_claim(host: state.HostState, server: str, disk: str) -> Resources:
    """Return a server's claim on a disk, extended by the part it lacks."""
    claims = host.claims_of(server)
    lacking, _ = lacks(
        dict(host.nova.servers)[server], host.vdisks_of(server), claims
    )
    (lack,) = (lack for lack in lacking if lack.disk == disk)
    return lack.added_to(claims.get(disk, {}))
