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

"""Tests of the directive generator, most of them property-based."""

import dataclasses
import fractions
import functools
import math
import types
import unittest

import hypothesis
import numpy
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from nova_diskplacer import conf as conf_
from nova_diskplacer import exception
from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import tiers
from tests.unit.nova_diskplacer.monitor import samples

MB = 10**6
DISKS = ('disk0', 'disk1')


@dataclasses.dataclass(frozen=True)
class Rules:
    """Options of [diskplacer_weights], and of which no other is needed."""

    classes: int
    scale_mb: int
    curve: str
    idle_recovery: float
    lowest: int
    seek_penalty: int
    use_window: float
    interval: float
    tiers = project_tiers = types.MappingProxyType({})

    @property
    def diskplacer_weights(self):
        return self

    @property
    def diskplacer_monitor(self):
        return self

    @property
    def idle_class(self):
        return not self.lowest

    @property
    def scale_bytes(self):
        return self.scale_mb * MB

    @property
    def thresholds(self):
        return policy.thresholds(self.curve, self.classes, self.lowest)

    @property
    def intervals(self):
        """How many intervals are remembered."""
        return max(1, round(self.use_window / self.interval))

    @property
    def penalty(self):
        """The classes that seekers lose."""
        return math.ceil(self.seek_penalty * self.classes / 100)

    @property
    def limit_bytes(self):
        return (max(self.thresholds, default=0.0) + 1) * self.scale_bytes


@functools.cache
def make_config(
    classes=10,
    scale_mb=128,
    curve='linear',
    idle_recovery=0.5,
    lowest=1,
    seek_penalty=50,
    use_window=20.0,
    interval=1.0,
):
    return Rules(
        classes,
        scale_mb,
        curve,
        idle_recovery,
        lowest,
        seek_penalty,
        use_window,
        interval,
    )


def party(key, group=None, lowest=1, highest=10, exempt=False):
    return tiers.ConsumerPolicy(group or key, lowest, highest, exempt)


def make_sample(used, pairs=None, seconds=1.0):
    """Return a sample of the bytes of each pair; None is idle."""
    if pairs is None:
        pairs = tuple(sorted(used))
    moved = numpy.array([used[pair] or 0 for pair in pairs], dtype=int)
    return samples.make_sample(
        pairs,
        seconds=seconds,
        read_bytes=moved - moved // 2,
        write_bytes=moved // 2,
        reads=moved // 4096,
        writes=moved // 4096,
        idle=numpy.array([used[pair] is None for pair in pairs], dtype=bool),
    )


def compute(generator, round, parties, seekers=()):
    """Return the shares after a sample, of which each byte counts."""
    used = (round.read_bytes + round.write_bytes).astype(float)
    return generator.compute(round, used, parties, seekers)


class Group:
    """One group on one disk, and who of it uses what.

    Another one has a server there that does nothing.
    """

    def __init__(self, members=1, rules=None, **bounds):
        self.rules = rules or make_config()
        self.generator = policy.SharePolicy(self.rules)
        self.pairs = tuple((f'{n:02d}', 'disk0') for n in range(members))
        self.parties = {
            key: party(key, 'group', **bounds) for key, _ in self.pairs
        } | {'other': party('other')}

    def decide(self, *used, seekers=()):
        used = dict(zip(self.pairs, used, strict=True))
        round = make_sample(
            {**used, ('other', 'disk0'): None},
            (*self.pairs, ('other', 'disk0')),
            self.rules.interval,
        )
        found = compute(self.generator, round, self.parties, seekers)
        return policy.Shares(
            **{name: column[:-1] for name, column in vars(found).items()}
        )


rules_of_any_kind = st.builds(
    make_config,
    classes=st.sampled_from([1, 2, 3, 7, 10, 11, 100]),
    scale_mb=st.sampled_from([1, 16, 128]),
    curve=st.sampled_from(['linear', 'logarithmic']),
    idle_recovery=st.sampled_from([0.0, 0.3, 0.5, 3.0]),
    lowest=st.integers(0, 1),
    seek_penalty=st.integers(0, 100),
    use_window=st.sampled_from([1.0, 3.0, 20.0, 1000.0]),
    interval=st.sampled_from([0.5, 1.0, 5.0]),
)

