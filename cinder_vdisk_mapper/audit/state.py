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

"""The state of a host that an audit compares."""

import collections.abc
import dataclasses

from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client

# Statuses of servers that no migration moves, if they have no task.
_UNMOVED = frozenset(
    (
        'ACTIVE',
        'ERROR',
        'PAUSED',
        'RESCUE',
        'SHELVED',
        'SHELVED_OFFLOADED',
        'SHUTOFF',
        'SOFT_DELETED',
        'SUSPENDED',
    )
)

# Statuses of migrations that Nova has ended, one way or the other.
_OVER = frozenset(
    ('cancelled', 'completed', 'confirmed', 'error', 'failed', 'reverted')
)

# Statuses of live migrations that go on, during which their servers have a
# task. A nova-compute that is killed forgets such a migration.
_LIVE = frozenset(('accepted', 'queued', 'preparing', 'running'))

# Status of an evacuation that has ended, until nova-compute starts again on
# the host that was lost, and drops the claims there.
_EVACUATED = 'done'


@dataclasses.dataclass(frozen=True)
class ProviderState:
    """The inventories and allocations of a disk in Placement."""

    inventories: placement_client.Inventories
    claims: dict[str, placement_client.Resources]


@dataclasses.dataclass(frozen=True)
class Migration:
    """A migration, which claims the old host of its server while it lasts.

    ``is_over`` is true if it has ended, and Nova is doing nothing else to the
    server: a claim that it still has was left behind. ``is_forgotten`` is true
    if it has not, but Nova is doing nothing to the server.
    """

    server: str
    status: str
    is_over: bool
    is_forgotten: bool = False


def migrations(
    servers: collections.abc.Mapping[str, tuple[str, str | None]],
    moves: collections.abc.Mapping[str, tuple[str, str]],
) -> dict[str, Migration]:
    """Return migrations, given what Nova says.

    :param servers: status and task of each server of the cloud.
    :param moves: server and status of each migration of some hosts.
    """
    busy = {
        server for server, status in moves.values() if status not in _OVER
    } | {server for server in servers if not _rests(servers, server)}
    return {
        uuid: Migration(
            server,
            status,
            status in _OVER and server not in busy,
            status in _LIVE and _rests(servers, server),
        )
        for uuid, (server, status) in moves.items()
    }


def _rests(
    servers: collections.abc.Mapping[str, tuple[str, str | None]], server: str
) -> bool:
    """Return whether Nova has a server, and is doing nothing to it."""
    status, task = servers.get(server, ('', None))
    return status in _UNMOVED and not task


def elsewhere(
    servers: collections.abc.Mapping[str, tuple[str, str | None]],
    moves: collections.abc.Mapping[str, tuple[str, str]],
    places: collections.abc.Mapping[str, str],
    hosts: collections.abc.Container[str],
) -> dict[str, str]:
    """Return the hosts of the servers at rest that are on other hosts.

    :param servers: as for :func:`migrations`, as the next one.
    :param places: the hosts of servers.
    :param hosts: names of this host.
    """
    busy = {
        server
        for server, status in moves.values()
        if status not in _OVER | _LIVE and status != _EVACUATED
    }
    return {
        uuid: host
        for uuid, host in places.items()
        if host not in hosts and uuid not in busy and _rests(servers, uuid)
    }


@dataclasses.dataclass(frozen=True)
class Nova:
    """The servers in Nova.

    ``servers`` are those of this host with the requests of their flavors,
    except servers that are being built or moved. ``gone`` are the consumers of
    disks that are neither a server nor a migration. ``migrations`` are the
    migrations of this host, by UUID. ``elsewhere`` are the hosts of consumers
    that are servers at rest on another host.
    """

    servers: tuple[tuple[str, flavor.VDiskRequest], ...] = ()
    gone: frozenset[str] = frozenset()
    migrations: collections.abc.Mapping[str, Migration] = dataclasses.field(
        default_factory=dict
    )
    elsewhere: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class HostState:
    """The state of a host.

    ``records`` has all volumes and snapshots of this host, and all others with
    the ids of the vdisks. ``providers`` maps disks to their providers
    below this compute node, and ``foreign`` those whose providers are below
    another one to its name.
    ``forgotten`` are disks of records and links that were forgotten on this
    host.
    ``orphan_providers`` are disks below this compute node that this host does
    not have. ``links`` has the disk that each link leads to, None if
    that is not known, by the name of its vdisk. ``moves_legs`` is false if a
    move of legs of an elastic vdisk is begun and no process carries it out.

    ``to_devices`` are the names of links that lead to devices made for their
    vdisks. ``devices`` has disk and name of each vdisk that has such a device;
    ``moved`` are the names of those with the record of a move.
    ``makes_devices`` are the disks for whose vdisks devices can be made.
    ``moving`` are the names of the vdisks, of all hosts, that are to follow
    their servers.
    """

    records: tuple[Record, ...]
    disks: tuple[discover.Disk, ...]
    providers: dict[str, ProviderState]
    forgotten: frozenset[str] = frozenset()
    foreign: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )
    orphan_providers: tuple[str, ...] = ()
    nova: Nova = Nova()
    links: dict[str, str | None] = dataclasses.field(default_factory=dict)
    moves_legs: bool = True
    to_devices: frozenset[str] = frozenset()
    devices: frozenset[tuple[str, str]] = frozenset()
    makes_devices: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()

    def vdisks_of(self, server: str) -> list[tuple[str, VDisk]]:
        """Return the vdisks bound for a server, with their disks."""
        return [
            (disk.uuid, vdisk)
            for disk in self.disks
            for vdisk in disk.vdisks
            if vdisk.server_id == server and is_vdisk_name(vdisk.name)
        ]

    def claims_of(self, server: str) -> dict[str, placement_client.Resources]:
        """Return a server's claims, by disk."""
        return {
            disk: provider.claims[server]
            for disk, provider in self.providers.items()
            if server in provider.claims
        }


def is_vdisk_name(name: str) -> bool:
    """Return whether a name is that of a volume's or snapshot's vdisk."""
    kind, _, id_ = name.partition('-')
    return kind in ('volume', 'snapshot') and identity.is_uuid(id_)
