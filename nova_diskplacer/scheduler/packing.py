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

"""Packs vdisks on few hosts while a fleet fills.

The score of ``round_robin`` makes all disks equally full. In a full fleet no
host then has room for many large vdisks on distinct disks, though much of the
space is free. Packing leaves some hosts such room.

What is refused later depends on the free GiB of the hosts, and how much
servers disturb each other on the number of vdisks on a disk. So the pack score
prefers a host with little free space, and one with few vdisks.

Requests that are scheduled at the same time know nothing of each other, and
the best host of a full fleet often has room for one of them only. So the pack
score is random in part, for each request anew.
"""

import dataclasses
import typing

import numpy as np
from nova.scheduler import utils

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import retries
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import FreeCapacity

# Options, and keys of the metadata of aggregates.
_OPTIONS = ('disk_spread_up_to', 'disk_pack_from')

# Parts of the pack score, by benchmarks/placement_quality.py. With less for
# vdisks they share disks with more others; with more, fewer wide servers fit.
# With a smaller random part, more of the claims of 8 scheduler workers meet a
# host that another one has filled; with a larger one, fewer wide servers fit.
_VDISKS_PART = 0.4
_SPACE_PART = 0.45
_RANDOM_PART = 0.15


class Space(typing.NamedTuple):
    """Space of H hosts on disks that suit a request; arrays of shape (H,).

    ``total_gb`` and ``free_gb`` are in GiB. ``room`` is the sum of the square
    roots of the disks' free GiB: servers with many vdisks need many disks with
    some space more than few with much. ``vdisks`` is the number of vdisks on
    each GiB: where disks are of unlike sizes, larger ones have more vdisks.
    """

    total_gb: base.Ints
    free_gb: base.Floats
    room: base.Floats
    vdisks: base.Floats

    @property
    def committed(self) -> float:
        """Committed share of all disks, 0 to 1; 0 if there are none."""
        total = self.total_gb.sum()
        return float(1 - self.free_gb.sum() / total) if total else 0.0

    def scores(self, random: base.Floats) -> base.Floats:
        """Return the hosts' pack scores, 0 to 1, (H,).

        :param random: numbers from 0 to 1, (H,).
        """
        return (
            _VDISKS_PART * (1 - _shares_of_most(self.vdisks))
            + _SPACE_PART * (1 - _shares_of_most(self.room))
            + _RANDOM_PART * random
        )


def _shares_of_most(values: base.Floats) -> base.Floats:
    """Return values as shares of the largest one, 0 to 1."""
    most = values.max()
    return values / most if most else np.zeros_like(values)


@dataclasses.dataclass(frozen=True)
class Packing:
    """The share that packing has in the scores of H hosts, and its scores.

    ``share`` (H,) is 0 where only the score of the mapping counts and 1 where
    only the pack score does. ``scores`` (H,) are the pack scores, 0 to 1.
    ``committed`` is the committed share of all disks that the request could
    use, 0 to 1.
    """

    share: base.Floats
    scores: base.Floats
    committed: float

    def blend(self, choice: Choice) -> Choice:
        """Return the choice with the pack scores in its scores.

        :param choice: on the H hosts, with the scores of the mapping.
        """
        scores = choice.scores
        blended = scores + self.share * (self.scores - scores)
        return dataclasses.replace(choice, scores=blended)

    def describe(self, index: int) -> str:
        """Return the parts of a host's score in words, for the log."""
        return (
            f', {self.share[index]:.0%} of it from pack score '
            f'{self.scores[index]:.2f} as {self.committed:.0%} of the disks '
            'are committed'
        )


def of_request(
    free: FreeCapacity,
    request: flavor.VDiskRequest,
    hosts: list[typing.Any],
    seed: str,
) -> Packing | None:
    """Return how a request packs on H hosts, None if it does not.

    :param hosts: their host states.
    :param seed: a seed of the request's own, for the random part.
    """
    if not hosts:
        return None
    space = space_of(free, request)
    if not space.total_gb.any():
        return None
    committed = space.committed
    share = _share(committed, hosts)
    if not share.any():
        return None
    random = retries.random_numbers(len(hosts), seed)
    return Packing(share, space.scores(random), committed)


def space_of(free: FreeCapacity, request: flavor.VDiskRequest) -> Space:
    """Return the space of the hosts on disks that suit a request."""
    usable = free.usable(request)
    total_gb, free_gb = free.total_gb, free.free_gb
    if request.vdisk_mbps:
        # a disk without free MB/s has no use for its free GiB
        share = free.free_mbps / np.maximum(free.total_mbps, 1)
        free_gb = np.minimum(free_gb, share * total_gb)
    free_gb = np.maximum(free_gb, 0)
    # it takes half of the time of where() and sum()
    total_gb, free_gb, room, vdisks = (
        np.einsum('hd,hd->h', values, usable)
        for values in (total_gb, free_gb, np.sqrt(free_gb), free.vdisks)
    )
    return Space(total_gb, free_gb, room, vdisks / np.maximum(total_gb, 1))


def _share(committed: float, hosts: list[typing.Any]) -> base.Floats:
    """Return how much the pack score counts on each host, (H,)."""
    group = conf.CONF.diskplacer_scheduler
    options = {name: getattr(group, name) for name in _OPTIONS}
    share = np.full(len(hosts), share_between(committed, *options.values()))
    # many hosts are in the same aggregates
    has_own: dict[int, bool] = {}
    of_hosts = [host.aggregates for host in hosts]
    if not any(of_hosts):
        return share
    for index, aggregates in enumerate(of_hosts):
        for aggregate in aggregates:
            key = id(aggregate)
            if key not in has_own:
                has_own[key] = not options.keys().isdisjoint(
                    aggregate.metadata
                )
            if has_own[key]:
                of_host = [
                    utils.get_weight_multiplier(hosts[index], name, value)
                    for name, value in options.items()
                ]
                share[index] = share_between(committed, *of_host)
    return share


def share_between(
    committed: float, spread_up_to: float, pack_from: float
) -> float:
    """Return how much the pack score counts, 0 to 1."""
    if committed <= spread_up_to:
        return 0.0
    if committed >= pack_from:
        return 1.0
    return (committed - spread_up_to) / (pack_from - spread_up_to)
