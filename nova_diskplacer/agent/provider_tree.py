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

"""The resource providers of disks in the tree of their compute node.

Each disk has one provider below the provider of the compute node.
"""

import collections.abc

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.agent import forgotten
from nova_diskplacer.agent import provider_traits
from nova_diskplacer.host import log_once
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)


class ProviderTree:
    """The tree of one compute node, and which disks have a place in it.

    :param retention: see ``forgotten.Forgotten``.
    :param log: tells once of each disk, by its UUID, why it has no place.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        compute_node: str,
        retention: forgotten.Retention,
        log: log_once.ChangeLogger,
    ) -> None:
        self._client = client
        self._compute_node = compute_node
        self._forgotten = forgotten.Forgotten(client, compute_node, retention)
        self._log = log
        # disks that were moved into the tree, and have been here since
        self._moved: set[str] = set()
        self._is_known = False
        #: UUID of the compute node's provider, None if it has none
        self.root: str | None = None

    @property
    def known_root(self) -> str:
        """UUID of the compute node's provider, after :meth:`read`."""
        assert self.root is not None  # noqa: S101
        return self.root

    def doubt(self) -> None:
        """Read all again: Placement may have lost even our traits."""
        self._is_known = False

    def read(
        self, uuids: collections.abc.Set[str]
    ) -> dict[str, placement_client.Provider]:
        """Return all providers of the tree by UUID.

        :param uuids: those that it has if it is as before.
        :raises NoComputeNode: the compute node has no resource provider yet.
        :raises PlacementError: Placement does not answer or refuses.
        """
        if self._is_known:
            providers = self._client.tree(self.known_root)
            if {provider.uuid for provider in providers} >= uuids:
                return {provider.uuid: provider for provider in providers}
        node = self._client.provider_by_name(self._compute_node)
        if node is None:
            self.root = None
            raise exception.NoComputeNode(
                f'compute node {self._compute_node} has no resource provider '
                'yet: nova-compute creates it at its start; its name is the '
                'hypervisor hostname, see [diskplacer] compute_node'
            )
        if not self._is_known or node.uuid != self.root:
            self._client.ensure_names()
            self._forgotten.load()
            self.root = node.uuid
            self._is_known = True
        tree = self._client.tree(self.known_root)
        return {provider.uuid: provider for provider in tree}

    def keep_moved(self, uuids: collections.abc.Set[str]) -> None:
        """Forget which disks were moved here, but for these."""
        self._moved &= uuids

    def place(self, uuid: str) -> bool:
        """Put the provider of a disk into the tree of the compute node.

        An existing provider is moved, never deleted and created again:
        nova-compute of its former host may know it for long, see
        ``forgotten``.

        If another agent takes it back, both hosts have a disk of this UUID,
        and it is left there.

        :returns: False if servers of another host have allocations of it, or
            another host has the disk as well.
        """
        root = self.known_root
        name = forgotten.name(self._compute_node, uuid)
        present = self._client.provider(uuid)
        if present is None:
            self._client.create_provider(uuid, name, root)
            LOG.info(
                'The agent created a resource provider for disk %s.', uuid
            )
        elif present.root != root:
            if uuid in self._moved and present.parent:
                self._log.log(
                    uuid,
                    'Disk %s is on two hosts: %s has taken its provider back '
                    'from compute node %s. The agent does not offer it here '
                    'until it is forgotten there, or this agent starts anew.',
                    uuid,
                    present.name.removesuffix(forgotten.name('', uuid)),
                    self._compute_node,
                )
                return False
            if not self._clear_inventories(uuid):
                self._log.log(
                    uuid,
                    'Disk %s belongs to the tree of provider %s, where it '
                    'still has allocations. The agent offers it here when '
                    'they are gone.',
                    uuid,
                    present.root,
                )
                return False
            self._client.move_provider(uuid, name, root)
            self._moved.add(uuid)
            LOG.info(
                'The agent moved the resource provider of disk %s into the '
                'tree of compute node %s.',
                uuid,
                self._compute_node,
            )
        return True

    def take_out(self, provider: placement_client.Provider) -> bool:
        """Take the provider of a forgotten disk out of the tree.

        It is deleted later, see ``forgotten``.

        :returns: False if the provider has allocations.
        :raises Conflict: other processes kept changing it.
        """
        if not self._clear_inventories(provider.uuid):
            return False
        # An agent that restarts finds the provider by this trait.
        provider_traits.replace(
            self._client,
            provider.uuid,
            provider_traits.DISK,
            {traits.FORGOTTEN},
        )
        self._client.move_provider(provider.uuid, provider.name, None)
        self._forgotten.add(provider.uuid)
        self._log.clear(provider.uuid)
        LOG.info(
            'Disk %s is gone. The agent removed its provider from the '
            'tree of compute node %s.',
            provider.uuid,
            self._compute_node,
        )
        return True

    def delete_expired(self) -> None:
        """Delete the providers that were taken out long ago."""
        self._forgotten.delete_expired()

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