uses = st.one_of(st.none(), st.integers(0, 300), st.integers(300, 5000)).map(
    lambda mb: mb if mb is None else mb * MB
)


@st.composite
def everybody(draw, rules):
    """Draw parties that have bounds such as tiers give them."""
    found = {}
    for number in range(draw(st.integers(1, 6))):
        ends = sorted(
            draw(st.tuples(*[st.integers(rules.lowest, rules.classes)] * 2))
        )
        key = f'server{number}'
        found[key] = party(
            key,
            draw(st.sampled_from(['red', 'blue', key])),
            ends[0],
            max(ends[1], 1),
            draw(st.integers(0, 4)) == 0,
        )
    return found


@st.composite
def histories(draw, rules, parties, length=12):
    """Draw rounds in which pairs come and go."""
    every = [(key, disk) for key in parties for disk in DISKS]
    here = tuple(sorted(draw(st.sets(st.sampled_from(every)))))
    found = []
    for _ in range(draw(st.integers(1, length))):
        if draw(st.integers(0, 3)) == 0:
            here = tuple(sorted(draw(st.sets(st.sampled_from(every)))))
        used = {pair: draw(uses) for pair in here}
        seekers = draw(st.sets(st.sampled_from(every)))
        found.append((make_sample(used, here, rules.interval), used, seekers))
    return found


class Account:
    """What somebody uses of a disk."""

    def __init__(self, rules):
        self.rules = rules
        self.used = 0.0
        self.moved = []

    def add(self, moved, users):
        """Add an interval, in which None is without any use."""
        rules = self.rules
        self.moved = [*self.moved, moved or 0][-rules.intervals :]
        if moved is None:
            moved = -rules.idle_recovery * rules.scale_bytes * rules.interval
        self.used = min(
            max(self.used + moved, 0.0),
            users * sum(self.moved),
            rules.limit_bytes,
        )

    def level(self, one):
        lost = sum(
            self.used >= fall * self.rules.scale_bytes
            for fall in self.rules.thresholds
        )
        return min(max(self.rules.classes - lost, one.lowest), one.highest)


class Reference:
    """The same, pair by pair, in plain words."""

    def __init__(self, rules):
        self.rules = rules
        self.pairs = {}
        self.groups = {}
        # for each pair, if it was active in each interval
        self.active = {}

    def compute(self, used, parties, seekers):
        rules = self.rules
        members = {}
        for key, disk in used:
            if not parties[key].exempt:
                members.setdefault((parties[key].group, disk), []).append(
                    (key, disk)
                )
        counted = [pair for pairs in members.values() for pair in pairs]
        self.pairs = {
            pair: self.pairs.get(pair) or Account(rules) for pair in counted
        }
        self.groups = {
            group: self.groups.get(group) or Account(rules)
            for group in members
        }
        self.active = {
            pair: [*self.active.get(pair, []), used[pair] is not None]
            for pair in counted
        }
        users = {
            disk: sum(
                any(
                    any(self.active[pair][-rules.intervals :])
                    for pair in pairs
                )
                for (_, at), pairs in members.items()
                if at == disk
            )
            for disk in DISKS
        }
        consumers = {
            disk: sum(
                any(self.active[pair][-rules.intervals :])
                for pair in counted
                if pair[1] == disk
            )
            for disk in DISKS
        }
        for pair in counted:
            self.pairs[pair].add(used[pair], max(consumers[pair[1]], 1))
        for group, pairs in members.items():
            moved = [used[pair] for pair in pairs if used[pair] is not None]
            self.groups[group].add(
                sum(moved) if moved else None, max(users[group[1]], 1)
            )
        found = {}
        for group, pairs in members.items():
            others = {
                (parties[key].exempt, parties[key].group)
                for key, disk in used
                if disk == group[1]
            } - {(False, group[0])}
            for pair in pairs:
                found[pair] = self.decide(
                    group, pair, pairs, parties, pair in seekers, bool(others)
                )
        return found

    def decide(self, group, pair, pairs, parties, seeks, others):
        """Return the class and the share of a member."""
        one = parties[pair[0]]
        level = self.pairs[pair].level(one)
        of_group = self.groups[group].level(one)
        if seeks:
            level, of_group = (
                max(each - self.rules.penalty, one.lowest, 1) if each else 0
                for each in (level, of_group)
            )
        parts = {
            member: self.part(self.pairs[member].level(parties[member[0]]))
            for member in pairs
        }
        sums = [
            sum(
                parts[member]
                for member in pairs
                if [*reversed(self.active[member])][ago : ago + 1] == [True]
            )
            for ago in range(self.rules.intervals)
        ]
        if not self.active[pair][-1]:
            sums[0] += parts[pair]
        if not others:
            return level, self.part(level)
        whole = max(sums)
        share = self.part(of_group) * parts[pair] / whole if whole else 0.0
        return level, share

    def part(self, level):
        """Return a class's part: classes are as far apart, from 1/10 to 1."""
        if level in (0, self.rules.classes):
            return level / self.rules.classes
        step = fractions.Fraction(9, 10 * (self.rules.classes - 1))
        return float(fractions.Fraction(1, 10) + (level - 1) * step)


