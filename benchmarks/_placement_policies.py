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

"""Policies that choose the host: the product's, and scoring rules of others.

Those of other projects are their scoring rules only; which hosts hold the
vdisks, on distinct disks where the mapping says so, is the product's decision
for all of them:

* TopoLVM, revision 83e3dce, ``internal/scheduler/prioritize.go``;
* OpenEBS lvm-localpv, revision f3276f4, ``pkg/driver/schd_helper.go``; on the
  host its agent takes the fullest volume group that holds the volume;
* Nova's weighers, ``nova/scheduler/weights/{ram,cpu,disk}.py`` and
  ``nova/weights.py``, the same from 2025.1 to 2026.2.
"""

import collections.abc
import dataclasses
import functools

import numpy as np

import _placement_fleet as fleets
from nova_diskplacer import conf
from nova_diskplacer.mapping import base
from nova_diskplacer.scheduler import packing
from nova_diskplacer.scheduler import plan

# Digits of the weights of DiskPlacementWeigher.
_DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Decision:
    """What a policy knows of a request, in its copy of the fleet.

    Arrays are of the N hosts that hold the vdisks; ``hosts`` are their
    indices.
    """

    evaluation: fleets.Evaluation
    copy: int

    @functools.cached_property
    def hosts(self) -> base.Ints:
        """Indices of the hosts, (N,)."""
        return np.flatnonzero(
            self._candidates & self.evaluation.fits[self._rows_of_copy]
        )

    @functools.cached_property
    def rows(self) -> base.Ints:
        """Rows of the hosts in the fleet, (N,)."""
        return self.hosts + self._rows_of_copy.start

    @property
    def scores(self) -> base.Floats:
        """Scores of the mapping, (N,)."""
        return self.evaluation.scores[self.rows]

    @property
    def host_free(self) -> base.Ints:
        """Free vCPUs, RAM and root disk, (N, 3)."""
        return self.evaluation.fleet.host_free[self.rows]

    @property
    def free_gb(self) -> base.Ints:
        """Free GiB of each disk, (N, D)."""
        return self.evaluation.fleet.total_gb[self.rows] - self.used_gb

    @property
    def used_gb(self) -> base.Ints:
        """Claimed GiB of each disk, (N, D)."""
        return self.evaluation.fleet.used_gb[self.rows]

    @property
    def vdisks(self) -> base.Ints:
        """Number of vdisks on each disk, (N, D)."""
        return self.evaluation.fleet.vdisks[self.rows]

    @property
    def candidates_space(self) -> packing.Space:
        """Space of all hosts that have the vCPUs, RAM and root disk."""
        candidates = self._candidates
        space = (one[self._rows_of_copy] for one in self.evaluation.space)
        if candidates.all():
            return packing.Space(*space)
        return packing.Space(*(one[candidates] for one in space))

    @property
    def places(self) -> base.Ints:
        """Indices of the hosts among those of ``candidates_space``, (N,)."""
        return (np.cumsum(self._candidates) - 1)[self.hosts]

    @property
    def _candidates(self) -> base.Bools:
        return self.evaluation.candidates[self._rows_of_copy]

    @property
    def _rows_of_copy(self) -> slice:
        hosts = self.evaluation.fleet.hosts
        return slice(self.copy * hosts, (self.copy + 1) * hosts)


Weigh = collections.abc.Callable[[Decision, np.random.Generator], base.Floats]


