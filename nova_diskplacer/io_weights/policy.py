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

"""What share of each disk everybody gets next (P4 §IV-D, §IV-F).

Each group has an account of each disk that its members use: what they have
read and written, less what is forgiven for each interval in which none of
them used it. The more is on the account, the lower the class; the class is
the share, and the members who use the disk divide it.
"""

import collections.abc
import dataclasses

import numpy
from oslo_config import cfg

from nova_diskplacer.io_weights import class_thresholds
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.monitor import pair_table
from nova_diskplacer.monitor import types

MB = 10**6

#: Share of class 1. It leaves of a controller's range what the members of a
#: group that is in class 1 can divide.
LEAST = 0.05

#: For how many intervals a group's share stays divided by the most members
#: who used the disk at once, so that bursts by turns gain nothing either.
MEMORY = 10

_EXEMPT = ('', '')


@dataclasses.dataclass(frozen=True)
class Rules:
    """How shares are decided.

    ``classes`` is the number of classes, the highest one. ``scale_bytes`` is
    the scale of the curve, which loses a class at each of ``falls``, in
    scales. ``idle_recovery`` scales are forgiven for each idle interval.
    ``lowest`` is the lowest class, 0 if there is an idle class.
    ``seek_penalty`` is in classes.
    """

    classes: int
    scale_bytes: int
    falls: tuple[float, ...]
    idle_recovery: float
    lowest: int
    seek_penalty: int

    @property
    def limit_bytes(self) -> float:
        """What an account holds at the most: the last fall and a scale more.

        Whatever was used in the past is so forgiven in a bounded time.
        """
        return (max(self.falls, default=0.0) + 1.0) * self.scale_bytes


@dataclasses.dataclass(frozen=True)
class Directives:
    """What is decided for each pair; all arrays have the shape (R,).

    ``shares`` is 0 to 1, of the weight that the kernel gives by default.
    ``cumulative`` is what is on the account of the pair's group, in bytes.
    The weights of those ``exempt`` are to be left alone.
    """

    pairs: tuple[types.ConsumerDisk, ...]
    classes: types.Floats
    shares: types.Floats
    cumulative: types.Floats
    exempt: types.Booleans


def rules(conf: cfg.ConfigOpts) -> Rules:
    """Return the rules that are configured.

    :raises ContentionError: an option is not as it should be, or the curve
        does not work.
    """
    options = conf.diskplacer_weights
    tiers.bounds(conf)
    lowest = tiers.lowest_class(conf)
    return Rules(
        classes=options.classes,
        scale_bytes=options.scale_mb * MB,
        falls=class_thresholds.thresholds(
            options.curve, options.classes, lowest
        ),
        idle_recovery=options.idle_recovery,
        lowest=lowest,
        seek_penalty=options.seek_penalty,
    )


def share(classes: types.Floats, highest: int) -> types.Floats:
    """Return the share of each class: 1 of the highest, ``LEAST`` of class 1.

    That of the idle class is 0.
    """
    lost = (highest - classes) / max(highest - 1, 1)
    return numpy.where(classes < 1.0, 0.0, 1.0 - (1.0 - LEAST) * lost)


def weights(
    shares: types.Floats,
    lo: int | types.Integers,
    top: int | types.Integers,
) -> types.Integers:
    """Return the weights of shares: whole, ``top`` for 1, never below ``lo``.

    They are rounded down, so that shares of a class that is divided are not
    together more than the class.
    """
    # 0.29 * 100 is a little less than 29
    whole = numpy.floor(shares * top + 1e-9).astype(numpy.int64)
    return numpy.maximum(whole, lo)


