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

"""Compares Cinder's database, the disks of a host and Placement.

Nothing here reads or changes anything: what was read comes in, what does not
agree goes out, with what may be done about it without losing a byte.
"""

import collections
import collections.abc
import dataclasses
import re

from cinder_vdisk_mapper import claims as claims_
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory

# What --repair does.
DELETE = 'delete'
RECORD = 'record'
EXTEND = 'extend'
CLAIM = 'claim'
PUBLISH = 'publish'

#: kind of a finding: the vdisk of something that is deleted
ORPHAN = 'orphan'

_OURS = re.compile(
    '(?:volume|snapshot)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
)


@dataclasses.dataclass(frozen=True)
class Record:
    """A volume or snapshot in Cinder's database, living or deleted.

    ``vdisk`` is the name of its vdisk, ``disk`` where the database says that
    this is, None if it is unbound. ``here`` tells whether Cinder has it on
    this host, ``settled`` whether nobody is working on it, ``stuck`` whether
    somebody should have been done long since.
    """

    id: str
    vdisk: str
    disk: str | None
    size_gb: int
    status: str
    here: bool = True
    settled: bool = True
    stuck: bool = False
    deleted: bool = False

    @property
    def kind(self) -> str:
        """What it is: volume or snapshot."""
        return self.vdisk.partition('-')[0]

    @property
    def ids(self) -> frozenset[str]:
        """The ids that may own its vdisk: a migrated volume has two."""
        return frozenset((self.id, self.vdisk.partition('-')[2]))


@dataclasses.dataclass(frozen=True)
class Offer:
    """What Placement has of a disk."""

    inventories: placement_client.Inventories
    claims: dict[str, placement_client.Resources]


