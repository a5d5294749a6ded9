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

"""The resource providers of disks that a host has no more.

nova-compute keeps a copy of its provider tree and asks Placement about each
provider in it. While it has the provider of a disk there, that provider must
exist, or every build and periodic task of the host fails. So a provider that
goes is only taken out of the tree at first. It is deleted much later, when
nova-compute cannot know of it any more.
"""

import collections.abc
import time

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import nova_conf
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

# Time in seconds by which a provider outlives nova-compute's copy of it.
_MARGIN = 3600

Keep = collections.abc.Callable[[], float | None]


class Forgotten:
    """Providers of one host's disks that are in no tree any more.

    Which they are is told by Placement. For how long they have been is
    counted from when the agent has first seen them so.

    :param keep: returns for how long such a provider is kept, in seconds;
        None: for good.
    :param clock: monotonic time in seconds.
    """

    def __init__(
        self,
        client: placement_client.PlacementClient,
        compute_node: str,
        keep: Keep,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._prefix = name(compute_node, '')
        self._keep = keep
        self._clock = clock
        self._since: dict[str, float] = {}

    def find(self) -> None:
        """Look for those that an earlier agent of this host has left."""
        for provider in self._client.forgotten():
            if self._ours(provider):
                self.add(provider.uuid)

    def add(self, uuid: str) -> None:
        """Count the time from now, if that has not begun yet."""
        self._since.setdefault(uuid, self._clock())

    def discard(self, uuid: str) -> None:
        """Forget about one that is in a tree again."""
        self._since.pop(uuid, None)

    def clean(self) -> None:
        """Delete those that have been kept for long enough.

        :raises PlacementError: Placement does not answer, or refuses.
        """
        keep = self._keep() if self._since else None
        if keep is None:
            return
        now = self._clock()
        for uuid in [u for u, at in self._since.items() if now - at > keep]:
            provider = self._client.provider(uuid)
            # it may be in the tree of this or another host again
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


def keep_by(files: collections.abc.Sequence[str]) -> Keep:
    """Return what tells for how long providers are kept.

    For good where nova-compute never asks for its tree again, or where it is
    not known for how long it goes by a copy.

    :param files: the configuration files of nova-compute.
    """
    watched = nova_conf.ReloadingConfig(files, nova_conf.association_refresh)

    def keep() -> float | None:
        try:
            refresh = watched.read()
        except (exception.DiskPlacerError, OSError) as error:
            LOG.debug('Providers of forgotten disks are kept: %s', error)
            return None
        return 2 * refresh + _MARGIN if refresh else None

    return keep
