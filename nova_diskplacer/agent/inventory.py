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

import collections.abc
import dataclasses
import os
import types

from oslo_log import log as logging

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.agent import forgotten
from nova_diskplacer.disks import discover
from nova_diskplacer.host import jobs
from nova_diskplacer.host import log_once
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

# All traits that say what a disk is, of which it has some.
_OUR_TRAITS = {
    placement_client.DISK_TRAIT,
    traits.FORGOTTEN,
    *traits.MEDIA.values(),
    *traits.CACHE_MODES.values(),
}

FOREIGN = constants.FOREIGN

# nova-compute changes the compute node's provider, too.
_ATTEMPTS = 3

CacheModes = collections.abc.Mapping[str, str | None]


@dataclasses.dataclass(frozen=True)
class Offer:
    """What the schedulers may know of a disk: its health and figures."""

    disk: discover.Disk
    figures: inventory.Figures

    @property
    def used(self) -> tuple[int, int]:
        """What is claimed of the disk, in GiB and in MB/s."""
        return self.figures.used_gb, self.figures.used_mbps


class Reconciler:
    """Makes Placement agree with the disks of one compute node.

    The compute node has the trait ``traits.HOST`` while it has disks.

    A round in which nothing has changed asks Placement twice, however many
    disks there are: for the providers' generations and for what is used of
    them. Generations alone would not do: Placement leaves them as they are
    when a consumer's allocations are deleted.

    :param compute_node: name of the compute node's resource provider.
    :param keep: returns for how long the provider of a forgotten disk is
        kept, in seconds; None: for good.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        compute_node: str,
        keep: forgotten.Keep = lambda: None,
    ) -> None:
        self._client = client
        self._compute_node = compute_node
        self._forgotten = forgotten.Forgotten(client, compute_node, keep)
        self._known: dict[str, tuple[int, Offer]] = {}
        self._cache_modes: CacheModes = {}
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)
        self._certain = False
        self.root: str | None = None

    def reconcile(
        self,
        disks: list[discover.Disk],
        cache_modes: CacheModes = types.MappingProxyType({}),
    ) -> list[Offer]:
        """Bring the providers up to date and return what to report.

        A disk that Placement has never seen and that cannot be read is left
        out. The compute node's provider is left in ``root``.

        :param cache_modes: the host cache mode of each disk's vdisks, by
            UUID, as far as it is known.
        :raises NoComputeNode: the compute node has no resource provider yet.
        :raises PlacementError: Placement does not answer, or refuses.
        """
        if cache_modes != self._cache_modes:
            self._known = {}
            self._cache_modes = cache_modes
        try:
            return self._reconcile([settled(disk) for disk in disks])
        except exception.PlacementError:
            # nothing is certain any more, not even that Placement has the
            # names of what disks have
            self._certain = False
            raise

    def _reconcile(self, disks: list[discover.Disk]) -> list[Offer]:
        providers = self._providers(disks)
        marked = providers.pop(self._root(), None) is not None
        used = self._client.used(self._root()) if disks else {}
        offers = []
        conflict = None
        for disk in disks:
            provider = providers.pop(disk.uuid, None)
            offer = self._still_true(disk, provider, used.get(disk.uuid))
            if offer is None:
                self._known.pop(disk.uuid, None)
                try:
                    offer = self._bring_up_to_date(disk, provider)
                except exception.Conflict as error:
                    conflict = error
                    continue
                if offer is not None and provider is not None:
                    self._known[disk.uuid] = provider.generation, offer
            if offer is not None:
                offers.append(offer)
        for provider in providers.values():
            try:
                self._withdraw(provider)
            except exception.Conflict as error:
                conflict = error
        if conflict is not None:
            raise conflict
        usable = any(offer.disk.health != FOREIGN for offer in offers)
        if marked != usable:
            self._mark_host(usable)
        self._forgotten.clean()
        return offers

    def _root(self) -> str:
        assert self.root is not None  # noqa: S101
        return self.root

    def _still_true(
        self,
        disk: discover.Disk,
        provider: placement_client.Provider | None,
        used: placement_client.Resources | None,
    ) -> Offer | None:
        """Return the offer of the round before if nothing has changed."""
        if provider is None or disk.uuid not in self._known:
            return None
        generation, offer = self._known[disk.uuid]
        if (generation, offer.disk) != (provider.generation, disk):
            return None
        if used is not None and offer.used != (
            used.get(placement_client.GB, 0),
            used.get(placement_client.MBPS, 0),
        ):
            return None
        return offer

    def _providers(
        self, disks: list[discover.Disk]
    ) -> dict[str, placement_client.Provider]:
        if self._certain:
            found = self._tree()
            if {one.uuid for one in found} >= {disk.uuid for disk in disks}:
                return {provider.uuid: provider for provider in found}
        node = self._client.provider_by_name(self._compute_node)
        if node is None:
            self.root = None
            raise exception.NoComputeNode(
                f'compute node {self._compute_node} has no resource provider '
                'yet: nova-compute makes it when it starts; its name is the '
                'hypervisor hostname, see [diskplacer] compute_node'
            )
        if not self._certain or node.uuid != self.root:
            self._client.ensure_names()
            self._forgotten.find()
            self.root = node.uuid
            self._certain = True
        return {provider.uuid: provider for provider in self._tree()}

    def _tree(self) -> list[placement_client.Provider]:
        return self._client.tree(self._root())

    def _bring_up_to_date(
        self, disk: discover.Disk, provider: placement_client.Provider | None
    ) -> Offer | None:
        if provider is None:
            if disk.health in discover.UNSEEN:
                return None
            if not self._adopt(disk):
                return Offer(
                    dataclasses.replace(disk, health=FOREIGN),
                    inventory.figures(disk, {}),
                )
        if disk.medium:
            self._set_traits(disk)
        figures = inventory.sync_disk(
            self._client, disk.uuid, lambda: _look_again(disk)
        )
        self._log.clear(disk.uuid)
        return Offer(disk, figures)

    def _adopt(self, disk: discover.Disk) -> bool:
        """Have the disk's provider in our tree; False if it is in use.

        It is never deleted and made anew: nova-compute of the host that it
        comes from may know it for long, see ``forgotten``.
        """
        root = self._root()
        name = forgotten.name(self._compute_node, disk.uuid)
        present = self._client.provider(disk.uuid)
        if present is None:
            self._client.create_provider(disk.uuid, name, root)
            LOG.info('Disk %s has a resource provider now.', disk.uuid)
        elif present.root != root:
            if not self._vacate(disk.uuid):
                self._log.log(
                    disk.uuid,
                    'Disk %s came from the host of provider %s, where it '
                    'still has allocations: it is not offered here until '
                    'they are gone.',
                    disk.uuid,
                    present.root,
                )
                return False
            self._client.move_provider(disk.uuid, name, root)
            self._forgotten.discard(disk.uuid)
            LOG.info(
                'The resource provider of disk %s is in the tree of compute '
                'node %s now.',
                disk.uuid,
                self._compute_node,
            )
        return True

    def _vacate(self, uuid: str) -> bool:
        """Have a provider offer nothing; False if anything is claimed of it.

        :raises Conflict: something was claimed just now.
        """
        generation, inventories = self._client.inventories(uuid)
        if self._client.provider_allocations(uuid):
            return False
        if inventories:
            self._client.set_inventories(uuid, generation, {})
        return True

    def _set_traits(self, disk: discover.Disk) -> None:
        wanted = {placement_client.DISK_TRAIT, traits.MEDIA[disk.medium]}
        mode = self._cache_modes.get(disk.uuid)
        if mode is not None:
            wanted.add(traits.CACHE_MODES[mode])
        self._replace_traits(disk.uuid, wanted)

    def _replace_traits(self, uuid: str, wanted: set[str]) -> None:
        """Have ``wanted`` be all traits of ours that a disk has."""
        generation, present = self._client.traits(uuid)
        kept = present - _OUR_TRAITS
        if present != kept | wanted:
            self._client.set_traits(uuid, generation, kept | wanted)

    def _withdraw(self, provider: placement_client.Provider) -> None:
        """Take out the provider of a forgotten disk, or stop offering it."""
        self._known.pop(provider.uuid, None)
        if self._vacate(provider.uuid):
            # the trait first: an agent finds the provider by it
            self._replace_traits(provider.uuid, {traits.FORGOTTEN})
            self._client.move_provider(provider.uuid, provider.name, None)
            self._forgotten.add(provider.uuid)
            self._log.clear(provider.uuid)
            LOG.info(
                'Disk %s is gone: its provider is out of the tree of compute '
                'node %s.',
                provider.uuid,
                self._compute_node,
            )
            return
        inventory.sync_disk(
            self._client,
            provider.uuid,
            lambda: discover.missing(provider.uuid, ''),
        )
        self._log.log(
            provider.uuid,
            'Disk %s is gone from this host but servers have claims on it: '
            'its provider is kept and not offered.',
            provider.uuid,
        )

    def _mark_host(self, usable: bool) -> None:
        """Have the compute node tell by its trait if it has disks."""
        for attempt in range(1, _ATTEMPTS + 1):
            generation, wanted = self._client.traits(self._root())
            if usable:
                wanted.add(traits.HOST)
            else:
                wanted.discard(traits.HOST)
            try:
                self._client.set_traits(self._root(), generation, wanted)
                return
            except exception.Conflict:
                if attempt == _ATTEMPTS:
                    raise


def _look_again(disk: discover.Disk) -> discover.Disk:
    root = os.path.dirname(disk.path)
    seen = discover.inspect(root, disk.uuid, patience=jobs.LATE)
    if seen.late:
        # what is not newer than the provider must not be written to it
        raise exception.Conflict(f'disk {disk.uuid} does not answer in time')
    return seen


def settled(disk: discover.Disk) -> discover.Disk:
    """Return the disk without what changes while nobody touches its vdisks."""
    return dataclasses.replace(disk, free_bytes=0, late=False)
