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

"""Deletes the resource providers of forgotten disks, after a delay.

nova-compute keeps a copy of its provider tree and asks Placement about each
provider in it. If one of them does not exist, every build and periodic task of
the host fails. Therefore the agent first moves the provider of a forgotten
disk out of the tree, and deletes it much later, when no copy can contain it.
"""

import collections.abc
import time

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import log_once
from nova_diskplacer.host import nova_conf
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

# Time in seconds added to the life of nova-compute's copy.
_RETENTION_MARGIN = 3600

Retention = collections.abc.Callable[[], float | None]


class Forgotten:
    """The providers of one host's forgotten disks.

    Placement knows which they are. Their age counts from the moment at which
    the agent has first seen them outside the tree.

    :param retention: returns the time in seconds after which a provider is
        deleted; None: never.
    :param clock: monotonic time in seconds.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        compute_node: str,
        retention: Retention,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._prefix = name(compute_node, '')
        self._retention = retention
        self._clock = clock
        self._since: dict[str, float] = {}

    def load(self) -> None:
        """Add the providers left by an earlier agent of this host."""
        for provider in self._client.forgotten():
            if self._ours(provider):
                self._since.setdefault(provider.uuid, self._clock())

    def add(self, uuid: str) -> None:
        """Add a provider; its age counts from now."""
        self._since[uuid] = self._clock()

    def delete_expired(self) -> None:
        """Delete the providers whose time is over.

        :raises PlacementError: Placement does not answer or refuses a
            request.
        """
        keep = self._retention() if self._since else None
        if keep is None:
            return
        now = self._clock()
        for uuid in [u for u, at in self._since.items() if now - at > keep]:
            provider = self._client.provider(uuid)
            # It may be in the tree of this or another host again.
            if provider is not None and self._ours(provider):
                self._client.delete_provider(uuid)
                LOG.info('The provider of disk %s is deleted.', uuid)
            del self._since[uuid]

    def _ours(self, provider: placement_client.Provider) -> bool:
        return provider.parent is None and provider.name.startswith(
            self._prefix
        )


def name(compute_node: str, disk: str) -> str:
    """Return the name of the provider of a compute node's disk."""
    return f'{compute_node}_disk_{disk}'


def retention_from(files: collections.abc.Sequence[str]) -> Retention:
    """Return a function for the retention by nova-compute's configuration.

    Its result is None if nova-compute never refreshes its copy of the tree,
    and while the configuration cannot be read.

    :param files: configuration files of nova-compute.
    """
    read = nova_conf.reloading(files, nova_conf.association_refresh)
    unreadable = log_once.ChangeLogger(LOG, logging.DEBUG)

    def retention() -> float | None:
        try:
            refresh = read()
        except (exception.DiskPlacerError, OSError) as error:
            unreadable.log('', 'Providers of forgotten disks stay: %s', error)
            return None
        unreadable.clear('')
        return 2 * refresh + _RETENTION_MARGIN if refresh else None

    return retention
