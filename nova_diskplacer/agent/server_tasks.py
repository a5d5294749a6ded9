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
from typing import Any
from typing import TypeVar

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import probes
from nova_diskplacer.host import retry_logger

# Seconds that the calls of libvirt for a task may take.
_PATIENCE = 30.0

_Result = TypeVar('_Result')


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
        self._pending: probes.Job[Any] | None = None

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
            self._pins_log.run(
                lambda: self._ask(lambda: self._affinity.apply(servers, disks))
            )

    def _list_servers(self) -> None:
        uri = self._conf.diskplacer_agent.libvirt_uri
        self.servers = self._ask(lambda: libvirt_servers.list_servers(uri))

    def _ask(self, work: collections.abc.Callable[[], _Result]) -> _Result:
        """Run work that calls libvirt, and give up when libvirt hangs.

        Work in progress then continues in its thread, and no other begins
        until it ends.

        :raises HypervisorError: this work or an earlier one hangs.
        """
        if self._pending is None or self._pending.wait(0):
            self._pending = job = probes.Job(work)
            if job.wait(_PATIENCE):
                self._pending = None
                return job.result()
        raise exception.HypervisorError('libvirt does not answer')