class Generator:
    """Keeps the accounts and decides, once an interval."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._falls = numpy.array(rules.falls) * rules.scale_bytes
        self._forgiven = rules.idle_recovery * rules.scale_bytes
        self._pairs = types.Pairs()
        self._parties: collections.abc.Mapping[str, tiers.Party] = {}
        # a row for each group on a disk, and one for all exempt consumers
        self._accounts = pair_table.PairTable(
            types.Pairs(),
            used=numpy.zeros(0),
            active=numpy.zeros((0, MEMORY), numpy.int64),
        )
        # by row
        self._rows: dict[types.ConsumerDisk, int] = {}
        self._account = numpy.zeros(0, dtype=numpy.intp)
        self._lowest = numpy.zeros(0)
        self._highest = numpy.zeros(0)
        self._exempt = numpy.zeros(0, dtype=numpy.bool_)

    def decide(
        self,
        sample: types.Sample,
        parties: collections.abc.Mapping[str, tiers.Party],
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Directives:
        """Add an interval to the accounts and return what follows from them.

        :param parties: what each consumer is; one that is missing is a group
            of its own without bounds. Give the same object while nothing has
            changed: another one takes time to look through.
        :param seekers: pairs that are held to seek excessively.
        """
        if (
            sample.pairs.generation != self._pairs.generation
            or parties != self._parties
        ):
            self._align(sample.pairs, parties)
        active = self._count(sample)
        classes = self._classes(seekers)
        together = numpy.maximum(
            self._accounts['active'].max(axis=1)[self._account],
            active[self._account] + sample.idle,
        )
        shares = share(classes, self._rules.classes)
        shares /= numpy.maximum(together, 1)
        return Directives(
            pairs=sample.pairs,
            classes=numpy.where(
                self._exempt, float(self._rules.classes), classes
            ),
            shares=numpy.where(self._exempt, 1.0, shares),
            cumulative=self._accounts['used'][self._account],
            exempt=self._exempt,
        )

    def _count(self, sample: types.Sample) -> types.Integers:
        """Bring accounts up to date; returns who of each is active now."""
        before = self._accounts
        size = len(before.pairs)
        active = numpy.bincount(self._account, ~sample.idle, size).astype(
            numpy.int64
        )
        moved = (sample.read_bytes + sample.write_bytes) * ~self._exempt
        used = before['used'] + numpy.bincount(self._account, moved, size)
        used = numpy.where(active > 0, used, used - self._forgiven)
        self._accounts = pair_table.PairTable(
            before.pairs,
            used=used.clip(0.0, self._rules.limit_bytes),
            active=numpy.column_stack((before['active'][:, 1:], active)),
        )
        return active

    def _classes(
        self, seekers: collections.abc.Collection[types.ConsumerDisk]
    ) -> types.Floats:
        rules = self._rules
        fallen = numpy.searchsorted(
            self._falls, self._accounts['used'], side='right'
        )
        classes = numpy.clip(
            (rules.classes - fallen)[self._account].astype(numpy.float64),
            self._lowest,
            self._highest,
        )
        rows = [self._rows[pair] for pair in seekers if pair in self._rows]
        if rows:
            # seeks alone bring nobody into the idle class
            floor = numpy.maximum(self._lowest[rows], 1.0)
            classes[rows] = numpy.minimum(
                classes[rows],
                numpy.maximum(classes[rows] - rules.seek_penalty, floor),
            )
        return classes

    def _align(
        self,
        pairs: types.Pairs,
        parties: collections.abc.Mapping[str, tiers.Party],
    ) -> None:
        """Have a row for each pair and a column for each of their accounts.

        Accounts that nobody has any more are forgotten.
        """
        found = [self._party(key, parties) for key, _ in pairs]
        accounts = [
            _EXEMPT if party.exempt else (party.group, disk)
            for party, (_, disk) in zip(found, pairs, strict=True)
        ]
        rows = {
            account: row for row, account in enumerate(sorted(set(accounts)))
        }
        self._accounts = self._accounts.aligned(types.Pairs(rows))
        self._pairs, self._parties = pairs, parties
        self._rows = {pair: row for row, pair in enumerate(pairs)}
        self._account = numpy.array(
            [rows[account] for account in accounts], dtype=numpy.intp
        )
        self._lowest = numpy.array([float(one.lowest) for one in found])
        self._highest = numpy.array([float(one.highest) for one in found])
        self._exempt = numpy.array([one.exempt for one in found], dtype=bool)

    def _party(
        self, key: str, parties: collections.abc.Mapping[str, tiers.Party]
    ) -> tiers.Party:
        return parties.get(key) or tiers.Party(
            key, key, self._rules.lowest, self._rules.classes, exempt=False
        )
