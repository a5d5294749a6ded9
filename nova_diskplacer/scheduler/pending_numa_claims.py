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

"""Cells that this worker has given away a moment ago.

Nova sees a server on its host once nova-compute has claimed it. Requests that
come at once would all be foretold the same cell, and where the claim names it
all but the first few would fail.
"""

import collections.abc
import threading
import time
import typing

from nova import exception
from nova.virt import hardware
from oslo_utils import timeutils

from nova_diskplacer.scheduler import claims


class Given(typing.NamedTuple):
    """An instance topology that was fitted to a host.

    :ivar at: monotonic time in seconds.
    :ivar host: the host's state in that request.
    :ivar instances: how many the host had.
    :ivar updated: when nova-compute had last said so, by its own clock.
    """

    at: float
    host: typing.Any
    instances: int
    updated: typing.Any
    fitted: typing.Any

    def is_seen(self, host: typing.Any) -> bool:
        """Tell that a host's state may have it in it.

        Compares times of the host's clock with one another, so it does not
        matter how far that is from this machine's.
        """
        if host is self.host:
            # the next server of the same request
            return bool(host.num_instances > self.instances)
        if self.updated is None or host.updated is None:
            return host.updated is not None
        return bool(_naive(host.updated) > _naive(self.updated))


class Recent:
    """Instance topologies that have been fitted to hosts lately.

    Serves all threads of a scheduler worker.

    :param clock: monotonic time in seconds.
    """

    def __init__(
        self, clock: collections.abc.Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given: dict[str, tuple[Given, ...]] = {}

    def add(self, host: typing.Any, fitted: typing.Any) -> Given:
        """Count a fitted instance topology as on the host."""
        oldest = self._clock() - claims.SECONDS
        with self._lock:
            for uuid, given in list(self._given.items()):
                left = tuple(one for one in given if one.at > oldest)
                if left:
                    self._given[uuid] = left
                else:
                    del self._given[uuid]
            known = self._given.get(host.uuid, ())
            # Nova writes its own time there when it has claimed
            updated = next(
                (one.updated for one in known if one.host is host),
                host.updated,
            )
            new = Given(
                self._clock(), host, host.num_instances, updated, fitted
            )
            self._given[host.uuid] = (*known, new)
        return new

    def remove(self, given: Given) -> None:
        """Do not count it any more: it was not claimed."""
        uuid = given.host.uuid
        with self._lock:
            self._given[uuid] = tuple(
                one for one in self._given.get(uuid, ()) if one is not given
            )

    def topology(self, host: typing.Any) -> typing.Any:
        """Return the host's topology with all that on it."""
        topology = host.numa_topology
        oldest = self._clock() - claims.SECONDS
        for given in self._given.get(host.uuid, ()):
            if given.at <= oldest or given.is_seen(host):
                continue
            try:
                topology = hardware.numa_usage_from_instance_numa(
                    topology, given.fitted
                )
            except exception.CPUPinningInvalid:
                # these CPUs are taken: it has been claimed
                continue
        return topology

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._given.clear()


def _naive(moment: typing.Any) -> typing.Any:
    return timeutils.normalize_time(moment)


#: What this process has given away.
RECENT = Recent()
