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

"""A client of Placement for the resource providers of disks."""

import collections.abc
import dataclasses
import typing
import urllib.parse

from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import service_account
from nova_diskplacer.placement import traits

GB = 'CUSTOM_VDISK_GB'
MBPS = 'CUSTOM_VDISK_MBPS'

#: Trait of every disk's provider; a query by it lists all of them.
DISK_TRAIT = 'CUSTOM_DISKPLACER'

# 1.37 moves providers between trees, 1.39 asks for any of several traits.
_MICROVERSION = '1.39'

# Default of [placement] timeout, in seconds.
_TIMEOUT = 30

Resources = dict[str, int]
Inventories = dict[str, dict[str, typing.Any]]


@dataclasses.dataclass(frozen=True)
class Provider:
    """A resource provider; ``parent`` is None at the root of its tree."""

    uuid: str
    name: str
    generation: int
    parent: str | None
    root: str


class DiskCapacity(typing.NamedTuple):
    """The total less the reserved part, and the usage, of a provider."""

    capacity_gb: int
    used_gb: int
    capacity_mbps: int
    used_mbps: int


@dataclasses.dataclass(frozen=True)
class Allocations:
    """A consumer's allocations, by provider, and its generation.

    ``project_id`` is None without allocations.
    """

    project_id: str | None
    resources: dict[str, Resources]
    user_id: str | None = None
    generation: int | None = None


