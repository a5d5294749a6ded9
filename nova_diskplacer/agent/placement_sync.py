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

"""Reconciles the disks of a host with their resource providers.

Each disk has one provider below the provider of the compute node.
"""

import collections.abc
import dataclasses
import math
import os
import types

from oslo_log import log as logging

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.agent import forgotten
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

# The traits of disk providers that the agent sets and removes.
_DISK_TRAITS = {
    placement_client.DISK_TRAIT,
    traits.FORGOTTEN,
    traits.LVM,
    *traits.MEDIA.values(),
    *traits.CACHE_MODES.values(),
    *traits.HEALTH.values(),
}

_HEALTH_TRAITS = set(traits.HEALTH.values())

FOREIGN = constants.FOREIGN

# Attempts to set traits: nova-compute changes the compute node's, too.
_ATTEMPTS = 3

CacheModes = collections.abc.Mapping[str, str | None]


@dataclasses.dataclass(frozen=True)
class ReportedDisk:
    """A disk as it is reported to the schedulers."""

    disk: discover.Disk
    figures: inventory.DiskFigures

    @property
    def used(self) -> tuple[int, int]:
        """Return the claimed capacity in GiB and throughput in MB/s."""
        return self.figures.used_gb, self.figures.used_mbps


class PlacementSync:
    """Updates the disk providers of one compute node in Placement.

    The compute node has the trait ``traits.HOST`` while it has disks.

    A round without changes sends two requests to Placement, whatever the
    number of disks: one for the providers' generations and one for their
    usage. The generations are not enough, because Placement does not increase
    them when it deletes the allocations of a consumer.

    :param retention: see ``forgotten.Forgotten``.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        compute_node: str,
        retention: forgotten.Retention = lambda: None,
    ) -> None:
        self._client = client
        self._compute_node = compute_node
        self._forgotten = forgotten.Forgotten(client, compute_node, retention)
        self._known: dict[str, tuple[int, ReportedDisk]] = {}
        # disks that were moved into the tree, and have been here since
        self._moved: set[str] = set()
        self._cache_modes: CacheModes = {}
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)
        self._tree_known = False
        self.root: str | None = None
        #: the disks to report; None until a first round knows all of them
        self.reported: list[ReportedDisk] | None = None

    def reconcile(
        self,
        disks: list[discover.Disk],
        cache_modes: CacheModes = types.MappingProxyType({}),
    ) -> list[ReportedDisk]:
        """Update the providers and return the disks to report.

        An unreadable disk without a provider is not reported. Afterwards
        ``root`` is the UUID of the compute node's provider, and ``reported``
        has what is returned. After a conflict ``reported`` is new as well: a
        disk that could not be updated has its last known figures there.

        :param cache_modes: host cache mode of the vdisks on each disk, by
            disk UUID; a disk whose mode is unknown is missing.
        :raises NoComputeNode: the compute node has no resource provider yet.
        :raises PlacementError: Placement does not answer or refuses a
            request.
        """
        if cache_modes != self._cache_modes:
            self._known = {}
            self._cache_modes = cache_modes
        try:
            return self._reconcile([comparable(disk) for disk in disks])
        except exception.PlacementError:
            # Placement may have lost even our resource classes and traits.
            self._tree_known = False
            raise

    def _reconcile(self, disks: list[discover.Disk]) -> list[ReportedDisk]:
        providers = self._providers(disks)
        marked = providers.pop(self._root(), None) is not None
        used = self._client.used_resources(self._root()) if disks else {}
        last = {known.disk.uuid: known for known in self.reported or ()}
        self._moved &= {
            disk.uuid for disk in disks if disk.health != discover.MISSING
        }
        reported = []
        conflict = None
        is_complete = True
        for disk in disks:
            provider = providers.pop(disk.uuid, None)
            current = self._unchanged(disk, provider, used.get(disk.uuid))
            if current is None:
                self._known.pop(disk.uuid, None)
                try:
                    current = self._update_provider(
                        disk, provider, is_new=disk.uuid not in last
                    )
                except exception.Conflict as error:
                    conflict = error
                    current = last.get(disk.uuid)
                    is_complete = is_complete and current is not None
                else:
                    if current is not None and provider is not None:
                        self._known[disk.uuid] = provider.generation, current
            if current is not None:
                reported.append(current)
        for provider in providers.values():
            try:
                self._remove_provider(provider)
            except exception.Conflict as error:
                conflict = error
        if is_complete:
            self.reported = reported
            usable = any(known.disk.health != FOREIGN for known in reported)
            if marked != usable:
                host_traits = {traits.HOST} if usable else set()
                self._set_traits(self._root(), {traits.HOST}, host_traits)
        self._forgotten.delete_expired()
        if conflict is not None:
            raise conflict
        return reported

    def _root(self) -> str:
        assert self.root is not None  # noqa: S101
        return self.root

    def _unchanged(
        self,
        disk: discover.Disk,
        provider: placement_client.Provider | None,
        used: placement_client.Resources | None,
    ) -> ReportedDisk | None:
        """Return the result of the previous round if it still holds."""
        if provider is None or disk.uuid not in self._known:
            return None
        generation, last = self._known[disk.uuid]
        if (generation, last.disk) != (provider.generation, disk):
            return None
        if used is not None and last.used != (
            used.get(placement_client.GB, 0),
            used.get(placement_client.MBPS, 0),
        ):
            return None
        return last

    def _providers(
        self, disks: list[discover.Disk]
    ) -> dict[str, placement_client.Provider]:
        if self._tree_known:
            providers = self._client.tree(self._root())
            if {provider.uuid for provider in providers} >= {
                disk.uuid for disk in disks
            }:
                return {provider.uuid: provider for provider in providers}
        node = self._client.provider_by_name(self._compute_node)
        if node is None:
            self.root = None
            raise exception.NoComputeNode(
                f'compute node {self._compute_node} has no resource provider '
                'yet: nova-compute creates it at its start; its name is the '
                'hypervisor hostname, see [diskplacer] compute_node'
            )
        if not self._tree_known or node.uuid != self.root:
            self._client.ensure_names()
            self._forgotten.load()
            self.root = node.uuid
            self._tree_known = True
        tree = self._client.tree(self._root())
        return {provider.uuid: provider for provider in tree}

    def _update_provider(
        self,
        disk: discover.Disk,
        provider: placement_client.Provider | None,
        *,
        is_new: bool,
    ) -> ReportedDisk | None:
        """Update the provider of a disk, and return the disk to report.

        :param is_new: whether nothing is known of it that could be reported
            instead, so that it has until it is hung to answer.
        :raises Conflict: it does not answer in time, or other processes kept
            changing the provider.
        """
        if provider is None:
            if disk.health in discover.UNAVAILABLE:
                return None
            if not self._place_in_tree(disk):
                return ReportedDisk(
                    dataclasses.replace(disk, health=FOREIGN),
                    inventory.compute_figures(disk, {}).offered,
                )
        health = {
            trait
            for name, trait in traits.HEALTH.items()
            if name == disk.health
        }
        if disk.medium:
            disk_traits = {
                placement_client.DISK_TRAIT,
                traits.MEDIA[disk.medium],
            }
            disk_traits |= health
            mode = self._cache_modes.get(disk.uuid)
            if mode is not None:
                disk_traits.add(traits.CACHE_MODES[mode])
            if naming.is_entry(disk.path):
                disk_traits.add(traits.LVM)
            self._set_traits(disk.uuid, _DISK_TRAITS, disk_traits)
        else:
            self._set_traits(disk.uuid, _HEALTH_TRAITS, health)
        figures = inventory.sync_disk(
            self._client, disk.uuid, lambda: _inspect_again(disk, is_new)
        )
        self._log.clear(disk.uuid)
        return ReportedDisk(disk, figures.offered)

    def _place_in_tree(self, disk: discover.Disk) -> bool:
        """Put the disk's provider into the tree of the compute node.

        An existing provider is moved, never deleted and created again:
        nova-compute of its former host may know it for long, see
        ``forgotten``.

        If another agent takes it back, both hosts have a disk of this UUID,
        and it is left there.

        :returns: False if servers of another host have allocations of it, or
            another host has the disk as well.
        """
        root = self._root()
        name = forgotten.name(self._compute_node, disk.uuid)
        present = self._client.provider(disk.uuid)
        if present is None:
            self._client.create_provider(disk.uuid, name, root)
            LOG.info(
                'The agent created a resource provider for disk %s.', disk.uuid
            )
        elif present.root != root:
            if disk.uuid in self._moved and present.parent:
                self._log.log(
                    disk.uuid,
                    'Disk %s is on two hosts: %s has taken its provider back '
                    'from compute node %s. The agent does not offer it here '
                    'until it is forgotten there, or this agent starts anew.',
                    disk.uuid,
                    present.name.removesuffix(forgotten.name('', disk.uuid)),
                    self._compute_node,
                )
                return False
            if not self._clear_inventories(disk.uuid):
                self._log.log(
                    disk.uuid,
                    'Disk %s belongs to the tree of provider %s, where it '
                    'still has allocations. The agent offers it here when '
                    'they are gone.',
                    disk.uuid,
                    present.root,
                )
                return False
            self._client.move_provider(disk.uuid, name, root)
            self._moved.add(disk.uuid)
            LOG.info(
                'The agent moved the resource provider of disk %s into the '
                'tree of compute node %s.',
                disk.uuid,
                self._compute_node,
            )
        return True

    def _clear_inventories(self, uuid: str) -> bool:
        """Delete the inventories of a provider.

        :returns: False if the provider has allocations.
        :raises Conflict: Nova claimed something in the meantime.
        """
        generation, inventories = self._client.inventories(uuid)
        if self._client.provider_allocations(uuid):
            return False
        if inventories:
            self._client.set_inventories(uuid, generation, {})
        return True

    def _set_traits(
        self, uuid: str, managed: set[str], required: set[str]
    ) -> None:
        """Replace the managed traits of a provider; keep all others."""
        for attempt in range(1, _ATTEMPTS + 1):
            generation, present = self._client.traits(uuid)
            traits_ = present - managed | required
            if traits_ == present:
                return
            try:
                self._client.set_traits(uuid, generation, traits_)
                return
            except exception.Conflict:
                if attempt == _ATTEMPTS:
                    raise

    def _remove_provider(self, provider: placement_client.Provider) -> None:
        """Remove the provider of a forgotten disk from the tree.

        A provider with allocations stays and offers nothing.
        """
        self._known.pop(provider.uuid, None)
        if self._clear_inventories(provider.uuid):
            # An agent that restarts finds the provider by this trait.
            self._set_traits(provider.uuid, _DISK_TRAITS, {traits.FORGOTTEN})
            self._client.move_provider(provider.uuid, provider.name, None)
            self._forgotten.add(provider.uuid)
            self._log.clear(provider.uuid)
            LOG.info(
                'Disk %s is gone. The agent removed its provider from the '
                'tree of compute node %s.',
                provider.uuid,
                self._compute_node,
            )
            return
        self._set_traits(
            provider.uuid,
            _HEALTH_TRAITS,
            {traits.HEALTH[constants.MISSING]},
        )
        inventory.sync_disk(
            self._client,
            provider.uuid,
            lambda: discover.missing(provider.uuid, ''),
        )
        self._log.log(
            provider.uuid,
            'Disk %s is gone from this host but servers have claims on it. '
            'Its provider stays and offers nothing.',
            provider.uuid,
        )


def _inspect_again(disk: discover.Disk, is_new: bool) -> discover.Disk:
    root = os.path.dirname(disk.path)
    patience = math.inf if is_new else probes.TIMEOUT
    seen = discover.inspect(root, disk.uuid, patience)
    if seen.late:
        # Older values must not replace those of the provider.
        raise exception.Conflict(f'disk {disk.uuid} does not answer in time')
    return seen


def comparable(disk: discover.Disk) -> discover.Disk:
    """Return the disk without the fields that change on their own."""
    return dataclasses.replace(disk, free_bytes=0, late=False)
