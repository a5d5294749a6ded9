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

"""Computes consumers' classes and shares of disks (P4 §IV-D, §IV-F).

Each consumer has an account of each disk that it uses, and so has each group
of consumers: what they use is added, and what is on an account fades. The
larger the account, the lower the class. The group's class determines the
group's share, which its members divide by their own classes.
"""

import collections.abc
import dataclasses

import numpy
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.monitor import types

MB = 10**6

#: Share of class 1; the members of a group in class 1 divide it further.
MIN_SHARE = 0.1

#: The largest threshold, in scales.
MAX_SCALES = 1024.0

# A threshold per scale, or per doubling beyond the first scale (P4 §IV-D). The
# paper's lg is read as the logarithm to base 2: to base 10 the lowest of 10
# classes, at its scale of 128 MB, would take 10^9 scales, 128 PB.
_CURVES: dict[str, collections.abc.Callable[[int], float]] = {
    'linear': float,
    'logarithmic': lambda lost: 2.0**lost,
}

#: Reasons for weights.
REASONS = (
    'used little',
    'exempt',
    'seeks much',
    'limit of tier',
    'used much',
    'project used much',
    'shared in project',
)


@dataclasses.dataclass(frozen=True)
class Shares:
    """The classes and shares of pairs; all arrays have the shape (R,).

    ``classes`` are those of the pairs' own accounts, ``group_classes`` those
    of their groups' accounts; both are within the pairs' limits. ``shares``
    are fractions of the kernel's default weight. ``used_bytes`` are the pairs'
    own accounts. ``reasons`` are indexes into ``REASONS``. ``exempt`` pairs
    keep their weights.
    """

    pairs: tuple[types.ConsumerDisk, ...]
    classes: types.Floats
    group_classes: types.Floats
    shares: types.Floats
    used_bytes: types.Floats
    reasons: types.Integers
    exempt: types.Booleans


def thresholds(curve: str, classes: int, lowest: int) -> tuple[float, ...]:
    """Return the use in scales at which each class is lost.

    A consumer's class is ``classes`` minus the number of thresholds that its
    use reaches. Thresholds above ``MAX_SCALES`` are left out.

    :param curve: ``[diskplacer_weights] curve``.
    :raises ContentionError: the curve is neither known nor a list of
        thresholds.
    """
    count = classes - lowest
    if curve in _CURVES:
        uses = [_CURVES[curve](lost) for lost in range(1, count + 1)]
    else:
        uses = _parse_thresholds(curve)[:count]
    return tuple(use for use in uses if use <= MAX_SCALES)


def _parse_thresholds(curve: str) -> list[float]:
    """Return the thresholds of a list such as ``1,2,4``."""
    try:
        uses = [float(text) for text in curve.split(',')]
    except ValueError:
        uses = []
    pairs = zip([0.0, *uses], uses, strict=False)
    if not uses or not all(before <= use for before, use in pairs):
        raise exception.ContentionError(
            f'[diskplacer_weights] curve={curve} is neither '
            f'{", ".join(_CURVES)} nor a rising list of thresholds such as '
            '1,2,4'
        )
    return uses


def share(classes: types.Floats, highest: int) -> types.Floats:
    """Return the shares of classes: 1 for the highest, 0 for the idle class.

    Class 1 has ``MIN_SHARE``.
    """
    lost = (highest - classes) / max(highest - 1, 1)
    return numpy.where(classes < 1.0, 0.0, 1.0 - (1.0 - MIN_SHARE) * lost)


def weights(shares: types.Floats) -> types.Integers:
    """Return the weights of shares, between the minimum and the default.

    They are rounded down: the sum for a divided share does not exceed the
    weight of the whole share.
    """
    # 0.29 * 100 is a little less than 29
    whole = numpy.floor(shares * controllers.DEFAULT_WEIGHT + 1e-9)
    return numpy.maximum(whole.astype(numpy.int64), controllers.MIN_WEIGHT)


