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

"""Finds the servers that use a disk for longer than a moment.

Many a server writes a little now and then. Only one that lasts makes another
load, and only one that stays away ends it.
"""

import collections.abc
import dataclasses

# Seconds that a server is active more than idle until it counts, and idle more
# than active until it does not.
_LASTING_S = 20.0


@dataclasses.dataclass(frozen=True)
class Presence:
    """The servers that use a disk.

    ``servers`` are those that count, by key. ``balance_s`` are the seconds
    that each was active less those that it was idle, as far as they matter.
    """

    servers: frozenset[str] = frozenset()
    balance_s: collections.abc.Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )


def step(
    before: Presence, active: collections.abc.Set[str], seconds: float
) -> Presence:
    """Return the servers that use a disk after an interval.

    :param active: the keys of servers with requests in the interval.
    """
    balance_s = {
        key: min(balance + seconds, _LASTING_S)
        if key in active
        else balance - seconds
        for key, balance in before.balance_s.items()
        if key in active or balance > seconds
    }
    for key in active - balance_s.keys():
        balance_s[key] = min(seconds, _LASTING_S)
    servers = frozenset(
        key
        for key, balance in balance_s.items()
        if balance >= _LASTING_S or key in before.servers
    )
    return Presence(servers, balance_s)