@dataclasses.dataclass(frozen=True)
class Policy:
    """Which host is best, and in what order its disks are taken.

    ``weigh`` returns the weights of a decision's hosts, (N,). ``disks`` is
    ``load`` for the product's order, ``fullest`` or ``first``.
    ``random_ties``: of equal hosts any one is taken, not the next one from a
    random host on, as Nova does with the product's order of hosts.
    """

    name: str
    weigh: Weigh
    disks: str = 'load'
    random_ties: bool = False

    def choose(self, decision: Decision, rng: np.random.Generator) -> int:
        """Return the best host's place in ``decision.hosts``."""
        weights = self.weigh(decision, rng)
        if self.random_ties:
            return int(rng.choice(np.flatnonzero(weights >= weights.max())))
        # the first one of equal hosts in the order of retries.order
        first = int(rng.integers(len(weights)))
        best = first + int(weights[first:].argmax())
        if first:
            before = int(weights[:first].argmax())
            if weights[before] > weights[best]:
                return before
        return best

    def order(self, decision: Decision, rng: np.random.Generator) -> base.Ints:
        """Return the places in ``decision.hosts``, the best host's first."""
        weights = self.weigh(decision, rng)
        if self.random_ties:
            order = rng.permutation(len(weights))
        else:
            order = np.roll(
                np.arange(len(weights)), -int(rng.integers(len(weights)))
            )
        return order[np.argsort(-weights[order], kind='stable')]


def product(
    spread_up_to: float, pack_from: float, multiplier: float | None = None
) -> Weigh:
    """Return DiskPlacementWeigher with these options.

    :param multiplier: its multiplier beside Nova's weighers, None without
        them.
    """

    def weigh(decision: Decision, rng: np.random.Generator) -> base.Floats:
        scores, space = decision.scores, decision.candidates_space
        committed = space.committed
        share = packing.share_between(committed, spread_up_to, pack_from)
        if share:
            random = rng.random(len(space.total_gb))
            pack = packing.Packing(
                np.array(share),
                space.scores(random)[decision.places],
                committed,
            )
            nothing = np.zeros(0, dtype=int)
            scores = pack.blend(plan.Choice(nothing, nothing, scores)).scores
        scores = scores.round(_DIGITS)
        if multiplier is None:
            return scores
        return multiplier * scores + nova(decision)

    return weigh


def nova(decision: Decision) -> base.Floats:
    """Return the weights of Nova's RAM, CPU and Disk weighers.

    Each is the host's share of what the freest host has.
    """
    free = decision.host_free
    return (free / np.maximum(free.max(axis=0), 1)).sum(axis=1)


def _host_free_gb(decision: Decision, *_: object) -> base.Floats:
    return decision.free_gb.sum(axis=1).astype(float)


def _topolvm(decision: Decision, *_: object) -> base.Floats:
    free = np.maximum(_host_free_gb(decision), 1)
    return np.clip(np.log2(free).astype(int), 1, 10)


def _indices(decision: Decision, *_: object) -> base.Floats:
    return -decision.hosts.astype(float)


def _nothing(decision: Decision, *_: object) -> base.Floats:
    return np.zeros(len(decision.hosts))


PEERS = (
    Policy('random', _nothing, random_ties=True),
    Policy('first_fit', _indices, disks='first'),
    Policy('best_fit', lambda d, _: -_host_free_gb(d)),
    Policy('nova_disk', _host_free_gb),
    Policy('topolvm', _topolvm, random_ties=True),
    Policy(
        'openebs_space',
        lambda d, _: d.free_gb.max(axis=1).astype(float),
        disks='fullest',
    ),
    Policy(
        'openebs_volumes',
        lambda d, _: -d.vdisks.sum(axis=1).astype(float),
        disks='fullest',
    ),
    Policy(
        'openebs_capacity',
        lambda d, _: -d.used_gb.sum(axis=1).astype(float),
        disks='fullest',
    ),
)


def ours() -> tuple[Policy, ...]:
    """Return the product as before packing, by default, and variations.

    ``today`` and ``default`` are beside Nova's weighers, the first one with
    the multiplier of 1 that was the default before packing.
    """
    conf.register_opts(conf.CONF)
    group = conf.CONF.diskplacer_scheduler
    limits = group.disk_spread_up_to, group.disk_pack_from
    multiplier = group.disk_placement_weight_multiplier
    return (
        Policy('today', product(1, 1, 1)),
        Policy('default', product(*limits, multiplier)),
        Policy('spread', product(1, 1)),
        Policy('packing', product(*limits)),
        *(
            Policy(f'packing_x{factor}', product(*limits, factor))
            for factor in (1, 3, 10)
            if factor != multiplier
        ),
    )
