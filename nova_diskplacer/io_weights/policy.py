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

Each group has an account of each disk that its members use: the bytes read and
written, less a fixed amount for each interval without any. The larger the
account, the lower the class. The class determines the group's share, which the
members that use the disk divide.
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
MIN_SHARE = 0.05

#: Intervals; a share is divided by the highest number of members that used
#: the disk in one of them: taking turns gains nothing.
ACTIVITY_WINDOW = 10

#: The largest threshold, in scales; recovery from it takes an idle server
#: more than half an hour.
MAX_SCALES = 1024.0

# A threshold per scale, or per doubling beyond the first scale (P4 §IV-D). The
# paper's lg is read as the logarithm to base 2: to base 10 the lowest of 10
# classes, at its scale of 128 MB, would take 10^9 scales, 128 PB.
_CURVES: dict[str, collections.abc.Callable[[int], float]] = {
    'linear': float,
    'logarithmic': lambda lost: 2.0**lost,
}

_EXEMPT = ('', '')


@dataclasses.dataclass(frozen=True)
class Shares:
    """The classes and shares of pairs; all arrays have the shape (R,).

    ``shares`` are fractions of the kernel's default weight. ``used_bytes`` are
    the accounts of the pairs' groups. ``exempt`` pairs keep their weights.
    """

    pairs: tuple[types.ConsumerDisk, ...]
    classes: types.Floats
    shares: types.Floats
    used_bytes: types.Floats
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
        found = [_CURVES[curve](lost) for lost in range(1, count + 1)]
    else:
        found = _parse_thresholds(curve)[:count]
    return tuple(use for use in found if use <= MAX_SCALES)


def _parse_thresholds(curve: str) -> list[float]:
    """Return the thresholds of a list such as ``1,2,4``."""
    try:
        found = [float(text) for text in curve.split(',')]
    except ValueError:
        found = []
    pairs = zip([0.0, *found], found, strict=False)
    if not found or not all(before <= use for before, use in pairs):
        raise exception.ContentionError(
            f'[diskplacer_weights] curve={curve} is neither '
            f'{", ".join(_CURVES)} nor a rising list of thresholds such as '
            '1,2,4'
        )
    return found


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
        self._seek_penalty: int = options.seek_penalty
        self._thresholds = scale_bytes * numpy.array(
            thresholds(
                options.curve, options.classes, tiers.lowest_class(conf)
            )
        )
        self._recovery_bytes = options.idle_recovery * scale_bytes
        # it bounds the time to recover from any use
        self._limit_bytes = max(self._thresholds, default=0.0) + scale_bytes
        # a row for each group on a disk, and one for all exempt pairs
        self._accounts = types.PairTable(
            types.Pairs(),
            used=numpy.zeros(0),
            active=numpy.zeros((0, ACTIVITY_WINDOW), numpy.int64),
        )
        self._align(types.Pairs(), {})

    def compute(
        self,
        sample: types.Sample,
        policies: collections.abc.Mapping[str, tiers.ConsumerPolicy],
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Shares:
        """Add an interval to the accounts and return the shares.

        :param policies: the policies of all consumers.
        """
        if sample.pairs is not self._pairs or policies != self._policies:
            self._align(sample.pairs, policies)
        before = self._accounts
        size = len(before.pairs)
        # the active members of each account
        active = numpy.bincount(self._account, ~sample.idle, size).astype(
            numpy.int64
        )
        moved = (sample.read_bytes + sample.write_bytes) * ~self._exempt
        used = before['used'] + numpy.bincount(self._account, moved, size)
        used = numpy.where(active > 0, used, used - self._recovery_bytes)
        self._accounts = types.PairTable(
            before.pairs,
            used=used.clip(0.0, self._limit_bytes),
            active=numpy.column_stack((before['active'][:, 1:], active)),
        )
        classes = self._compute_classes(seekers)
        together = numpy.maximum(
            self._accounts['active'].max(axis=1)[self._account],
            active[self._account] + sample.idle,
        )
        shares = share(classes, self._classes)
        shares /= numpy.maximum(together, 1)
        return Shares(
            pairs=sample.pairs,
            classes=numpy.where(self._exempt, float(self._classes), classes),
            shares=numpy.where(self._exempt, 1.0, shares),
            used_bytes=self._accounts['used'][self._account],
            exempt=self._exempt,
        )

    def _compute_classes(
        self, seekers: collections.abc.Collection[types.ConsumerDisk]
    ) -> types.Floats:
        lost = numpy.searchsorted(
            self._thresholds, self._accounts['used'], side='right'
        )
        classes = numpy.clip(
            (self._classes - lost)[self._account].astype(numpy.float64),
            self._lowest,
            self._highest,
        )
        rows = [self._rows[pair] for pair in seekers if pair in self._rows]
        if rows:
            # seeks alone do not lead into the idle class
            floor = numpy.maximum(self._lowest[rows], 1.0)
            classes[rows] = numpy.minimum(
                classes[rows],
                numpy.maximum(classes[rows] - self._seek_penalty, floor),
            )
        return classes

    def _align(
        self,
        pairs: types.Pairs,
        policies: collections.abc.Mapping[str, tiers.ConsumerPolicy],
    ) -> None:
        """Align the accounts with pairs; drop those without any pair."""
        found = [policies[key] for key, _ in pairs]
        accounts = [
            _EXEMPT if policy.exempt else (policy.group, disk)
            for policy, (_, disk) in zip(found, pairs, strict=True)
        ]
        rows = {
            account: row for row, account in enumerate(sorted(set(accounts)))
        }
        self._accounts = self._accounts.aligned(types.Pairs(rows))
        self._pairs, self._policies = pairs, policies
        self._rows = {pair: row for row, pair in enumerate(pairs)}
        self._account = numpy.array(
            [rows[account] for account in accounts], dtype=numpy.intp
        )
        self._lowest = numpy.array([float(one.lowest) for one in found])
        self._highest = numpy.array([float(one.highest) for one in found])
        self._exempt = numpy.array([one.exempt for one in found], dtype=bool)
