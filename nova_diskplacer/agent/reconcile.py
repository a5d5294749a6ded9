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

"""Keeps one resource provider per disk below the compute node's."""

import dataclasses

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import placement
from nova_diskplacer import publish
from nova_diskplacer.disks import discover

LOG = logging.getLogger(__name__)

_MEDIUM_TRAITS = {
    flavor.HDD: 'STORAGE_DISK_HDD',
    flavor.SSD: 'STORAGE_DISK_SSD',
}

FOREIGN = 'foreign'


@dataclasses.dataclass(frozen=True)
class Offer:
    """What the schedulers may know of a disk: its health and figures."""

    disk: discover.Disk
    figures: publish.Figures


class Reconciler:
    """Makes Placement agree with the disks of one compute node.

    It remembers the providers' generations, so that a round in which nothing
    has changed asks Placement once.

    :param compute_node: name of the compute node's resource provider.
    """

    def __init__(
        self, client: placement.PlacementClient, compute_node: str
    ) -> None:
        self._client = client
        self._compute_node = compute_node
        self._known: dict[str, tuple[int, discover.Disk, Offer]] = {}
        self._complained: set[str] = set()
        self.root: str | None = None

    def reconcile(self, disks: list[discover.Disk]) -> list[Offer]:
        """Bring the providers up to date and return what to report.

        A disk that Placement has never seen and that cannot be read is left
        out.

        :raises PlacementError: Placement does not answer, or the compute
            node has no resource provider yet.
        """
        disks = [settled(disk) for disk in disks]
        providers = self._providers(disks)
        offers = []
        for disk in disks:
            provider = providers.pop(disk.uuid, None)
            known = self._known.get(disk.uuid)
            if provider and known and known[:2] == (provider.generation, disk):
                offers.append(known[2])
                continue
            offer = self._bring_up_to_date(disk, provider)
            if offer is not None:
                offers.append(offer)
                if provider:
                    self._known[disk.uuid] = provider.generation, disk, offer
        for provider in providers.values():
            self._withdraw(provider)
        return offers

    def _providers(
        self, disks: list[discover.Disk]
    ) -> dict[str, placement.Provider]:
        if self.root is not None:
            found = {
                provider.uuid: provider
                for provider in self._client.disks(self.root)
            }
            if found.keys() >= {disk.uuid for disk in disks}:
                return found
        node = self._client.provider_by_name(self._compute_node)
        if node is None:
            self.root = None
            raise exception.PlacementError(
                f'compute node {self._compute_node} has no resource provider '
                'yet: nova-compute makes it when it starts; its name is the '
                'hypervisor hostname, see [diskplacer] compute_node'
            )
        if node.uuid != self.root:
            self._client.ensure_names()
            self.root = node.uuid
        return {
            provider.uuid: provider
            for provider in self._client.disks(self.root)
        }

    def _bring_up_to_date(
        self, disk: discover.Disk, provider: placement.Provider | None
    ) -> Offer | None:
        if provider is None:
            if disk.health == discover.MISSING:
                return None
            if not self._adopt(disk):
                return Offer(
                    dataclasses.replace(disk, health=FOREIGN),
                    publish.figures(disk, {}),
                )
        if disk.medium:
            self._set_traits(disk)
        return Offer(disk, publish.sync_disk(self._client, disk))

    def _adopt(self, disk: discover.Disk) -> bool:
        """Create the disk's provider; False if another host's is in use."""
        assert self.root is not None  # noqa: S101
        present = self._client.provider(disk.uuid)
        if present is not None and present.root != self.root:
            if self._client.provider_allocations(disk.uuid):
                self._complain(
                    disk.uuid,
                    'Disk %s came from the host of provider %s, where it '
                    'still has allocations: it is not offered here until '
                    'they are gone.',
                    disk.uuid,
                    present.root,
                )
                return False
            self._client.delete_provider(disk.uuid)
            present = None
        if present is None:
            self._client.create_provider(
                disk.uuid, f'{self._compute_node}_disk_{disk.uuid}', self.root
            )
            LOG.info('Disk %s has a resource provider now.', disk.uuid)
        self._complained.discard(disk.uuid)
        return True

    def _set_traits(self, disk: discover.Disk) -> None:
        wanted = {placement.DISK_TRAIT, _MEDIUM_TRAITS[disk.medium]}
        generation, traits = self._client.traits(disk.uuid)
        kept = traits - set(_MEDIUM_TRAITS.values())
        if traits != kept | wanted:
            self._client.set_traits(disk.uuid, generation, kept | wanted)

    def _withdraw(self, provider: placement.Provider) -> None:
        """Delete the provider of a forgotten disk, or stop offering it."""
        self._known.pop(provider.uuid, None)
        if not self._client.provider_allocations(provider.uuid):
            self._client.delete_provider(provider.uuid)
            LOG.info('Disk %s is gone, and its provider.', provider.uuid)
            return
        publish.sync_disk(self._client, discover.missing(provider.uuid, ''))
        self._complain(
            provider.uuid,
            'Disk %s is gone from this host but servers have claims on it: '
            'its provider is kept and not offered.',
            provider.uuid,
        )

    def _complain(self, uuid: str, message: str, *arguments: object) -> None:
        if uuid not in self._complained:
            self._complained.add(uuid)
            LOG.error(message, *arguments)


def settled(disk: discover.Disk) -> discover.Disk:
    """Return the disk without what changes while nobody touches its vdisks."""
    return dataclasses.replace(disk, free_bytes=0)
