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

"""Hosts and disks of the placement simulation, in several copies.

The copies of a fleet differ in the servers that they hold. They are evaluated
together: the product's code looks at each host alone, so P copies of H hosts
are P * H rows to it.
"""

import dataclasses
import typing

import numpy as np

import _placement_loads as loads
from nova_diskplacer.mapping import base
from nova_diskplacer.mapping import plugins
from nova_diskplacer.scheduler import packing
from nova_diskplacer.scheduler import plan

TB8, TB4, TB384, TB192 = 7452, 3726, 3576, 1788  # GiB of such disks

# vCPUs, GiB of RAM and of root disks of a host, where they are plenty.
_HOST = (512, 1536, 3000)


class Shape(typing.NamedTuple):
    """An empty fleet of H hosts of up to D disks.

    ``total_gb``, ``total_mbps``, ``medium`` and ``node`` are (H, D), as in
    ``plan.FreeCapacity``. ``host_total`` (H, 3) are vCPUs, GiB of RAM and GiB
    of root disks.
    """

    total_gb: base.Ints
    total_mbps: base.Ints
    medium: base.Ints
    node: base.Ints
    host_total: base.Ints

    @property
    def capacity_gb(self) -> int:
        return int(self.total_gb.sum())


def equal(hosts: int, disks: int = 12, disk_gb: int = TB4) -> Shape:
    """Return hosts with equal disks."""
    size = hosts, disks
    return Shape(
        np.full(size, disk_gb, np.int32),
        np.full(size, 1000, np.int32),
        np.ones(size, np.int32),
        np.full(size, plan.NO_NODE, np.int32),
        np.tile(np.array(_HOST, np.int32), (hosts, 1)),
    )


def media(hosts: int) -> Shape:
    """Return a third each: 12 hdd, 8 hdd + 4 ssd, 8 ssd on 2 NUMA nodes."""
    shape = equal(hosts)
    some = np.arange(hosts) % 3 == 1
    shape.total_gb[some, 8:], shape.medium[some, 8:] = TB192, 2
    fast = np.arange(hosts) % 3 == 2
    shape.total_gb[fast], shape.medium[fast] = TB384, 2
    shape.node[fast, :4], shape.node[fast, 4:8] = 0, 1
    _remove_disks(shape, fast, 8)
    return shape


def unlike(hosts: int) -> Shape:
    """Return a third each: 12 disks of 4 TB, 8 of 8 TB, 20 of 2 TB."""
    shape = equal(hosts, 20, TB192)
    few, large = np.arange(hosts) % 3 == 0, np.arange(hosts) % 3 == 1
    shape.total_gb[few], shape.total_gb[large] = TB4, TB8
    _remove_disks(shape, few, 12)
    _remove_disks(shape, large, 8)
    return shape


def _remove_disks(shape: Shape, hosts: base.Bools, disks: int) -> None:
    for array in (shape.total_gb, shape.total_mbps, shape.medium):
        array[hosts, disks:] = 0


def with_scarce(
    shape: Shape, mix: loads.Mix, load: float, column: int, wanted: float
) -> Shape:
    """Return a fleet with fewer vCPUs or less RAM.

    :param load: the load of the disks at which the servers ask for the share
        ``wanted`` of the vCPUs (``column`` 0) or the RAM (1) of the fleet.
    """
    servers = load * shape.capacity_gb / loads.mean_gb(mix)
    total = servers * loads.mean_claims(mix)[column] / wanted
    host_total = shape.host_total.copy()
    host_total[:, column] = round(total / len(host_total))
    return shape._replace(host_total=host_total)


