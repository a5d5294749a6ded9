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

"""Several tries on the same host, where few hosts pass the filter.

Contract with Nova: when a claim fails Nova goes on to the next host of its
list, and tries a host again that is in the list several times. The claim of a
server may well have lost against other scheduler workers, so few hosts are in
the list several times, and DiskPlacementWeigher puts the repetitions last.
"""

import collections
import collections.abc
import typing

import numpy as np

from nova_diskplacer.mapping import base

Hosts = list[typing.Any]

# Tries for a server. On the only possible host a claim may lose once or twice.
_TRIES = 4

#: A list with repeated hosts is no longer than this.
MAX_REPEATED = 2 * (_TRIES - 1)


def repeat(hosts: Hosts) -> Hosts:
    """Return a request's hosts as often as Nova should try them."""
    return hosts * -(-_TRIES // len(hosts))


def unique(hosts: collections.abc.Iterable[typing.Any]) -> Hosts:
    """Return a request's hosts without repetitions, in the same order."""
    found = list(hosts)
    if len(found) > MAX_REPEATED:
        return found
    return list({id(host): host for host in found}.values())


def repetitions(hosts: Hosts) -> base.Ints:
    """Return how often each host of a list occurs before in it, (H,)."""
    seen: collections.Counter[int] = collections.Counter()
    times = []
    for host in hosts:
        times.append(seen[id(host)])
        seen[id(host)] += 1
    return np.array(times, dtype=np.int64)