@dataclasses.dataclass(frozen=True)
class Nova:
    """What Nova says.

    ``servers`` are those of this host with what their flavors ask for,
    without any that are being built or moved. ``gone`` are the consumers of
    disks that are neither a server nor a migration.
    """

    servers: tuple[tuple[str, flavor.VDiskRequest], ...] = ()
    gone: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class State:
    """Everything that is compared.

    ``records`` holds all volumes and snapshots of this host, and whatever
    else the database has by the ids of the vdisks. ``forgotten`` are the
    disks of records that were taken out of the host for good. ``strays``
    are disks in Placement, below the same compute node, that are not here.
    """

    records: tuple[Record, ...]
    disks: tuple[discover.Disk, ...]
    offers: dict[str, Offer]
    forgotten: frozenset[str] = frozenset()
    strays: tuple[str, ...] = ()
    nova: Nova = Nova()


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that does not agree.

    ``repair`` is what --repair does about it, '' if nothing; ``advice`` what
    an operator may do, where that is so.
    """

    kind: str
    disk: str
    vdisk: str
    owner: str
    message: str
    repair: str = ''
    advice: str = ''


Findings = collections.abc.Iterator[Finding]
Copies = dict[str, tuple[discover.Disk, VDisk]]


def compare(state: State) -> list[Finding]:
    """Return what does not agree, sorted."""
    found = [
        *_vdisks(state),
        *_records(state),
        *(one for disk in state.disks for one in _placement(state, disk)),
        *map(_stray, state.strays),
        *_servers(state),
    ]
    return sorted(
        found, key=lambda one: (one.kind, one.disk, one.vdisk, one.owner)
    )


def is_ours(name: str) -> bool:
    """Tell whether a vdisk is named as those of volumes and snapshots."""
    return bool(_OURS.fullmatch(name))


def _vdisks(state: State) -> Findings:
    """Find the vdisks that no volume or snapshot of this host has."""
    by_id = collections.defaultdict(list)
    for record in state.records:
        for id_ in record.ids:
            by_id[id_].append(record)
    for disk in state.disks:
        for vdisk in disk.vdisks:
            if is_ours(vdisk.name):
                owner = vdisk.name.partition('-')[2]
                yield from _vdisk(disk, vdisk, by_id[owner])


def _vdisk(disk: discover.Disk, vdisk: VDisk, known: list[Record]) -> Findings:
    """Compare a vdisk with the records that may own it."""
    owner = vdisk.name.partition('-')[2]
    named = [one for one in known if one.vdisk == vdisk.name]
    living = [one for one in known if not one.deleted]
    if any(one.here for one in living if one in named):
        return
    kind = vdisk.name.partition('-')[0]
    if living:
        yield Finding(
            'elsewhere',
            disk.uuid,
            vdisk.name,
            living[0].id,
            f'{kind} {living[0].id} lives ({living[0].status}), but Cinder '
            'has it elsewhere than in this vdisk of this host',
            advice='see whether the disk was moved here from another host; '
            'if the volume was migrated away and is whole there, '
            + _removal(disk, vdisk.name),
        )
    elif named:
        writable = disk.health == discover.OK
        yield Finding(
            ORPHAN,
            disk.uuid,
            vdisk.name,
            owner,
            f'{vdisk.size_gb} GiB of a {kind} that Cinder has deleted',
            DELETE if writable else '',
            '' if writable else f'make disk {disk.uuid} writable',
        )
    else:
        yield Finding(
            'unknown',
            disk.uuid,
            vdisk.name,
            owner,
            f'{vdisk.size_gb} GiB of a {kind} that Cinder has never heard '
            'of, or has purged from its database',
            advice='if nobody needs it, ' + _removal(disk, vdisk.name),
        )


def _records(state: State) -> Findings:
    """Compare what Cinder has on this host with the disks."""
    copies: dict[str, Copies] = collections.defaultdict(dict)
    for disk in state.disks:
        for vdisk in disk.vdisks:
            copies[vdisk.name][disk.uuid] = disk, vdisk
    # a migration that is being finished may leave two with one name
    living = collections.Counter(
        one.vdisk for one in state.records if not one.deleted
    )
    for record in state.records:
        if record.here and not record.deleted:
            yield from _record(
                state,
                record,
                dict(copies.get(record.vdisk, {})),
                living[record.vdisk] == 1,
            )


def _record(
    state: State, record: Record, copies: Copies, alone: bool
) -> Findings:
    if record.settled:
        yield from _settled(state, record, copies, alone)
    elif record.stuck:
        yield Finding(
            'stuck',
            record.disk or '',
            record.vdisk,
            record.id,
            f'{record.kind} {record.id} is {record.status} for long; what is '
            'on the disks is not compared until that ends',
            advice='if cinder-volume is not at it any more: openstack volume '
            + ('snapshot ' if record.kind == 'snapshot' else '')
            + f'set --state available {record.id}, and do it again',
        )


def _settled(
    state: State, record: Record, copies: Copies, alone: bool
) -> Findings:
    """Compare what nobody is working on with the disks."""
    for disk, vdisk in copies.values():
        if vdisk.volume_id not in record.ids:
            yield Finding(
                'wrong-owner',
                disk.uuid,
                record.vdisk,
                record.id,
                f'the vdisk says that it belongs to {vdisk.volume_id!r}, not '
                f'to {record.kind} {record.id}',
                advice='see who copied or changed it; its owner is the '
                'attribute user.diskplacer.volume of the file, or the tag '
                'diskplacer.volume of the logical volume',
            )
    if record.disk is None or record.disk not in copies:
        yield from _astray(state, record, copies, alone)
        return
    disk, vdisk = copies.pop(record.disk)
    yield from _size(record, disk, vdisk, only=not copies)
    if not vdisk.whole:
        yield Finding(
            'not-whole',
            disk.uuid,
            record.vdisk,
            record.id,
            f'the vdisk of {record.kind} {record.id} may hold bytes of '
            'others, lacks some of its own or is half deleted: what made, '
            'extended or deleted it was interrupted. It cannot be attached',
            advice='repeat what was interrupted (an extension, to the same '
            f'size), or delete the {record.kind}',
        )
    whole = alone and _whole(record, disk, vdisk)
    for other, second in copies.values():
        repair = whole and other.health == discover.OK
        yield Finding(
            'second-copy',
            other.uuid,
            record.vdisk,
            record.id,
            f'{second.size_gb} GiB left of an interrupted migration: '
            f'{record.kind} {record.id} is on disk {disk.uuid}',
            DELETE if repair else '',
            ''
            if repair
            else f'see first that the one on disk {disk.uuid} is whole, then '
            + _removal(other, record.vdisk),
        )


def _astray(
    state: State, record: Record, copies: Copies, alone: bool
) -> Findings:
    """Say what a record's disk lacks, and what there is elsewhere."""
    health = {disk.uuid: disk.health for disk in state.disks}
    said = record.disk and health.get(record.disk, discover.MISSING)
    if record.disk and said in discover.UNSEEN:
        yield _away(state, record)
    elif record.disk and not copies:
        yield Finding(
            'lost',
            record.disk,
            record.vdisk,
            record.id,
            f'disk {record.disk} has no vdisk of {record.kind} {record.id}, '
            'nor has any other',
            advice=f'restore it from a backup, or delete the {record.kind}',
        )
    for disk, vdisk in copies.values():
        # where the database names a disk that may come back it decides
        repair = (
            alone
            and len(copies) == 1
            and said not in discover.UNSEEN
            and _whole(record, disk, vdisk)
        )
        yield Finding(
            'not-recorded',
            disk.uuid,
            record.vdisk,
            record.id,
            f'the vdisk of {record.kind} {record.id} is here, but the '
            f'database says {record.disk or "that it is unbound"}',
            RECORD if repair else '',
            ''
            if repair
            else 'several disks have one, or it is not whole, or the disk '
            'that the database names may come back: see which is the right '
            f'one before the {record.kind} is used',
        )


