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
import typing

from oslo_config import cfg

from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once


class ServerTask(typing.Protocol):
    """Adapts one property of the host to its servers."""

    def apply(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Apply the setting; a repetition changes nothing."""


class _TaskRunner:
    """A task, created at its first run, and the log of its failures."""

    def __init__(
        self,
        make: collections.abc.Callable[[cfg.ConfigOpts], ServerTask],
        begins: str,
        ends: str,
    ) -> None:
        self._make = make
        self._task: ServerTask | None = None
        self._log = log_once.RetryLogger(begins, ends)

    def run(
        self,
        conf: cfg.ConfigOpts,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Apply the task; log an error instead of raising it."""
        self._log.run(functools.partial(self._apply, conf, servers, disks))

    def _apply(
        self,
        conf: cfg.ConfigOpts,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        if self._task is None:
            self._task = self._make(conf)
        self._task.apply(servers, disks)


class ServerTasks:
    """Runs all tasks for the servers of this host.

    ``servers`` is the last list of the host's servers, None before the first.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._servers_log = log_once.RetryLogger(
            'The servers of this host cannot be listed',
            'The servers of this host can be listed again',
        )
        self._runners = (
            _TaskRunner(
                queue_tuner.QueueTuner,
                'Disk queues cannot be tuned',
                'Disk queues are tuned again',
            ),
            _TaskRunner(
                numa_affinity.Affinity,
                'vCPU threads cannot be pinned',
                'vCPU threads are pinned again',
            ),
        )
        self.servers: list[libvirt_servers.Server] | None = None

    def run(self, disks: collections.abc.Sequence[discover.Disk]) -> None:
        """List the servers and run each task for them.

        A task that fails does not keep the others from running, and its error
        is logged. While libvirt does not answer, no task runs.
        """
        if self._servers_log.run(self._list_servers):
            for runner in self._runners:
                runner.run(self._conf, self.servers or [], disks)

    def _list_servers(self) -> None:
        self.servers = libvirt_servers.list_servers(
            self._conf.diskplacer_agent.libvirt_uri
        )
