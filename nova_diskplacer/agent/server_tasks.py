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

"""Tunes and pins for the servers of this host."""

import collections.abc
import functools

from oslo_config import cfg

from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import retry_logger


class ServerTasks:
    """Lists the servers of this host, tunes queues and pins for them.

    ``servers`` is the last list of the host's servers, None before the first.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._servers_log = retry_logger.RetryLogger(
            'The servers of this host cannot be listed',
            'The servers of this host can be listed again',
        )
        self._queues_log = retry_logger.RetryLogger(
            'Disk queues cannot be tuned', 'Disk queues are tuned again'
        )
        self._pins_log = retry_logger.RetryLogger(
            'vCPU threads cannot be pinned', 'vCPU threads are pinned again'
        )
        self.servers: list[libvirt_servers.Server] | None = None

    @functools.cached_property
    def _queue_tuner(self) -> queue_tuner.QueueTuner:
        return queue_tuner.QueueTuner(self._conf)

    @functools.cached_property
    def _affinity(self) -> numa_affinity.Affinity:
        return numa_affinity.Affinity(self._conf)

    def run(self, disks: collections.abc.Sequence[discover.Disk]) -> None:
        """List the servers and run each task for them.

        A task that fails does not keep the others from running, and its error
        is logged. While libvirt does not answer, no task runs.
        """
        if self._servers_log.run(self._list_servers):
            servers = self.servers or []
            self._queues_log.run(
                lambda: self._queue_tuner.apply(servers, disks)
            )
            self._pins_log.run(lambda: self._affinity.apply(servers, disks))

    def _list_servers(self) -> None:
        self.servers = libvirt_servers.list_servers(
            self._conf.diskplacer_agent.libvirt_uri
        )