def _away(state: State, record: Record) -> Finding:
    disk = record.disk or ''
    forgotten = disk in state.forgotten
    return Finding(
        'disk-forgotten' if forgotten else 'disk-missing',
        disk,
        record.vdisk,
        record.id,
        f'{record.kind} {record.id} is on disk {disk}, which '
        + ('was forgotten' if forgotten else 'cannot be read'),
        advice=f'delete the {record.kind}'
        if forgotten
        else 'bring the disk back, or diskplacer-manage disk forget '
        f'{disk} if it is lost',
    )


def _size(
    record: Record, disk: discover.Disk, vdisk: VDisk, only: bool
) -> Findings:
    size = record.size_gb * GIB
    if vdisk.size_bytes == size:
        return
    smaller = vdisk.size_bytes < size
    # extended, it would pass for whole beside a copy that is
    extend = (
        smaller
        and only
        and vdisk.whole
        and record.kind == 'volume'
        and disk.health == discover.OK
    )
    advice = 'see whether it is whole' if smaller and not extend else ''
    if not smaller:
        advice = (
            f'an extension was interrupted: repeat it to {vdisk.size_gb} GiB'
        )
    yield Finding(
        'wrong-size',
        disk.uuid,
        record.vdisk,
        record.id,
        f'the vdisk has {vdisk.size_bytes} bytes, {record.kind} {record.id} '
        f'{size}',
        EXTEND if extend else '',
        advice,
    )


def _whole(record: Record, disk: discover.Disk, vdisk: VDisk) -> bool:
    return (
        disk.health == discover.OK
        and vdisk.whole
        and vdisk.volume_id in record.ids
        and vdisk.size_bytes >= record.size_gb * GIB
    )


def _placement(state: State, disk: discover.Disk) -> Findings:
    """Compare a disk with its provider."""
    offer = state.offers.get(disk.uuid)
    if offer is None:
        if disk.health not in discover.UNSEEN:
            yield Finding(
                'no-provider',
                disk.uuid,
                '',
                '',
                'Placement has no provider of the disk',
                advice='see that diskplacer-agent runs on this host',
            )
        return
    if disk.health == discover.OK:
        wanted = inventory.figures(disk, offer.claims)
    else:
        wanted = inventory.withdrawn(offer.inventories, offer.claims)
    if not inventory.same(offer.inventories, wanted):
        said = offer.inventories.get(placement_client.GB, {})
        yield Finding(
            'wrong-figures',
            disk.uuid,
            '',
            '',
            f'Placement has {said.get("reserved", 0)} of '
            f'{said.get("total", 0)} GiB reserved, the disk says '
            f'{min(wanted.reserved_gb, wanted.total_gb)} of '
            f'{wanted.total_gb}',
            PUBLISH,
        )
    if disk.health == discover.OK and wanted.room_gb < 0:
        yield Finding(
            'oversold',
            disk.uuid,
            '',
            '',
            f'servers claim {wanted.used_gb} GiB and vdisks without a claim '
            f'take {wanted.reserved_gb}, of {wanted.total_gb} GiB',
            advice='delete or migrate vdisks, or move servers away',
        )
    for consumer in sorted(state.nova.gone & offer.claims.keys()):
        yield Finding(
            'claim-without-server',
            disk.uuid,
            '',
            consumer,
            f'{offer.claims[consumer].get(placement_client.GB, 0)} GiB are '
            'claimed by a consumer that is no server and no migration of Nova',
            advice=f'nova-manage placement audit --resource_provider '
            f'{disk.uuid}',
        )


