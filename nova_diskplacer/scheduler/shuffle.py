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

"""Orders of hosts and disks that differ from request to request.

Nova's weighers and the mapping policies break ties by the order of hosts and
disks. Scheduler workers do not know the choices of other workers, so each
request has an order of its own: concurrent requests choose different ones of
equally suitable hosts and disks.
"""

import numpy as np

from nova_diskplacer.mapping import base


def order(usable: base.Bools, block: int, seed: str) -> base.Ints:
    """Return the columns of a host's disks in an order by a seed.

    Usable disks come first. They are shuffled in blocks of neighbours: two
    requests for the same number of disks then choose the same ones or
    entirely different ones, so that fewer collide.

    :param usable: the disks that may be chosen, (D,).
    :param block: number of disks that the request takes, at least 1.
    :param seed: the same seed gives the same order.
    :returns: each column once, (D,).
    """
    columns = np.flatnonzero(usable)
    whole = len(columns) - len(columns) % block
    blocks = columns[:whole].reshape(-1, block)
    shuffled = _generator(seed).permutation(blocks)
    rest = np.flatnonzero(~usable)
    return np.concatenate([shuffled.ravel(), columns[whole:], rest])


def first(number: int, seed: str) -> int:
    """Return the index of one host, below ``number``, by a seed."""
    return int(_generator(seed).integers(number))


def _generator(seed: str) -> np.random.Generator:
    return np.random.default_rng([*seed.encode()])
