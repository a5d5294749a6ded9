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

"""Reads disks and claims from Placement.

A figure that one request can tell of all disks is one request. Inventories and
allocations are not: Placement tells them of one provider at a time, so these
requests are sent in parallel.
"""

import collections.abc
import concurrent.futures
import dataclasses
import typing

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.client import facts
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits

# Requests at a time.
_THREADS = 8


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Providers of disks, and the names of their hosts by root provider."""

    providers: collections.abc.Sequence[placement_client.Provider]
    hosts: collections.abc.Mapping[str, str]


def choose(
    client: placement_client.PlacementClient,
    host: str | None = None,
    start: str | None = None,
) -> Chosen:
    """Return all disks, those of a host, or one.

    :param host: name of a compute node, with or without its domain.
    :param start: of the UUID of a disk.
    :raises DiskPlacerError: Placement does not answer or refuses, or there is
        no disk on such a host, or not one disk with such a UUID.
    """
    providers = client.disks()
    if start is not None:
        providers = [
            provider
            for provider in providers
            if provider.uuid.startswith(start)
        ]
        if len(providers) != 1:
            raise exception.DiskPlacerError(
                f'{len(providers)} disks have a UUID that starts with '
                f'{start!r}'
            )
    hosts = names_of(client, {provider.root for provider in providers})
    if host:
        providers = [
            provider
            for provider in providers
            if host
            in (hosts[provider.root], facts.short_host(hosts[provider.root]))
        ]
        if not providers:
            raise exception.DiskPlacerError(
                f'host {host} has no disks in Placement; there are: '
                + (', '.join(sorted(hosts.values())) or 'none')
            )
    return Chosen(providers, hosts)


def names_of(
    client: placement_client.PlacementClient,
    roots: collections.abc.Collection[str],
) -> dict[str, str]:
    """Return the names of compute nodes, the UUID of one that is gone."""
    names = client.provider_names() if roots else {}
    return {root: names.get(root, root) for root in roots}


def read(
    client: placement_client.PlacementClient, chosen: Chosen
) -> tuple[dict[str, facts.Disk], facts.Claims]:
    """Return disks with their figures in Placement, and the claims on them.

    :raises DiskPlacerError: Placement does not answer or refuses.
    """
    if not chosen.providers:
        return {}, {}
    traits_of = _traits(client)
    uuids = [provider.uuid for provider in chosen.providers]
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        inventories = pool.map(client.inventories, uuids)
        allocations = pool.map(client.provider_allocations, uuids)
        disks = [
            (
                _disk(
                    provider.uuid,
                    chosen.hosts[provider.root],
                    inventory,
                    claims,
                    **traits_of(provider.uuid),
                ),
                claims,
            )
            for provider, (_, inventory), claims in zip(
                chosen.providers, inventories, allocations, strict=True
            )
        ]
    return {disk.uuid: disk for disk, _ in disks}, {
        disk.uuid: _gb(claims) for disk, claims in disks
    }


def read_room(
    client: placement_client.PlacementClient, chosen: Chosen
) -> list[facts.Disk]:
    """Return disks whose totals are what vdisks may take of them.

    It takes one request for each host, instead of two for each disk.

    :raises DiskPlacerError: Placement does not answer or refuses.
    """
    if not chosen.providers:
        return []
    traits_of = _traits(client)
    full = placement_client.DiskCapacity(0, 0, 0, 0)
    roots = sorted({provider.root for provider in chosen.providers})
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        capacities = dict(
            zip(roots, pool.map(client.disk_capacities, roots), strict=True)
        )
    disks = []
    for provider in chosen.providers:
        capacity = capacities[provider.root].get(provider.uuid, full)
        disks.append(
            facts.Disk(
                provider.uuid,
                chosen.hosts[provider.root],
                total_gb=capacity.capacity_gb,
                claimed_gb=capacity.used_gb,
                total_mbps=capacity.capacity_mbps,
                claimed_mbps=capacity.used_mbps,
                **traits_of(provider.uuid),
            )
        )
    return disks


def read_space(
    client: placement_client.PlacementClient, chosen: Chosen
) -> list[facts.Disk]:
    """Return disks as ``read_room``, and the totals of those of full hosts.

    It takes one request for each host, and two for each disk of a full one.

    :raises DiskPlacerError: Placement does not answer or refuses.
    """
    disks = read_room(client, chosen)
    full = {disk.host for disk in disks} - {
        disk.host for disk in disks if disk.total_gb
    }
    names = chosen.hosts
    providers = [
        provider
        for provider in chosen.providers
        if names[provider.root] in full
    ]
    whole, _ = read(client, Chosen(providers, names))
    return [whole.get(disk.uuid, disk) for disk in disks]


def _traits(
    client: placement_client.PlacementClient,
) -> collections.abc.Callable[[str], dict[str, typing.Any]]:
    """Return a function that tells what is known of a disk by its traits."""
    media = client.disks_with_traits(traits.MEDIA)
    health = client.disks_with_traits(traits.HEALTH)
    modes = client.disks_with_traits(traits.CACHE_MODES)
    striping = client.disks_with_traits({'lvm': traits.LVM})
    return lambda uuid: {
        'medium': media.get(uuid, ''),
        'health': health.get(uuid, constants.OK),
        'cache_mode': modes.get(uuid, ''),
        'can_stripe': uuid in striping,
    }


def _disk(
    uuid: str,
    host: str,
    inventories: placement_client.Inventories,
    claims: collections.abc.Mapping[str, placement_client.Resources],
    **traits_: typing.Any,
) -> facts.Disk:
    """Return a disk with its figures in Placement."""
    gb = inventories.get(placement_client.GB, {})
    mbps = inventories.get(placement_client.MBPS, {})
    return facts.Disk(
        uuid,
        host,
        total_gb=gb.get('total', 0),
        reserved_gb=gb.get('reserved', 0),
        claimed_gb=sum(_gb(claims).values()),
        total_mbps=mbps.get('total', 0),
        claimed_mbps=sum(
            claim.get(placement_client.MBPS, 0) for claim in claims.values()
        ),
        **traits_,
    )


def _gb(
    claims: collections.abc.Mapping[str, placement_client.Resources],
) -> dict[str, int]:
    """Return the GiB that each consumer of a disk claims."""
    return {
        consumer: resources[placement_client.GB]
        for consumer, resources in claims.items()
        if placement_client.GB in resources
    }