class PropertiesTest(unittest.TestCase):
    @hypothesis.given(st.data(), rules_of_any_kind)
    def test_is_what_the_plain_words_say(self, data, rules):
        parties = data.draw(everybody(rules))
        generator, reference = policy.SharePolicy(rules), Reference(rules)
        for round, used, seekers in data.draw(histories(rules, parties)):
            got = compute(generator, round, parties, seekers)
            expected = reference.compute(used, parties, seekers)
            self.assertIs(round.pairs, got.pairs)
            for row, pair in enumerate(round.pairs):
                exempt = parties[pair[0]].exempt
                self.assertEqual(exempt, got.exempt[row])
                if exempt:
                    self.assertNotIn(pair, expected)
                    self.assertEqual(rules.classes, got.classes[row])
                    self.assertEqual(1.0, got.shares[row])
                    self.assertEqual(0.0, got.used_bytes[row])
                else:
                    level, share = expected[pair]
                    self.assertEqual(level, got.classes[row])
                    self.assertAlmostEqual(share, got.shares[row])

    @hypothesis.given(st.data(), rules_of_any_kind)
    def test_is_bounded(self, data, rules):
        """Classes stay within tiers, weights within the controller's."""
        parties = data.draw(everybody(rules))
        generator = policy.SharePolicy(rules)
        for round, _, seekers in data.draw(histories(rules, parties)):
            got = compute(generator, round, parties, seekers)
            for row, (key, _) in enumerate(round.pairs):
                one = parties[key]
                if not one.exempt:
                    self.assertGreaterEqual(got.classes[row], one.lowest)
                    self.assertLessEqual(got.classes[row], one.highest)
                self.assertEqual(got.classes[row] % 1, 0)
            weights = policy.weights(got.shares)
            self.assertTrue(((weights >= 1) & (weights <= 100)).all())
            self.assertTrue(
                (got.used_bytes >= 0).all()
                and (got.used_bytes <= rules.limit_bytes).all()
            )

    @hypothesis.given(
        rules_of_any_kind,
        st.lists(st.tuples(uses, st.integers(0, 500)), max_size=30),
    )
    def test_is_monotone(self, rules, rounds):
        """Who uses more than another is never in a higher class."""
        less, more = Group(rules=rules), Group(rules=rules)
        for used, further in rounds:
            first = less.decide(used)
            second = more.decide(None if used is None else used + further * MB)
            self.assertLessEqual(second.classes[0], first.classes[0])
            self.assertLessEqual(second.shares[0], first.shares[0])

    @hypothesis.given(
        rules_of_any_kind,
        st.lists(uses, max_size=30),
        st.integers(0, 300),
    )
    def test_what_is_older_than_the_window_does_not_count(
        self, rules, rounds, steady
    ):
        """Who goes on using a disk forgets in a bounded time, too."""
        hypothesis.assume(rules.intervals <= 100)
        group = Group(rules=rules, highest=rules.classes)
        for used in rounds:
            group.decide(used)
        for _ in range(rules.intervals):
            decided = group.decide(steady * MB)
        self.assertLessEqual(
            decided.used_bytes[0], rules.intervals * steady * MB
        )

    @hypothesis.given(
        rules_of_any_kind,
        st.lists(st.tuples(uses, uses), max_size=30),
        st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted),
    )
    def test_who_uses_less_steadily_is_not_below_who_uses_more(
        self, rules, rounds, rates
    ):
        """For longer than it takes to forget."""
        hypothesis.assume(rules.intervals <= 100)
        generator = policy.SharePolicy(rules)
        parties = {'a': party('a'), 'b': party('b')}
        pairs = tuple((key, 'disk0') for key in parties)
        steady = [(light * MB, heavy * MB) for light, heavy in [rates]]
        for both in rounds + steady * 2 * rules.intervals:
            used = dict(zip(pairs, both, strict=True))
            decided = compute(
                generator, make_sample(used, pairs, rules.interval), parties
            )
        light, heavy = decided.classes
        self.assertGreaterEqual(light, heavy)
        self.assertGreaterEqual(*decided.shares)

    @hypothesis.given(
        st.lists(
            st.tuples(
                *[st.one_of(st.none(), st.integers(0, 200).map(float))] * 3
            ),
            min_size=1,
            max_size=12,
        ),
        st.sampled_from(['linear', 'logarithmic']),
    )
    def test_the_length_of_intervals_does_not_matter(self, rates, curve):
        """What is the same for five seconds, in so many seconds each."""
        found = []
        for interval in (0.5, 1.0, 5.0):
            generator = policy.SharePolicy(
                make_config(interval=interval, curve=curve)
            )
            parties = {
                key: party(key, group)
                for key, group in (('a', 'x'), ('b', 'x'), ('c', 'c'))
            }
            pairs = tuple((key, 'disk0') for key in parties)
            for now in rates:
                used = {
                    pair: rate if rate is None else rate * MB * interval
                    for pair, rate in zip(pairs, now, strict=True)
                }
                round = make_sample(used, pairs, interval)
                for _ in range(int(5 / interval)):
                    decided = compute(generator, round, parties)
            found.append(decided)
        for other in found[1:]:
            numpy.testing.assert_allclose(
                found[0].used_bytes, other.used_bytes, atol=1.0
            )
            numpy.testing.assert_allclose(found[0].shares, other.shares)

    @hypothesis.given(rules_of_any_kind, st.lists(uses, max_size=30))
    def test_recovers(self, rules, rounds):
        """Idle for a bounded time, everybody is where they began."""
        idle = rules.intervals
        if rules.idle_recovery:
            idle = min(
                idle,
                rules.limit_bytes
                / rules.scale_bytes
                / rules.idle_recovery
                / rules.interval,
            )
        hypothesis.assume(idle <= 500)
        group = Group(rules=rules, highest=rules.classes)
        for used in rounds:
            group.decide(used)
        for _ in range(math.ceil(idle)):
            decided = group.decide(None)
        self.assertEqual(rules.classes, decided.classes[0])
        self.assertEqual(1.0, decided.shares[0])
        self.assertEqual(0.0, decided.used_bytes[0])

    @hypothesis.given(
        rules_of_any_kind,
        st.integers(1, 12),
        st.lists(st.integers(0, 3000), min_size=1, max_size=20),
        st.randoms(use_true_random=False),
    )
    def test_splitting_gains_nothing(self, rules, members, rounds, random):
        """Many servers weigh no more than one that does all of their I/O.

        They do as long as the controller can tell their weights apart.
        """
        bounds = {'lowest': rules.lowest, 'highest': rules.classes}
        one = Group(1, rules, **bounds)
        many = Group(members, rules, **bounds)
        for total in rounds:
            cuts = sorted(random.randint(0, total) for _ in range(members - 1))
            ends = zip([0, *cuts], [*cuts, total], strict=True)
            alone = one.decide(total * MB)
            split = many.decide(*[(b - a) * MB for a, b in ends])
            self.assertEqual(
                set(alone.group_classes), set(split.group_classes)
            )
            self.assertLessEqual(split.shares.sum(), alone.shares[0] + 1e-9)
            weights = policy.weights(split.shares)
            allowed = policy.weights(alone.shares)[0]
            # none is below 1
            self.assertLessEqual(weights.sum(), allowed + members)

    @hypothesis.settings(max_examples=300)
    @hypothesis.given(
        st.lists(
            st.one_of(
                st.sets(st.integers(0, 9)),
                st.just(frozenset()),
                st.just(frozenset(range(10))),
            ),
            max_size=60,
        )
    )
    def test_taking_turns_gains_nothing(self, rounds):
        """Whoever uses the disk when, it is one share on average.

        Those who all begin at once are seen an interval later, once.
        """
        group = Group(10, make_config(classes=1))
        shares, given = numpy.ones(10), 0.0
        for active in rounds:
            given += sum(shares[number] for number in active)
            used = [MB if n in active else None for n in range(10)]
            shares = group.decide(*used).shares
        self.assertLessEqual(given, len(rounds) + 10 + 1e-9)

    @hypothesis.given(st.data(), rules_of_any_kind)
    def test_neither_of_order_nor_of_other_disks(self, data, rules):
        """What is done on one disk is nothing to any other."""
        parties = data.draw(everybody(rules))
        whole, part = policy.SharePolicy(rules), policy.SharePolicy(rules)
        for round, used, seekers in data.draw(histories(rules, parties)):
            own = {
                (key, disk): value
                for (key, disk), value in used.items()
                if disk == 'disk0'
            }
            all_of_them = compute(whole, round, parties, seekers)
            alone = compute(
                part,
                make_sample(own, seconds=rules.interval),
                parties,
                seekers,
            )
            for row, pair in enumerate(alone.pairs):
                other = round.pairs.index(pair)
                self.assertEqual(alone.shares[row], all_of_them.shares[other])