class PlacementClient:
    """Sends the requests of the agent, driver and scheduler to Placement.

    Every method raises ``PlacementError`` if Placement does not answer or
    refuses, ``Conflict`` on a 409. Every request is safe to repeat: what
    changes something has the generation that was read, and a repetition of
    one whose answer was lost is a conflict, after which callers read again.

    :param adapter: a ``keystoneauth1.adapter.Adapter``; the client calls its
        methods ``get``, ``put``, ``post`` and ``delete``.
    """

    def __init__(self, adapter: typing.Any) -> None:
        self._adapter = adapter

    @property
    def session(self) -> typing.Any:
        """The session of the adapter, with which other APIs can be asked."""
        return self._adapter.session

    @property
    def region(self) -> str | None:
        """The region of the adapter, None if there is only one."""
        region: str | None = self._adapter.region_name
        return region

    @classmethod
    def from_conf(
        cls, conf: cfg.ConfigOpts, patient: bool = True
    ) -> 'PlacementClient':
        """Return a client configured by the options of ``[placement]``.

        :param patient: repeat requests for seconds while Placement is away.
        :raises DiskPlacerError: the options are invalid.
        """
        return cls(
            service_account.load_adapter(
                conf, 'placement', 'placement', _TIMEOUT, patient
            )
        )

    def _call(
        self, method: str, url: str, body: object = None, missing: bool = False
    ) -> typing.Any:
        """Return the body of the response.

        :param missing: return None on a 404 instead of raising.
        """
        arguments: dict[str, typing.Any] = {
            'microversion': _MICROVERSION,
            'raise_exc': False,
        }
        if body is not None:
            arguments['json'] = body
        try:
            response = getattr(self._adapter, method)(url, **arguments)
        except ks_exc.ClientException as error:
            raise exception.PlacementError(
                f'Placement cannot be reached: {error}'
            ) from error
        status = response.status_code
        if status == 404 and missing:
            return None
        if status >= 400:
            kind = exception.PlacementError
            if status == 409:
                kind = exception.Conflict
            raise kind(
                f'Placement: {method.upper()} {url}: {status} '
                f'{response.text[:500]}'
            )
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise exception.PlacementError(
                f'Placement: {method.upper()} {url}: not JSON: '
                f'{response.text[:500]}'
            ) from error

    def _list(self, **query: str) -> list[Provider]:
        url = '/resource_providers'
        if query:
            url += '?' + urllib.parse.urlencode(query)
        body = self._call('get', url)
        return [_provider(provider) for provider in body['resource_providers']]

    def provider(self, uuid: str) -> Provider | None:
        """Return a provider, None if it does not exist."""
        body = self._call('get', f'/resource_providers/{uuid}', missing=True)
        return _provider(body) if body else None

    def provider_by_name(self, name: str) -> Provider | None:
        """Return the provider of that name, None if it does not exist."""
        return next(iter(self._list(name=name)), None)

    def provider_names(self) -> dict[str, str]:
        """Return the names of all providers, of disks and others, by UUID."""
        return {provider.uuid: provider.name for provider in self._list()}

    def disks(self, root: str | None = None) -> list[Provider]:
        """Return the providers of disks, all or those of one tree."""
        query = {'required': DISK_TRAIT}
        if root:
            query['in_tree'] = root
        try:
            return self._list(**query)
        except exception.PlacementError:
            # Placement refuses a trait that no agent has created yet.
            if self._existing_traits([DISK_TRAIT]):
                raise
            return []

    def tree(self, root: str) -> list[Provider]:
        """Return the providers of a tree that have a trait of this project.

        They are the disks, the disks that are about to leave the tree, and
        the compute node if it has ``traits.HOST``. The traits must exist, see
        ``ensure_names``.
        """
        names = ','.join((DISK_TRAIT, traits.FORGOTTEN, traits.HOST))
        return self._list(required=f'in:{names}', in_tree=root)

    def forgotten(self) -> list[Provider]:
        """Return the providers of forgotten disks, of all hosts."""
        return self._list(required=traits.FORGOTTEN)

    def disks_with_traits(self, names: dict[str, str]) -> dict[str, str]:
        """Return what disks are, by UUID.

        :param names: trait of the disks that are so, for each value to
            return. A trait that does not exist yet is no disk's.
        """
        existing = self._existing_traits(names.values())
        return {
            provider.uuid: name
            for name, trait in names.items()
            if trait in existing
            for provider in self._list(required=f'{DISK_TRAIT},{trait}')
        }

    def disks_with_room(
        self, resources: Resources, *required: str
    ) -> list[Provider]:
        """Return the disks that have the resources free, and the traits."""
        return self._list(
            resources=','.join(
                f'{name}:{amount}' for name, amount in resources.items()
            ),
            required=','.join((DISK_TRAIT, *required)),
        )

    def disk_capacities(self, root: str) -> dict[str, DiskCapacity]:
        """Return the capacity of each disk, none if no disk has a GiB free."""
        query = urllib.parse.urlencode(
            {'resources': f'{GB}:1', 'in_tree': root, 'limit': '1'}
        )
        body = self._call('get', f'/allocation_candidates?{query}')
        none = {'capacity': 0, 'used': 0}
        capacities = {}
        for uuid, summary in body['provider_summaries'].items():
            resources = summary['resources']
            if GB in resources:
                gb, mbps = resources[GB], resources.get(MBPS, none)
                capacities[uuid] = DiskCapacity(
                    gb['capacity'], gb['used'], mbps['capacity'], mbps['used']
                )
        return capacities

    def used_resources(self, root: str) -> dict[str, Resources]:
        """Return the usage of the disks of ``disk_capacities``."""
        return {
            uuid: {GB: disk.used_gb, MBPS: disk.used_mbps}
            for uuid, disk in self.disk_capacities(root).items()
        }

    def free_gb(self, root: str) -> dict[str, int]:
        """Return the free GiB of the disks of ``disk_capacities``."""
        return {
            uuid: disk.capacity_gb - disk.used_gb
            for uuid, disk in self.disk_capacities(root).items()
        }

    def ensure_names(self) -> None:
        """Create the resource classes and the traits of disks.

        The agents of all hosts may do so at once: to create what exists is
        no error.
        """
        for name in (GB, MBPS):
            self._call('put', f'/resource_classes/{name}')
        names = [
            DISK_TRAIT,
            traits.HOST,
            traits.FORGOTTEN,
            traits.LVM,
            *traits.CACHE_MODES.values(),
            *traits.HEALTH.values(),
        ]
        existing = self._existing_traits(names)
        for name in names:
            if name not in existing:
                self._call('put', f'/traits/{name}')

    def _existing_traits(
        self, names: collections.abc.Iterable[str]
    ) -> list[str]:
        """Return those of the traits that Placement has."""
        query = 'in:' + ','.join(names)
        body = self._call('get', f'/traits?name={query}')
        return list(body['traits'])

    def create_provider(self, uuid: str, name: str, parent: str) -> None:
        """Create a provider below ``parent``."""
        self._call(
            'post',
            '/resource_providers',
            {'uuid': uuid, 'name': name, 'parent_provider_uuid': parent},
        )

    def move_provider(self, uuid: str, name: str, parent: str | None) -> None:
        """Rename a provider and move it below a parent, None for no parent."""
        self._call(
            'put',
            f'/resource_providers/{uuid}',
            {'name': name, 'parent_provider_uuid': parent},
        )

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider if it exists."""
        self._call('delete', f'/resource_providers/{uuid}', missing=True)

    def traits(self, uuid: str) -> tuple[int, set[str]]:
        """Return a provider's generation and traits."""
        body = self._call('get', f'/resource_providers/{uuid}/traits')
        return body['resource_provider_generation'], set(body['traits'])

    def set_traits(self, uuid: str, generation: int, traits: set[str]) -> None:
        """Replace a provider's traits."""
        self._call(
            'put',
            f'/resource_providers/{uuid}/traits',
            {
                'resource_provider_generation': generation,
                'traits': sorted(traits),
            },
        )

    def inventories(self, uuid: str) -> tuple[int, Inventories]:
        """Return a provider's generation and inventories by class."""
        body = self._call('get', f'/resource_providers/{uuid}/inventories')
        return body['resource_provider_generation'], body['inventories']

    def set_inventories(
        self, uuid: str, generation: int, inventories: Inventories
    ) -> None:
        """Replace a provider's inventories."""
        self._call(
            'put',
            f'/resource_providers/{uuid}/inventories',
            {
                'resource_provider_generation': generation,
                'inventories': inventories,
            },
        )

    def provider_allocations(self, uuid: str) -> dict[str, Resources]:
        """Return each consumer's allocation of a provider, if there is one."""
        body = self._call(
            'get', f'/resource_providers/{uuid}/allocations', missing=True
        )
        if body is None:
            return {}
        return {
            consumer: allocation['resources']
            for consumer, allocation in body['allocations'].items()
        }

    def allocations(self, consumer: str) -> Allocations:
        """Return a consumer's allocations."""
        body = self._call('get', f'/allocations/{consumer}')
        return Allocations(
            body.get('project_id'),
            {
                provider: allocation['resources']
                for provider, allocation in body['allocations'].items()
            },
            body.get('user_id'),
            body.get('consumer_generation'),
        )

    def claim(
        self, consumer: str, allocations: Allocations, consumer_type: str
    ) -> None:
        """Replace all allocations of a consumer; without any, delete it.

        :param allocations: with the generation of the consumer as read, None
            if it has none.
        :raises Conflict: they do not fit, or the consumer has changed.
        """
        url = f'/allocations/{consumer}'
        if not allocations.resources:
            self._call('delete', url, missing=True)
            return
        self._call('put', url, _allocations_body(allocations, consumer_type))

    def reshape(
        self,
        inventories: dict[str, tuple[int, Inventories]],
        consumer: str,
        allocations: Allocations,
        consumer_type: str = 'INSTANCE',
    ) -> None:
        """Replace inventories and a consumer's allocations at once.

        :param inventories: the generation and the new inventories of each
            provider.
        :param allocations: all allocations of the consumer, of any provider,
            and its generation as read; without any it is deleted.
        """
        self._call(
            'post',
            '/reshaper',
            {
                'inventories': {
                    uuid: {
                        'resource_provider_generation': generation,
                        'inventories': replaced,
                    }
                    for uuid, (generation, replaced) in inventories.items()
                },
                'allocations': {
                    consumer: _allocations_body(allocations, consumer_type)
                },
            },
        )


def _allocations_body(
    allocations: Allocations, consumer_type: str
) -> dict[str, typing.Any]:
    return {
        'allocations': {
            provider: {'resources': resources}
            for provider, resources in allocations.resources.items()
        },
        'project_id': allocations.project_id,
        'user_id': allocations.user_id,
        'consumer_generation': allocations.generation,
        'consumer_type': consumer_type,
    }


def _provider(body: dict[str, typing.Any]) -> Provider:
    return Provider(
        body['uuid'],
        body['name'],
        body['generation'],
        body['parent_provider_uuid'],
        body['root_provider_uuid'],
    )
