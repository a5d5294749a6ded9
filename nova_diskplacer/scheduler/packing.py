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
prefers a host with little free space, and one with few vdisks on its disks.
"""

import dataclasses
import typing

import numpy as np
from nova.scheduler import utils

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import FreeCapacity

# Options, and keys of the metadata of aggregates.
_OPTIONS = ('disk_spread_up_to', 'disk_pack_from')

# Part of the vdisks in the pack score; the other part is of the free space.
_VDISKS_PART = 0.5

# Pack scores from 0 to 1. Hosts with the same score are equal, so that
# concurrent requests, each of which takes a random one of them, spread.
_STEPS = 20


@dataclasses.dataclass(frozen=True)
class Packing:
    """How much a request packs, and the pack scores of H hosts.

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
    free: FreeCapacity, request: flavor.VDiskRequest, hosts: list[typing.Any]
) -> Packing | None:
    """Return how a request packs on H hosts, None if it does not.

    :param hosts: their host states.
    """
    if not hosts:
        return None
    usable = free.usable(request)
    total_gb, free_gb = free.total_gb, free.free_gb
    if request.vdisk_mbps:
        # a disk without free MB/s has no use for its free GiB
        share = free.free_mbps / np.maximum(free.total_mbps, 1)
        free_gb = np.minimum(free_gb, share * total_gb)
    total_gb = np.where(usable, total_gb, 0)
    free_of_host = np.where(usable & (free_gb > 0), free_gb, 0).sum(axis=1)
    total = total_gb.sum()
    if not total:
        return None
    committed = 1 - free_of_host.sum() / total
    share = _share(float(committed), hosts)
    if not share.any():
        return None
    vdisks = np.where(usable, free.vdisks, 0).sum(axis=1)
    per_disk = vdisks / np.maximum(usable.sum(axis=1), 1)
    scores = 1 - (
        _VDISKS_PART * per_disk / max(per_disk.max(), 1)
        + (1 - _VDISKS_PART) * free_of_host / max(free_of_host.max(), 1)
    )
    return Packing(share, np.rint(scores * _STEPS) / _STEPS, float(committed))


def _share(committed: float, hosts: list[typing.Any]) -> base.Floats:
    """Return how much the pack score counts on each host, (H,)."""
    group = conf.CONF.diskplacer_scheduler
    options = {name: getattr(group, name) for name in _OPTIONS}
    share = np.full(len(hosts), _share_between(committed, *options.values()))
    for index, host in enumerate(hosts):
        if any(
            not options.keys().isdisjoint(aggregate.metadata)
            for aggregate in host.aggregates
        ):
            of_host = [
                utils.get_weight_multiplier(host, name, value)
                for name, value in options.items()
            ]
            share[index] = _share_between(committed, *of_host)
    return share


def _share_between(
    committed: float, spread_up_to: float, pack_from: float
) -> float:
    """Return how much the pack score counts, 0 to 1."""
    if committed <= spread_up_to:
        return 0.0
    if committed >= pack_from:
        return 1.0
    return (committed - spread_up_to) / (pack_from - spread_up_to)
