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

"""Requests of the placement simulation: flavors, mixes, and lifetimes.

A mean lifetime is 1. The load is the GiB that would be claimed at a time if no
request were refused, divided by those of all disks.
"""

import collections.abc
import dataclasses
import functools
import json
import pathlib
import typing

import numpy as np

from nova_diskplacer import flavor as flavor_
from nova_diskplacer.mapping import base

#: Draws lifetimes: (generator, how many) -> times, mean 1.
Lifetimes = collections.abc.Callable[[np.random.Generator, int], base.Floats]

# Of the lognormal half of the lifetimes.
_SIGMA = 1.2

# Lifetimes that the servers at the beginning are drawn from.
_POOL = 200_000

# GiB of a server's root disk.
_ROOT_GB = 20

_TRACE = pathlib.Path(__file__).with_name('_placement_trace.json')


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor, and its share of the requests of a mix.

    ``host_claims`` are the vCPUs, GiB of RAM and GiB of the root disk. A wide
    request is one for at least 8 vdisks and 3000 GiB.
    """

    name: str
    share: float
    request: flavor_.VDiskRequest
    host_claims: tuple[int, int, int]

    @property
    def gb(self) -> int:
        """GiB of all vdisks."""
        return self.request.pieces * self.request.piece_gb

    @property
    def is_wide(self) -> bool:
        return self.request.vdisks >= 8 and self.gb >= 3000


Mix = tuple[Flavor, ...]


class Arrivals(typing.NamedTuple):
    """N requests in the order in which they come, arrays of shape (N,).

    ``times`` are 0 for the servers that are there at the beginning, ``kinds``
    are indices of flavors in the mix, ``ends`` are when servers are deleted.
    """

    times: base.Floats
    kinds: base.Ints
    ends: base.Floats


def _flavor(
    share: float,
    vdisks: int,
    gb: int,
    vcpus: int,
    ram_gb: int,
    suffix: str = '',
    **specs: object,
) -> Flavor:
    specs = {'vdisks': vdisks, 'vdisk_gb': gb, **specs}
    request = flavor_.parse(
        {f'diskplacer:{key}': str(value) for key, value in specs.items()}
    )
    assert request is not None
    claims = vcpus, ram_gb, _ROOT_GB
    return Flavor(f'{vdisks}x{gb}{suffix}', share, request, claims)


def general() -> Mix:
    """Many small servers, and few with most of the GiB."""
    consolidated = {'mapping': 'consolidated'}
    return (
        _flavor(22, 1, 100, 2, 4),
        _flavor(8, 1, 250, 2, 8),
        _flavor(16, 2, 200, 4, 8),
        _flavor(6, 2, 800, 4, 16),
        _flavor(14, 4, 500, 8, 16),
        _flavor(10, 4, 100, 4, 16, 'c', **consolidated),
        _flavor(4, 8, 100, 8, 32, 'c', **consolidated),
        _flavor(6, 6, 400, 8, 32),
        _flavor(4, 8, 250, 8, 32),
        _flavor(4, 8, 1000, 16, 64),
        _flavor(4, 12, 300, 16, 64),
        _flavor(2, 12, 1000, 24, 96),
        _flavor(2, 1, 2000, 4, 16),
        _flavor(2, 1, 1200, 8, 16, 's', mapping='striped', stripe_disks=4),
        _flavor(2, 1, 800, 8, 16, 'e', mapping='elastic', stripe_disks='1-4'),
    )


def narrow() -> Mix:
    """Servers of 1 to 4 vdisks, and in a hundred requests one for 8."""
    return (
        _flavor(40, 1, 100, 2, 4),
        _flavor(25, 2, 200, 4, 8),
        _flavor(20, 4, 500, 8, 16),
        _flavor(10, 4, 100, 4, 16, 'c', mapping='consolidated'),
        _flavor(4, 2, 800, 4, 16),
        _flavor(1, 8, 1000, 16, 64),
    )


def media() -> Mix:
    """Servers by medium, some on the disks of one NUMA node."""
    hdd, ssd = {'media': 'hdd'}, {'media': 'ssd'}
    numa = {'media': 'ssd', 'numa': 'required'}
    return (
        _flavor(20, 1, 100, 2, 4),
        _flavor(10, 2, 200, 4, 8, 'h', **hdd),
        _flavor(10, 4, 500, 8, 16, 'h', **hdd),
        _flavor(8, 4, 100, 4, 16, 'hc', mapping='consolidated', **hdd),
        _flavor(6, 6, 400, 8, 32, 'h', **hdd),
        _flavor(4, 8, 1000, 16, 64, 'h', **hdd),
        _flavor(3, 12, 300, 16, 64, 'h', **hdd),
        _flavor(1, 12, 1000, 24, 96, 'h', **hdd),
        _flavor(16, 1, 100, 2, 8, 'f', **ssd),
        _flavor(8, 2, 200, 4, 16, 'f', **ssd),
        _flavor(5, 4, 500, 8, 32, 'f', **ssd),
        _flavor(4, 4, 300, 8, 32, 'fn', **numa),
        _flavor(3, 2, 800, 8, 32, 'fn', **numa),
        _flavor(2, 8, 400, 16, 64, 'f', **ssd),
    )


def claiming_mbps(mix: Mix, mbps_of_tb: float) -> Mix:
    """Return a mix in which every other flavor claims MB/s.

    :param mbps_of_tb: MB/s that are claimed for each 1000 GiB of a vdisk, and
        10 at the least.
    """
    found = []
    for number, one in enumerate(mix):
        if number % 2:
            gb = one.request.vdisk_gb
            mbps = max(10, round(mbps_of_tb * gb / 1000))
            request = dataclasses.replace(one.request, vdisk_mbps=mbps)
            one = dataclasses.replace(one, request=request)
        found.append(one)
    return tuple(found)


def random_mix(rng: np.random.Generator, disks: int, disk_gb: int) -> Mix:
    """Return a random mix for hosts with so many disks of so many GiB.

    The more GiB a flavor has, the fewer requests there are for it.
    """
    found = []
    for number in range(int(rng.integers(5, 13))):
        vdisks = int(rng.integers(1, disks + 1))
        if rng.random() < 0.5:
            vdisks = min(vdisks, 4)
        most = min(0.6 * disk_gb, 0.25 * disks * disk_gb / vdisks)
        gb = int(np.exp(rng.uniform(np.log(50), np.log(most))))
        specs = {}
        if rng.random() < 0.2:
            specs['mapping'] = 'consolidated'
        vcpus = 2 * int(rng.integers(1, 13))
        share = rng.uniform(0.2, 1) / (vdisks * gb) ** rng.uniform(0.3, 0.9)
        ram_gb = vcpus * int(rng.choice((2, 4, 8)))
        found.append(
            _flavor(share, vdisks, gb, vcpus, ram_gb, f'-{number}', **specs)
        )
    return tuple(found)


def shares(mix: Mix) -> base.Floats:
    """Return the flavors' shares of the requests, whose sum is 1."""
    found = np.array([one.share for one in mix], dtype=float)
    return found / found.sum()