class Fleet:
    """P copies of a fleet, as rows: (P * H, D) and (P * H, 3) arrays."""

    def __init__(self, shape: Shape, copies: int) -> None:
        self.hosts, self.disks = shape.total_gb.shape
        self.copies = copies
        (
            self.total_gb,
            self.total_mbps,
            self.medium,
            self.node,
            self.host_free,
        ) = (np.tile(array, (copies, 1)) for array in shape)
        self.used_gb = np.zeros_like(self.total_gb)
        self.used_mbps = np.zeros_like(self.total_gb)
        self.vdisks = np.zeros_like(self.total_gb)
        size = self.total_gb.shape
        self._nothing = np.zeros(size, np.int32)
        self._true = np.ones(size, dtype=bool)
        self._no_mode = np.zeros(len(self.total_gb), dtype='U1')
        self._names = [tuple(map(str, range(self.disks)))] * size[0]

    def free(
        self, rows: base.Ints, columns: base.Ints | None = None
    ) -> plan.FreeCapacity:
        """Return the free capacity of some rows.

        :param rows: (N,).
        :param columns: an order of the disks of each row, (N, D).
        """
        at = rows if columns is None else (rows[:, None], columns)
        count = len(rows)
        total_gb, used_gb = self.total_gb[at], self.used_gb[at]
        total_mbps = self.total_mbps[at]
        return plan.FreeCapacity(
            total_gb=total_gb,
            free_gb=total_gb - used_gb,
            total_mbps=total_mbps,
            free_mbps=total_mbps - self.used_mbps[at],
            vdisks=self.vdisks[at],
            medium=self.medium[at],
            load=used_gb / np.maximum(total_gb, 1),
            reserved_gb=self._nothing[:count],
            numa_node=self.node[at],
            can_stripe=self._true[:count],
            disks=self._names[:count],
            cache_mode=self._no_mode[:count],
        )

    def claim(
        self,
        rows: base.Ints,
        counts: base.Ints,
        flavor: loads.Flavor,
        sign: int = 1,
    ) -> None:
        """Claim for a server on different rows, or release with ``sign`` -1.

        :param counts: pieces on each disk, (N, D).
        """
        pieces = sign * counts
        self.used_gb[rows] += pieces * flavor.request.piece_gb
        if flavor.request.vdisk_mbps:
            self.used_mbps[rows] += pieces * flavor.request.piece_mbps
        self.vdisks[rows] += pieces
        self.host_free[rows] -= np.multiply(flavor.host_claims, sign)


def spreads(flavor: loads.Flavor) -> bool:
    """Return whether pieces of a server are on distinct disks."""
    return plugins.load(flavor.request.placed_by).spreads


@dataclasses.dataclass
class Evaluation:
    """What the product's code says of a flavor on all rows, (P * H,).

    ``scores`` are those of the mapping, ``disks`` is how many are chosen,
    ``candidates`` are the hosts with free vCPUs, RAM and root disks, and
    ``space`` is that of the packing. Rows are evaluated again after
    ``stale`` was set for them.
    """

    fleet: Fleet
    flavor: loads.Flavor

    def __post_init__(self) -> None:
        rows = len(self.fleet.total_gb)
        self.plan = plan.DiskPlan(self.flavor.request)
        self.spreads = spreads(self.flavor)
        self.stale = np.ones(rows, dtype=bool)
        self.candidates = np.zeros(rows, dtype=bool)
        self.fits = np.zeros(rows, dtype=bool)
        self.scores = np.zeros(rows)
        self.disks = np.zeros(rows, np.int32)
        self.space = packing.Space(
            *np.zeros((len(packing.Space._fields), rows))
        )

    def update(self) -> None:
        """Evaluate the stale rows again."""
        rows = np.flatnonzero(self.stale)
        if not len(rows):
            return
        self.stale[rows] = False
        free = self.fleet.free(rows)
        choice = self.choose(free)
        self.fits[rows] = choice.fits
        self.scores[rows] = choice.scores
        self.disks[rows] = (choice.counts > 0).sum(axis=1)
        host_free = self.fleet.host_free[rows]
        self.candidates[rows] = (host_free >= self.flavor.host_claims).all(
            axis=1
        )
        space = packing.space_of(free, self.flavor.request)
        for kept, new in zip(self.space, space, strict=True):
            kept[rows] = new

    def choose(self, free: plan.FreeCapacity) -> plan.Choice:
        """Choose disks, for NUMA those of the better node.

        As ``numa_alignment`` does for a server whose vCPUs the agent pins.
        """
        if self.flavor.request.numa == 'none':
            return self.plan.choose(free)
        first, second = (
            self.plan.choose(free, free.numa_node == node) for node in (0, 1)
        )
        better = second.fits & (~first.fits | (second.scores > first.scores))
        return plan.Choice(
            first.fits | second.fits,
            np.where(better[:, None], second.counts, first.counts),
            np.where(better, second.scores, first.scores),
        )
