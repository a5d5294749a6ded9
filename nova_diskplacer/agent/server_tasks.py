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

"""Changes what servers and disks of this host need to be changed for."""

import collections.abc
import functools
import typing

from oslo_config import cfg

from nova_diskplacer.agent import numa_affinity
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once


class Keeper(typing.Protocol):
    """Keeps something of the host as its servers want it."""

    def keep(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Have it so; repeatable."""


class _Post:
    """A keeper, and what to say while it fails; made when it is needed."""

    def __init__(
        self,
        make: collections.abc.Callable[[cfg.ConfigOpts], Keeper],
        begins: str,
        ends: str,
    ) -> None:
        self.make = make
        self.keeper: Keeper | None = None
        self.trouble = log_once.RetryLogger(begins, ends)


class Steering:
    """Looks for servers, and has every keeper do its work for them.

    ``servers`` are those that were there at the last look, None before it.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._looking = log_once.RetryLogger(
            'Servers are left as they are', 'Servers are looked after again'
        )
        self._posts = (
            _Post(
                queue_tuner.QueueTuner,
                "Disks' queues are left as they are",
                "Disks' queues are tuned again",
            ),
            _Post(
                numa_affinity.Affinity,
                "Servers' threads are left where they are",
                "Servers' threads are pinned again",
            ),
        )
        self.servers: list[libvirt_servers.Server] | None = None

    def steer(self, disks: collections.abc.Sequence[discover.Disk]) -> None:
        """Have everything as it should be; raises nothing.

        What a keeper fails in spoils no other. While libvirt does not
        answer, nothing is changed.
        """
        if self._looking.run(self._look):
            for post in self._posts:
                post.trouble.run(functools.partial(self._keep, post, disks))

    def _look(self) -> None:
        self.servers = libvirt_servers.list_servers(
            self._conf.diskplacer_agent.libvirt_uri
        )

    def _keep(
        self, post: _Post, disks: collections.abc.Sequence[discover.Disk]
    ) -> None:
        if post.keeper is None:
            post.keeper = post.make(self._conf)
        post.keeper.keep(self.servers or [], disks)