def mean_claims(mix: Mix) -> base.Floats:
    """Return the vCPUs, GiB of RAM and of root disks of a mean request."""
    claims = np.array([one.host_claims for one in mix], dtype=float)
    return shares(mix) @ claims


def mean_gb(mix: Mix) -> float:
    """Return the GiB of a mean request."""
    return float(shares(mix) @ np.array([one.gb for one in mix]))


def usual(rng: np.random.Generator, count: int) -> base.Floats:
    """Draw lifetimes, half of them exponential and half lognormal."""
    exponential = rng.exponential(size=count)
    lognormal = rng.lognormal(-(_SIGMA**2) / 2, _SIGMA, count)
    return np.where(rng.random(count) < 0.5, exponential, lognormal)


def traced(rng: np.random.Generator, count: int) -> base.Floats:
    """Draw lifetimes of the pods of a public trace, see its file."""
    return rng.choice(_trace(), count)


@functools.cache
def _trace() -> base.Floats:
    seconds = np.array(json.loads(_TRACE.read_text())['seconds'], dtype=float)
    return seconds / seconds.mean()


def arrivals(
    mix: Mix,
    capacity_gb: int,
    load: float,
    rng: np.random.Generator,
    until: float,
    lifetimes: Lifetimes = usual,
) -> Arrivals:
    """Draw the servers of the beginning and the requests up to a time.

    The servers of the beginning are those of a fleet that has always been
    under that load: long lives are more likely among them, and any part of
    each has passed.

    :param capacity_gb: GiB of all disks.
    """
    rate = load * capacity_gb / mean_gb(mix)
    first, later = rng.poisson(rate), rng.poisson(rate * until)
    pool = lifetimes(rng, _POOL)
    left = rng.choice(pool, first, p=pool / pool.sum()) * rng.random(first)
    times = np.sort(rng.random(later) * until)
    kinds = rng.choice(len(mix), first + later, p=shares(mix))
    return Arrivals(
        np.concatenate([np.zeros(first), times]),
        kinds,
        np.concatenate([left, times + lifetimes(rng, later)]),
    )


def batch(
    mix: Mix, capacity_gb: int, load: float, rng: np.random.Generator
) -> Arrivals:
    """Draw servers that come one after the other and are never deleted."""
    kinds: list[int] = []
    total_gb = 0
    while total_gb < load * capacity_gb:
        kind = int(rng.choice(len(mix), p=shares(mix)))
        if total_gb + mix[kind].gb <= 1.02 * load * capacity_gb:
            kinds.append(kind)
            total_gb += mix[kind].gb
    times = np.arange(len(kinds)) / len(kinds)
    return Arrivals(times, np.array(kinds), np.full(len(kinds), np.inf))
