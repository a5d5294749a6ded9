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

"""Keeps requests through several scheduler workers from colliding.

Nova's weighers and the mapping policies break ties by the order of hosts and
disks. Scheduler workers do not know the choices of other workers, so each
request has an order of its own: concurrent requests choose different ones of
equally suitable hosts and disks.

Contract with Nova: when a claim fails Nova goes on to the next host of its
list, and tries a host again that is in the list several times. The claim of a
server may well have lost against other scheduler workers, so few hosts are in
the list several times, and DiskPlacementWeigher puts the repetitions last.
"""

import collections.abc
import typing
import zlib

import numpy as np

from nova_diskplacer.mapping import base

Hosts = list[typing.Any]

# Tries for a server. On the only possible host a claim may lose once or twice.
_TRIES = 4

#: A list with repeated hosts is no longer than this.
MAX_REPEATED = 2 * (_TRIES - 1)


def order(hosts: base.Ints, seed: str) -> base.Ints:
    """Return a request's hosts as often as Nova should try them.

    Nova takes the first of hosts with the same weight: a seed chooses it.

    :param hosts: indices of at least one host, (H,).
    """
    first = zlib.crc32(seed.encode()) % len(hosts)
    rolled = np.concatenate((hosts[first:], hosts[:first]))
    if len(hosts) >= _TRIES:
        return rolled
    return np.tile(rolled, -(-_TRIES // len(hosts)))


def unique(hosts: collections.abc.Iterable[typing.Any]) -> Hosts:
    """Return a request's hosts without repetitions, in the same order."""
    listed = list(hosts)
    if len(listed) > MAX_REPEATED:
        return listed
    return list({id(host): host for host in listed}.values())


def repetitions(hosts: Hosts) -> base.Ints:
    """Return how often each host of a list occurs before in it, (H,)."""
    ids = [id(host) for host in hosts]
    return np.array([ids[:at].count(number) for at, number in enumerate(ids)])


def disk_order(usable: base.Bools, block: int, seed: str) -> base.Ints:
    """Return the columns of a host's disks in an order by a seed.

    Usable disks come first. They are shuffled in blocks of neighbours: two
    requests for the same number of disks then choose the same ones or
    entirely different ones, so that fewer collide.

    :param usable: the disks that may be chosen, (D,).
    :param block: number of disks that the request takes, at least 1.
    :returns: each column once, (D,).
    """
    columns = np.flatnonzero(usable)
    whole = len(columns) - len(columns) % block
    blocks = columns[:whole].reshape(-1, block)
    shuffled = _generator(seed).permutation(blocks)
    rest = np.flatnonzero(~usable)
    return np.concatenate([shuffled.ravel(), columns[whole:], rest])


def random_numbers(count: int, seed: str) -> base.Floats:
    """Return numbers from 0 to 1 by a seed, (count,)."""
    return _generator(seed).random(count)


def _generator(seed: str) -> np.random.Generator:
    # NumPy takes a list of numbers one by one, an array of uint32 as it is
    words = np.frombuffer(seed.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.default_rng(words)