class TableTest(unittest.TestCase):
    """What the paper and the options say, figure by figure."""

    def test_a_class_for_each_scale(self):
        """P4 §V-A: weights change after each 128 MB of used_bytes I/O."""
        group = Group()
        classes = [group.decide(64 * MB).classes[0] for _ in range(22)]
        self.assertEqual(
            [10, 9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1]
            + [1],
            classes,
        )

    def test_an_idle_interval_forgives_half_a_scale(self):
        """P4 §IV-D."""
        group = Group()
        self.assertEqual(8, group.decide(256 * MB).classes[0])
        decided = [group.decide(None) for _ in range(4)]
        self.assertEqual([9, 9, 10, 10], [one.classes[0] for one in decided])
        self.assertEqual(
            [192 * MB, 128 * MB, 64 * MB, 0],
            [one.used_bytes[0] for one in decided],
        )

    def test_the_past_is_bounded(self):
        """Not as in the paper: a terabyte is forgiven in 20 intervals."""
        group = Group()
        decided = group.decide(10**12)
        self.assertEqual(1280 * MB, decided.used_bytes[0])
        classes = [group.decide(None).classes[0] for _ in range(20)]
        self.assertEqual([1, 1, 2, 2, 3], classes[:5])
        self.assertEqual([9, 9, 10, 10], classes[-4:])

    def test_classes_are_of_disks(self):
        generator = policy.SharePolicy(make_config())
        used = {('a', 'disk0'): 1280 * MB, ('a', 'disk1'): 0}
        decided = compute(generator, make_sample(used), {'a': party('a')})
        self.assertEqual([1, 10], list(decided.classes))

    def test_a_project_is_idle_when_all_its_servers_are(self):
        group = Group(2)
        decided = group.decide(256 * MB, None)
        self.assertEqual([8, 8], list(decided.group_classes))
        self.assertEqual([8, 10], list(decided.classes))
        decided = group.decide(0, None)
        self.assertEqual([8, 8], list(decided.group_classes))
        decided = group.decide(None, None)
        self.assertEqual([9, 9], list(decided.group_classes))

    def test_members_divide_the_share_by_their_own_classes(self):
        group = Group(3)
        decided = group.decide(1280 * MB, 640 * MB, 0)
        self.assertEqual([1, 1, 1], list(decided.group_classes))
        self.assertEqual([1, 5, 10], list(decided.classes))
        parts = numpy.array([0.1, 0.5, 1.0])
        numpy.testing.assert_allclose(
            0.1 * parts / parts.sum(), decided.shares
        )

    def test_members_of_a_group_alone_on_a_disk_have_their_own_shares(self):
        group = Group(3)
        used = dict(zip(group.pairs, (1280 * MB, 0, None), strict=True))
        decided = compute(group.generator, make_sample(used), group.parties)
        self.assertEqual([1, 1, 1], list(decided.group_classes))
        numpy.testing.assert_allclose([0.1, 1.0, 1.0], decided.shares)

    def test_a_steady_light_server_beside_a_scan(self):
        """Ten minutes of 3 MB/s; the paper's account ends in class 1."""
        generator = policy.SharePolicy(make_config())
        parties = {'light': party('light'), 'scan': party('scan')}
        round = make_sample(
            {('light', 'disk0'): 3 * MB, ('scan', 'disk0'): 160 * MB}
        )
        classes = [
            tuple(compute(generator, round, parties).classes)
            for _ in range(600)
        ]
        self.assertEqual({10}, {light for light, _ in classes})
        self.assertEqual((10, 1), classes[-1])

    def test_a_trickle_after_a_scan(self):
        group = Group()
        for _ in range(15):
            decided = group.decide(160 * MB)
        self.assertEqual(1, decided.classes[0])
        classes = [group.decide(4096).classes[0] for _ in range(20)]
        self.assertEqual([1] * 4, classes[:4])
        self.assertEqual(10, classes[-1])

    def test_reasons(self):
        group = Group(3)
        group.parties['02'] = party('02', 'group', highest=4)
        for used, expected in (
            ((0, 0, None), ['shared in project'] * 2),
            ((128 * MB, 0, 0), ['used much', 'project used much']),
        ):
            reasons = group.decide(*used, seekers=()).reasons
            found = [policy.REASONS[one] for one in reasons]
            self.assertEqual([*expected, 'limit of tier'], found)
        reasons = group.decide(0, 0, 0, seekers={group.pairs[0]}).reasons
        self.assertEqual('seeks much', policy.REASONS[reasons[0]])
        reasons = Group().decide(0).reasons
        self.assertEqual('used little', policy.REASONS[reasons[0]])

    def test_the_share_is_divided_among_those_who_use_the_disk(self):
        group = Group(3)
        self.assertEqual(
            [1, 0.5, 0.5], list(group.decide(0, None, None).shares)
        )
        self.assertEqual(
            [0.5, 0.5, 1 / 3], list(group.decide(0, 0, None).shares)
        )
        # those who have stopped are remembered for a while
        for _ in range(make_config().intervals - 1):
            shares = list(group.decide(0, None, None).shares)
            self.assertEqual([0.5, 0.5, 0.5], shares)
        self.assertEqual(
            [1, 0.5, 0.5], list(group.decide(0, None, None).shares)
        )

    def test_the_exempt_are_neither_weighed_nor_counted(self):
        group = Group(2)
        group.parties['01'] = party('01', 'group', exempt=True)
        decided = group.decide(0, 10**12)
        self.assertEqual([False, True], list(decided.exempt))
        self.assertEqual([10, 10], list(decided.classes))
        self.assertEqual([1, 1], list(decided.shares))
        self.assertEqual([0, 0], list(decided.used_bytes))

    def test_seekers_lose_classes_down_to_their_floor(self):
        for lowest, highest, use, expected in (
            (1, 10, 0, 5),
            (1, 10, 256, 3),
            (1, 10, 1024, 1),
            (4, 10, 0, 5),
            (6, 10, 0, 6),
            (0, 10, 1024, 1),
            (0, 10, 1280, 0),
            (1, 3, 0, 1),
        ):
            group = Group(
                2, make_config(lowest=0), lowest=lowest, highest=highest
            )
            decided = group.decide(use * MB, 0, seekers={group.pairs[0]})
            self.assertEqual([expected, highest], list(decided.classes))
            honest = min(max(10 - use // 128, lowest), highest)
            self.assertEqual([honest] * 2, list(decided.group_classes))
            parts = policy.share(numpy.array([honest, highest]), 10)
            paid = policy.share(numpy.array([expected, honest]), 10)
            numpy.testing.assert_allclose(
                paid * parts / parts.sum(), decided.shares
            )

    def test_the_idle_class(self):
        """The next after the lowest, and the first to be left."""
        rules = make_config(lowest=0)
        group = Group(rules=rules, lowest=0)
        decided = group.decide(1279 * MB)
        self.assertEqual(1, decided.classes[0])
        self.assertEqual([10], policy.weights(decided.shares))
        decided = group.decide(MB)
        self.assertEqual(0, decided.classes[0])
        self.assertEqual([1], policy.weights(decided.shares))
        self.assertEqual(1, group.decide(None).classes[0])

    def test_bounds_of_a_tier_may_change(self):
        """A resize does not make one begin anew."""
        group = Group()
        self.assertEqual(6, group.decide(512 * MB).classes[0])
        group.parties = group.parties | {'00': party('00', 'group', highest=4)}
        self.assertEqual(4, group.decide(0).classes[0])
        group.parties = group.parties | {'00': party('00', 'group')}
        self.assertEqual(6, group.decide(0).classes[0])

    def test_who_leaves_is_forgotten(self):
        group = Group()
        group.decide(10**12)
        compute(group.generator, make_sample({}), group.parties)
        self.assertEqual(10, group.decide(0).classes[0])

    def test_a_share_for_each_class(self):
        """The table of the administration guide."""
        for highest, expected in (
            (1, [100]),
            (2, [10, 100]),
            (3, [10, 55, 100]),
            (10, list(range(10, 110, 10))),
            (91, list(range(10, 101))),
        ):
            with self.subTest(highest):
                classes = numpy.arange(1.0, highest + 1)
                shares = policy.share(classes, highest)
                self.assertEqual(1.0, shares[-1])
                self.assertEqual(expected, list(policy.weights(shares)))

    def test_no_share_for_the_idle_class(self):
        for highest in (1, 2, 10, 100):
            share = policy.share(numpy.zeros(1), highest)
            self.assertEqual([0.0], list(share))
            self.assertEqual([1], list(policy.weights(share)))

    def test_the_lowest_class_leaves_a_project_something_to_divide(self):
        """Ten who use the disk weigh no more than one."""
        for members, weight in ((1, 10), (2, 5), (3, 3), (5, 2), (10, 1)):
            decided = Group(members).decide(*[1280 * MB] * members)
            self.assertEqual(
                [weight] * members,
                list(policy.weights(decided.shares)),
            )

    def test_weights_are_whole_and_rounded_down(self):
        shares = numpy.arange(101) / 100
        self.assertEqual([1, *range(1, 101)], list(policy.weights(shares)))
        self.assertEqual([33], policy.weights(numpy.array([1 / 3])))


class RulesTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        self.config = config_fixture.Config(self.conf)
        self.config.setUp()
        self.addCleanup(self.config.cleanUp)
        conf_.register_opts(self.conf)

    def _set(self, **values):
        self.config.config(group='diskplacer_weights', **values)

    def decide(self, used):
        """Return what one without limits gets after this use of a disk."""
        pairs = {('a', 'disk0'): used}
        return compute(
            policy.SharePolicy(self.conf),
            make_sample(pairs),
            {'a': party('a')},
            {('a', 'disk0')},
        )

    def test_defaults_are_the_papers(self):
        """P4 §IV-D, §V-A; the paper has no figure for the seek penalty."""
        options = self.conf.diskplacer_weights
        for name, value in vars(make_config()).items():
            if name not in ('lowest', 'interval'):
                self.assertEqual(value, options[name])
        self.assertFalse(options.idle_class)

    def test_everything(self):
        self._set(
            classes=4,
            scale_mb=20,
            curve='logarithmic',
            idle_recovery=2.0,
            idle_class=True,
            seek_penalty=25,
        )
        decided = self.decide(100 * MB)
        self.assertEqual([1], list(decided.classes))
        self.assertEqual([100 * MB], list(decided.used_bytes))
        decided = self.decide(10**12)
        self.assertEqual([17 * 20 * MB], list(decided.used_bytes))

    def test_bad_options_are_told_at_once(self):
        self._set(curve='cubic')
        with self.assertRaisesRegex(
            exception.ContentionError,
            r'curve=cubic is neither linear, logarithmic nor a rising',
        ):
            policy.SharePolicy(self.conf)
        self._set(curve='linear', project_tiers={'p': 'gold'})
        with self.assertRaisesRegex(
            exception.ContentionError, 'gold of project p is not one of'
        ):
            policy.SharePolicy(self.conf)


class CurvesTest(unittest.TestCase):
    def test_linear(self):
        """P4 §IV-D: w = max(N - C/S, 1), or 0 with the idle class."""
        for classes, lowest, count in ((10, 1, 9), (10, 0, 10), (100, 1, 99)):
            self.assertEqual(
                tuple(range(1, count + 1)),
                policy.thresholds('linear', classes, lowest),
            )
        self.assertEqual((), policy.thresholds('linear', 1, 1))

    def test_logarithmic(self):
        """P4 §IV-D: w = max(N - lg(C/S), 1)."""
        self.assertEqual(
            (2, 4, 8, 16, 32, 64, 128, 256, 512),
            policy.thresholds('logarithmic', 10, 1),
        )

    def test_logarithmic_ends_at_the_limit(self):
        found = policy.thresholds('logarithmic', 100, 1)
        self.assertEqual(10, len(found))
        self.assertEqual(policy.MAX_SCALES, found[-1])

    @hypothesis.given(
        st.integers(1, 100), st.integers(0, 1), st.integers(0, 1 << 14)
    )
    @hypothesis.settings(max_examples=50)
    def test_thresholds_follow_the_formulas(self, classes, lowest, sixteenths):
        use = sixteenths / 16
        formulas = {
            'linear': classes - use,
            'logarithmic': classes - math.log2(max(use, 1.0)),
        }
        for curve, exact in formulas.items():
            found = policy.thresholds(curve, classes, lowest)
            lost = sum(use >= threshold for threshold in found)
            # a fraction counts as the class above it
            self.assertEqual(
                max(math.ceil(exact), lowest), classes - lost, (curve, use)
            )


class ListTest(unittest.TestCase):
    def test_list(self):
        self.assertEqual(
            (1.0, 2.5, 2.5, 8.0),
            policy.thresholds('1, 2.5,2.5,8', 10, 1),
        )

    def test_more_than_classes(self):
        self.assertEqual((0.0, 2.0), policy.thresholds('0,2,4', 3, 1))

    def test_beyond_the_limit(self):
        self.assertEqual((1.0,), policy.thresholds('1,2000,inf', 10, 1))

    def test_invalid(self):
        for curve in ('', 'steep', '1,', '2,1', '-1,2', 'nan', '1,nan,2'):
            with self.assertRaisesRegex(
                exception.ContentionError,
                f'curve={curve} is neither linear, logarithmic nor a rising',
            ):
                policy.thresholds(curve, 10, 1)