def _stray(uuid: str) -> Finding:
    return Finding(
        'provider-without-disk',
        uuid,
        '',
        '',
        'Placement has a provider of a disk that this host does not have',
        advice='diskplacer-agent deletes it when servers claim nothing of it',
    )


def _servers(state: State) -> Findings:
    """Compare what the servers of this host have with what they claim."""
    held = _held(state)
    for server, request in state.nova.servers:
        yield from _server(state, server, request, held.get(server, []))


def unclaimed(
    state: State, server: str
) -> collections.abc.Iterator[claims_.Lack]:
    """Return what a server of this host has not claimed, by disk."""
    for uuid, request in state.nova.servers:
        if uuid == server:
            held = _held(state).get(server, [])
            yield from claims_.lacks(request, held, _claims(state, server))[0]


def _held(state: State) -> dict[str, list[tuple[str, VDisk]]]:
    """Return the disks and vdisks of each server."""
    held = collections.defaultdict(list)
    for disk in state.disks:
        for vdisk in disk.vdisks:
            if vdisk.server_id and is_ours(vdisk.name):
                held[vdisk.server_id].append((disk.uuid, vdisk))
    return held


def _claims(
    state: State, server: str
) -> dict[str, placement_client.Resources]:
    """Return what a server has claimed of each disk."""
    return {
        disk: offer.claims[server]
        for disk, offer in state.offers.items()
        if server in offer.claims
    }


def _server(
    state: State,
    server: str,
    request: flavor.VDiskRequest,
    held: list[tuple[str, VDisk]],
) -> Findings:
    """Compare what a server has and asks for with what it claims."""
    found, nowhere = claims_.lacks(request, held, _claims(state, server))
    healthy = {
        disk.uuid: disk
        for disk in state.disks
        if disk.health == discover.OK and disk.uuid in state.offers
    }
    for lack in found:
        refusal = f'make disk {lack.disk} healthy and known to Placement'
        if lack.disk in healthy:
            claims = state.offers[lack.disk].claims
            after = inventory.figures(
                healthy[lack.disk],
                {**claims, server: with_lack(claims.get(server, {}), lack)},
            )
            refusal = _no_room(after)
        yield Finding(
            'unclaimed',
            lack.disk,
            '',
            server,
            f'server {server} has not claimed {lack.gb} GiB and {lack.mbps} '
            'MB/s that its flavor asks for and its vdisks here take',
            '' if refusal else CLAIM,
            refusal,
        )
    # vdisks may lie on a disk that cannot be read
    if nowhere and len(healthy) == len(state.disks):
        yield Finding(
            'without-vdisks',
            '',
            '',
            server,
            f'the flavor of server {server} asks for {request.vdisks} vdisks '
            f'of {request.vdisk_gb} GiB, of which {nowhere} neither exist nor '
            'are claimed',
            advice='if it is to have them, create it again without forcing '
            'its host, or shelve and unshelve it',
        )


def with_lack(
    claim: placement_client.Resources, lack: claims_.Lack
) -> placement_client.Resources:
    """Return a claim and what it lacks."""
    total = {
        placement_client.GB: claim.get(placement_client.GB, 0) + lack.gb,
        placement_client.MBPS: claim.get(placement_client.MBPS, 0) + lack.mbps,
    }
    return {**claim, **{name: units for name, units in total.items() if units}}


def _no_room(after: inventory.Figures) -> str:
    """Say why a disk cannot be claimed as these figures say; '' if it can."""
    if after.room_gb < 0:
        return (
            f'the disk lacks {-after.room_gb} GiB for what is on it and '
            'claimed: delete or migrate vdisks, or move servers away'
        )
    if after.used_mbps > after.total_mbps:
        return (
            f'{after.used_mbps} of {after.total_mbps} MB/s of the disk would '
            'be claimed: move servers away, or state its throughput anew'
        )
    return ''


def _removal(disk: discover.Disk, name: str) -> str:
    return f'diskplacer-manage disk remove-vdisk {disk.uuid} {name}'
