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
import datetime
import typing

from nova import exception
from nova.virt import hardware
from oslo_utils import timeutils

# How long a cell counts as given away while the host says nothing newer, in
# seconds.
HOLD_SECONDS = 20.0

Given = tuple[datetime.datetime, typing.Any]


class Recent:
    """Instance topologies that have been fitted to hosts lately.

    :param clock: UTC, naive.
    """

    def __init__(
        self,
        clock: collections.abc.Callable[
            [], datetime.datetime
        ] = timeutils.utcnow,
    ) -> None:
        self._clock = clock
        self._given: dict[str, tuple[Given, ...]] = {}

    def add(self, host: typing.Any, fitted: typing.Any) -> Given:
        """Count a fitted instance topology as on the host."""
        given = (self._clock(), fitted)
        self._given[host.uuid] = (*self._alive(host), given)
        return given

    def remove(self, host: typing.Any, given: Given) -> None:
        """Do not count it any more: it was not claimed."""
        self._given[host.uuid] = tuple(
            one for one in self._alive(host) if one is not given
        )

    def topology(self, host: typing.Any) -> typing.Any:
        """Return the host's topology with all that on it."""
        topology = host.numa_topology
        for _, fitted in self._alive(host):
            try:
                topology = hardware.numa_usage_from_instance_numa(
                    topology, fitted
                )
            except exception.CPUPinningInvalid:
                # these CPUs are taken: it has been claimed
                continue
        return topology

    def _alive(self, host: typing.Any) -> tuple[Given, ...]:
        given = self._given.get(host.uuid, ())
        if not given:
            return ()
        oldest = self._clock() - datetime.timedelta(seconds=HOLD_SECONDS)
        if host.updated is not None:
            oldest = max(oldest, timeutils.normalize_time(host.updated))
        return tuple(one for one in given if one[0] > oldest)

    def clear(self) -> None:
        """Forget all."""
        self._given.clear()


#: What this process has given away.
RECENT = Recent()