class SharePolicy:
    """Keeps the accounts and computes shares, once an interval.

    :raises ContentionError: an option is invalid.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.diskplacer_weights
        tiers.tier_ranges(conf)
        scale_bytes = options.scale_mb * MB
        self._classes: int = options.classes
        self._seek_penalty = tiers.class_at(
            options.seek_penalty, options.classes
        )
        self._thresholds = scale_bytes * numpy.array(
            thresholds(
                options.curve, options.classes, tiers.lowest_class(conf)
            )
        )
        self._recovery_bytes_per_s = options.idle_recovery * scale_bytes
        # it bounds the time to recover from any use
        self._limit_bytes = max(self._thresholds, default=0.0) + scale_bytes
        intervals = max(
            1, round(options.use_window / conf.diskplacer_monitor.interval)
        )
        self._own = types.PairTable(
            types.Pairs(),
            used=numpy.zeros(0),
            moved=numpy.zeros((0, intervals)),
            active=numpy.zeros((0, intervals), numpy.bool_),
        )
        # on each disk a row for each group, and one for all exempt pairs
        self._groups = types.PairTable(
            types.Pairs(),
            used=numpy.zeros(0),
            moved=numpy.zeros((0, intervals)),
        )
        self._align(types.Pairs(), {})

    def compute(
        self,
        sample: types.Sample,
        used_bytes: types.Floats,
        policies: collections.abc.Mapping[str, tiers.ConsumerPolicy],
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Shares:
        """Add an interval to the accounts and return the shares.

        :param used_bytes: use of the interval by each pair, (R,).
        :param policies: the policies of all consumers.
        """
        if sample.pairs is not self._pairs or policies != self._policies:
            self._align(sample.pairs, policies)
        active = ~(sample.idle | self._exempt)
        window = numpy.column_stack((self._own['active'][:, 1:], active))
        using: types.Booleans = numpy.logical_or.reduce(window, axis=1)
        moved = used_bytes * ~self._exempt
        own = self._add(
            self._own,
            moved,
            active,
            self._count_users(self._pair_disk, using),
            sample.seconds,
        )
        self._own = types.PairTable(self._pairs, active=window, **own)
        groups = self._groups.pairs
        self._groups = types.PairTable(
            groups,
            **self._add(
                self._groups,
                numpy.bincount(self._group, moved, len(groups)).astype(
                    numpy.float64
                ),
                self._any_member(active),
                self._count_users(self._group_disk, self._any_member(using)),
                sample.seconds,
            ),
        )
        return self._divide(window, seekers)

    def _any_member(self, pairs: types.Booleans) -> types.Booleans:
        """Return for each group whether it is true for any member."""
        size = len(self._groups.pairs)
        return numpy.bincount(self._group, pairs, size) > 0

    def _count_users(
        self, disks: types.Integers, using: types.Booleans
    ) -> types.Integers:
        """Return the number of rows that use the disk of each row.

        It is at least 1.

        :param disks: the index of each row's disk.
        """
        users = numpy.bincount(disks[using], minlength=self._disks)
        return numpy.maximum(users, 1)[disks]

    def _add(
        self,
        accounts: types.PairTable,
        moved: types.Floats,
        active: types.Booleans,
        users: types.Integers,
        seconds: float,
    ) -> dict[str, types.Floats]:
        """Return columns of accounts after an interval.

        :param moved: bytes of the interval.
        :param users: number of accounts of the disk in use.
        """
        forgiven = self._recovery_bytes_per_s * seconds
        change = numpy.where(active, moved, -forgiven)
        window = numpy.column_stack((accounts['moved'][:, 1:], moved))
        limit = numpy.minimum(users * window.sum(axis=1), self._limit_bytes)
        return {
            'used': (accounts['used'] + change).clip(0.0, limit),
            'moved': window,
        }

    def _divide(
        self,
        window: types.Booleans,
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Shares:
        classes = self._compute_classes(self._own['used'])
        group_classes = self._compute_classes(
            self._groups['used'][self._group]
        )
        # A member's part is compared to those who used the disk together,
        # when these had the most, so that taking turns gains nothing.
        part = share(classes, self._classes)
        together = numpy.zeros((len(self._groups.pairs), window.shape[1]))
        numpy.add.at(together, self._group, window * part[:, None])
        with_it = together[:, -1][self._group] + part * ~window[:, -1]
        whole = numpy.maximum(together.max(axis=1)[self._group], with_it)

        seeking = numpy.zeros(len(self._pairs), numpy.bool_)
        seeking[
            [self._rows[pair] for pair in seekers if pair in self._rows]
        ] = True
        seeking &= ~self._exempt
        own_classes = self._penalize(classes, seeking)
        divided = share(
            self._penalize(group_classes, seeking), self._classes
        ) * numpy.divide(part, whole, out=part.copy(), where=whole > 0)
        # there is nobody to whom a group alone on a disk could leave less
        shares = numpy.where(
            self._alone, share(own_classes, self._classes), divided
        )
        highest = float(self._classes)
        reasons = numpy.select(
            [
                self._exempt,
                seeking,
                (classes == self._highest) & (classes < highest),
                classes < highest,
                (group_classes < highest) & ~self._alone,
                (part < whole) & ~self._alone,
            ],
            range(1, len(REASONS)),
        )
        return Shares(
            pairs=self._pairs,
            classes=numpy.where(self._exempt, highest, own_classes),
            group_classes=numpy.where(self._exempt, highest, group_classes),
            shares=numpy.where(self._exempt, 1.0, shares),
            used_bytes=self._own['used'],
            reasons=reasons,
            exempt=self._exempt,
        )

    def _compute_classes(self, used: types.Floats) -> types.Floats:
        """Return the classes of pairs with these accounts."""
        lost = numpy.searchsorted(self._thresholds, used, side='right')
        return numpy.clip(
            (self._classes - lost).astype(numpy.float64),
            self._lowest,
            self._highest,
        )

    def _penalize(
        self, classes: types.Floats, seeking: types.Booleans
    ) -> types.Floats:
        # seeks alone do not lead into the idle class
        floor = numpy.maximum(self._lowest, 1.0)
        penalized = numpy.minimum(
            classes, numpy.maximum(classes - self._seek_penalty, floor)
        )
        return numpy.where(seeking, penalized, classes)

    def _align(
        self,
        pairs: types.Pairs,
        policies: collections.abc.Mapping[str, tiers.ConsumerPolicy],
    ) -> None:
        """Align the accounts with pairs; drop those without any pair."""
        of_pairs = [policies[key] for key, _ in pairs]
        groups = [
            ('' if policy.exempt else policy.group, disk)
            for policy, (_, disk) in zip(of_pairs, pairs, strict=True)
        ]
        rows = {group: row for row, group in enumerate(sorted(set(groups)))}
        self._groups = self._groups.aligned(types.Pairs(rows))
        self._own = self._own.aligned(pairs)
        self._pairs, self._policies = pairs, policies
        self._rows = {pair: row for row, pair in enumerate(pairs)}
        self._group = numpy.array(
            [rows[group] for group in groups], dtype=numpy.intp
        )
        self._group_disk = self._groups.pairs.disk_rows
        self._pair_disk = self._group_disk[self._group]
        groups_of = numpy.bincount(self._group_disk)
        self._disks = len(groups_of)
        self._alone = groups_of[self._pair_disk] == 1
        self._lowest = numpy.array(
            [float(policy.lowest) for policy in of_pairs]
        )
        self._highest = numpy.array(
            [float(policy.highest) for policy in of_pairs]
        )
        self._exempt = numpy.array(
            [policy.exempt for policy in of_pairs], dtype=bool
        )
