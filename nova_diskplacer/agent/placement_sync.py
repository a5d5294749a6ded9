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
from nova_diskplacer.agent import provider_traits
from nova_diskplacer.agent import provider_tree
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

CacheModes = collections.abc.Mapping[str, str | None]


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
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)
        self._tree = provider_tree.ProviderTree(
            client, compute_node, retention, self._log
        )
        self._known: dict[str, tuple[int, reported_disks.ReportedDisk]] = {}
        self._cache_modes: CacheModes = {}
        #: the disks to report; None until a first round knows all of them
        self.reported: list[reported_disks.ReportedDisk] | None = None

    @property
    def root(self) -> str | None:
        """UUID of the compute node's provider, None if it has none."""
        return self._tree.root

    def reconcile(
        self,
        disks: list[discover.Disk],
        cache_modes: CacheModes = types.MappingProxyType({}),
    ) -> list[reported_disks.ReportedDisk]:
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
            return self._reconcile(
                [reported_disks.comparable(disk) for disk in disks]
            )
        except exception.PlacementError:
            self._tree.doubt()
            raise

    def _reconcile(
        self, disks: list[discover.Disk]
    ) -> list[reported_disks.ReportedDisk]:
        providers = self._tree.read({disk.uuid for disk in disks})
        root = self._tree.known_root
        marked = providers.pop(root, None) is not None
        used = self._client.used_resources(root) if disks else {}
        last = {known.disk.uuid: known for known in self.reported or ()}
        self._tree.keep_moved(
            {disk.uuid for disk in disks if disk.health != discover.MISSING}
        )
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
            usable = any(
                known.disk.health != constants.FOREIGN for known in reported
            )
            if marked != usable:
                host_traits = {traits.HOST} if usable else set()
                provider_traits.replace(
                    self._client, root, {traits.HOST}, host_traits
                )
        self._tree.delete_expired()
        if conflict is not None:
            raise conflict
        return reported

    def _unchanged(
        self,
        disk: discover.Disk,
        provider: placement_client.Provider | None,
        used: placement_client.Resources | None,
    ) -> reported_disks.ReportedDisk | None:
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

    def _update_provider(
        self,
        disk: discover.Disk,
        provider: placement_client.Provider | None,
        *,
        is_new: bool,
    ) -> reported_disks.ReportedDisk | None:
        """Update the provider of a disk, and return the disk to report.

        :param is_new: whether nothing is known of it that could be reported
            instead, so that it has until it is hung to answer.
        :raises Conflict: it does not answer in time, or other processes kept
            changing the provider.
        """
        if provider is None:
            if disk.health in discover.UNAVAILABLE:
                return None
            if not self._tree.place(disk.uuid):
                return reported_disks.ReportedDisk(
                    dataclasses.replace(disk, health=constants.FOREIGN),
                    inventory.compute_figures(disk, {}).offered,
                )
        managed, required = provider_traits.of_disk(
            disk, self._cache_modes.get(disk.uuid)
        )
        provider_traits.replace(self._client, disk.uuid, managed, required)
        figures = inventory.sync_disk(
            self._client, disk.uuid, lambda: _inspect_again(disk, is_new)
        )
        self._log.clear(disk.uuid)
        return reported_disks.ReportedDisk(disk, figures.offered)

    def _remove_provider(self, provider: placement_client.Provider) -> None:
        """Remove the provider of a forgotten disk from the tree.

        A provider with allocations stays and offers nothing.
        """
        self._known.pop(provider.uuid, None)
        if self._tree.take_out(provider):
            return
        provider_traits.replace(
            self._client,
            provider.uuid,
            provider_traits.HEALTH,
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
