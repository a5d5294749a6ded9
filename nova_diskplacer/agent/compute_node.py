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

"""The name of this host's compute node in Nova and Placement."""

import collections.abc
import time

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer.host import hypervisor
from nova_diskplacer.host import log_once

LOG = logging.getLogger(__name__)

# Time in seconds that nova-compute has to create its provider.
_PATIENCE = 60


class ComputeNode:
    """The compute node that this agent belongs to.

    It logs an error if Placement has no provider for the node.

    :param clock: monotonic time in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        if conf.diskplacer.compute_node:
            self.name: str = conf.diskplacer.compute_node
            self._source = 'from [diskplacer] compute_node'
        else:
            self.name = hypervisor.hostname()
            self._source = (
                'the host name as libvirt determines it, since [diskplacer] '
                'compute_node is not set'
            )
        self._clock = clock
        self._since: float | None = None
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)

    def present(self) -> None:
        """Note that Placement has the provider."""
        self._since = None
        self._log.clear(self.name)

    def missing(self) -> None:
        """Note that it is missing; after a minute an error is logged."""
        if self._since is None:
            self._since = self._clock()
        if self._clock() - self._since >= _PATIENCE:
            self._log.log(
                self.name,
                'Placement has had no resource provider named %s for a '
                'minute, so no disk of this host is offered. That name is '
                '%s. If nova-compute runs here, set [diskplacer] compute_node '
                'to the hypervisor hostname that "openstack hypervisor list" '
                'shows for this host.',
                self.name,
                self._source,
            )
