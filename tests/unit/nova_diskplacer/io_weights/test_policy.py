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
    tiers = project_tiers = types.MappingProxyType({})

    @property
    def diskplacer_weights(self):
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
    def limit_bytes(self):
        return (max(self.thresholds, default=0.0) + 1) * self.scale_bytes


@functools.cache
def make_config(
    classes=10,
    scale_mb=128,
    curve='linear',
    idle_recovery=0.5,
    lowest=1,
    seek_penalty=5,
):
    return Rules(classes, scale_mb, curve, idle_recovery, lowest, seek_penalty)


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


class Group:
    """One group on one disk, and who of it uses what."""

    def __init__(self, members=1, rules=None, **bounds):
        self.rules = rules or make_config()
        self.generator = policy.SharePolicy(self.rules)
        self.pairs = tuple((str(n), 'disk0') for n in range(members))
        self.parties = {
            key: party(key, 'group', **bounds) for key, _ in self.pairs
        }

    def decide(self, *used, seekers=()):
        round = make_sample(
            dict(zip(self.pairs, used, strict=True)), self.pairs
        )
        return self.generator.compute(round, self.parties, seekers)


rules_of_any_kind = st.builds(
    make_config,
    classes=st.sampled_from([1, 2, 3, 7, 10, 11, 100]),
    scale_mb=st.sampled_from([1, 16, 128]),
    curve=st.sampled_from(['linear', 'logarithmic']),
    idle_recovery=st.sampled_from([0.0, 0.3, 0.5, 3.0]),
    lowest=st.integers(0, 1),
    seek_penalty=st.integers(0, 100),
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
def histories(draw, parties, length=12):
    """Draw rounds in which pairs come and go."""
    every = [(key, disk) for key in parties for disk in DISKS]
    here = tuple(sorted(draw(st.sets(st.sampled_from(every)))))
    found = []
    for _ in range(draw(st.integers(1, length))):
        if draw(st.integers(0, 3)) == 0:
            here = tuple(sorted(draw(st.sets(st.sampled_from(every)))))
        used = {pair: draw(uses) for pair in here}
        seekers = draw(st.sets(st.sampled_from(every)))
        found.append((make_sample(used, here), used, seekers))
    return found


class Reference:
    """The same, pair by pair, in plain words."""

    def __init__(self, rules):
        self.rules = rules
        self.accounts = {}
        self.active = {}

    def compute(self, used, parties, seekers):
        rules = self.rules
        members = {}
        for key, disk in used:
            if not parties[key].exempt:
                account = (parties[key].group, disk)
                members.setdefault(account, []).append((key, disk))
        self.accounts = {a: self.accounts.get(a, 0.0) for a in members}
        self.active = {a: self.active.get(a, []) for a in members}
        found = {}
        for account, pairs in members.items():
            moved = [used[pair] for pair in pairs if used[pair] is not None]
            if moved:
                self.accounts[account] += sum(moved)
            else:
                self.accounts[account] -= (
                    rules.idle_recovery * rules.scale_bytes
                )
            self.accounts[account] = min(
                max(self.accounts[account], 0.0), rules.limit_bytes
            )
            self.active[account] = [*self.active[account], len(moved)][-10:]
            lost = sum(
                self.accounts[account] >= fall * rules.scale_bytes
                for fall in rules.thresholds
            )
            for pair in pairs:
                one = parties[pair[0]]
                level = rules.classes - lost
                level = min(max(level, one.lowest), one.highest)
                if pair in seekers and level > 0:
                    level = max(level - rules.seek_penalty, one.lowest, 1)
                idle = used[pair] is None
                together = max(*self.active[account], len(moved) + idle)
                found[pair] = (level, self.part(level) / together)
        return found

    def part(self, level):
        """Return a class's part: classes are as far apart, from 1/20 to 1."""
        if level in (0, self.rules.classes):
            return level / self.rules.classes
        step = fractions.Fraction(19, 20 * (self.rules.classes - 1))
        return float(fractions.Fraction(1, 20) + (level - 1) * step)


class PropertiesTest(unittest.TestCase):
    @hypothesis.given(st.data(), rules_of_any_kind)
    def test_is_what_the_plain_words_say(self, data, rules):
        parties = data.draw(everybody(rules))
        generator, reference = policy.SharePolicy(rules), Reference(rules)
        for round, used, seekers in data.draw(histories(parties)):
            got = generator.compute(round, parties, seekers)
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
        for round, _, seekers in data.draw(histories(parties)):
            got = generator.compute(round, parties, seekers)
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

    @hypothesis.given(rules_of_any_kind, st.lists(uses, max_size=30))
    def test_falls_with_use_and_rises_with_idleness_only(self, rules, rounds):
        group = Group(rules=rules, highest=rules.classes, lowest=rules.lowest)
        before = rules.classes
        for used in rounds:
            now = group.decide(used).classes[0]
            if used is None:
                self.assertGreaterEqual(now, before)
            else:
                self.assertLessEqual(now, before)
            before = now

    @hypothesis.given(rules_of_any_kind, st.lists(uses, max_size=30))
    def test_recovers(self, rules, rounds):
        """Idle for a bounded time, everybody is where they began."""
        hypothesis.assume(rules.idle_recovery)
        idle = rules.limit_bytes / rules.scale_bytes / rules.idle_recovery
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
            self.assertLessEqual(split.classes.max(), alone.classes.max())
            weights = policy.weights(split.shares)
            allowed = policy.weights(alone.shares)[0]
            self.assertLessEqual(weights.sum(), max(allowed, members))

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
    def test_neither_of_order_nor_of_others(self, data, rules):
        """What one group does on one disk is nothing to any other."""
        parties = data.draw(everybody(rules))
        chosen = data.draw(st.sampled_from(sorted(parties)))
        group = parties[chosen].group
        whole, part = policy.SharePolicy(rules), policy.SharePolicy(rules)
        for round, used, seekers in data.draw(histories(parties)):
            own = {
                (key, disk): value
                for (key, disk), value in used.items()
                if parties[key].group == group and disk == 'disk0'
            }
            all_of_them = whole.compute(round, parties, seekers)
            alone = part.compute(make_sample(own), parties, seekers)
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
        decided = generator.compute(make_sample(used), {'a': party('a')}, ())
        self.assertEqual([1, 10], list(decided.classes))

    def test_a_project_is_idle_when_all_its_servers_are(self):
        group = Group(2)
        self.assertEqual([8, 8], list(group.decide(256 * MB, None).classes))
        self.assertEqual([8, 8], list(group.decide(0, None).classes))
        self.assertEqual([9, 9], list(group.decide(None, None).classes))

    def test_the_share_is_divided_among_those_who_use_the_disk(self):
        group = Group(3)
        self.assertEqual(
            [1, 0.5, 0.5], list(group.decide(0, None, None).shares)
        )
        self.assertEqual(
            [0.5, 0.5, 1 / 3], list(group.decide(0, 0, None).shares)
        )
        # those who have stopped are remembered for a while
        for _ in range(policy.ACTIVITY_WINDOW - 1):
            shares = list(group.decide(0, None, None).shares)
            self.assertEqual([0.5, 0.5, 0.5], shares)
        self.assertEqual(
            [1, 0.5, 0.5], list(group.decide(0, None, None).shares)
        )

    def test_the_exempt_are_neither_weighed_nor_counted(self):
        group = Group(2)
        group.parties['1'] = party('1', 'group', exempt=True)
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
            honest = min(max(10 - use // 128, lowest), highest)
            self.assertEqual([expected, honest], list(decided.classes))

    def test_the_idle_class(self):
        """The next after the lowest, and the first to be left."""
        rules = make_config(lowest=0)
        group = Group(rules=rules, lowest=0)
        decided = group.decide(1279 * MB)
        self.assertEqual(1, decided.classes[0])
        self.assertEqual([5], policy.weights(decided.shares))
        decided = group.decide(MB)
        self.assertEqual(0, decided.classes[0])
        self.assertEqual([1], policy.weights(decided.shares))
        self.assertEqual(1, group.decide(None).classes[0])

    def test_bounds_of_a_tier_may_change(self):
        """A resize does not make one begin anew."""
        group = Group()
        self.assertEqual(6, group.decide(512 * MB).classes[0])
        group.parties = {'0': party('0', 'group', highest=4)}
        self.assertEqual(4, group.decide(0).classes[0])
        group.parties = {'0': party('0', 'group')}
        self.assertEqual(6, group.decide(0).classes[0])

    def test_who_leaves_is_forgotten(self):
        group = Group()
        group.decide(10**12)
        group.generator.compute(make_sample({}), group.parties, ())
        self.assertEqual(10, group.decide(0).classes[0])

    def test_a_share_for_each_class(self):
        """The table of the administration guide."""
        for highest, expected in (
            (1, [100]),
            (2, [5, 100]),
            (3, [5, 52, 100]),
            (10, [5, 15, 26, 36, 47, 57, 68, 78, 89, 100]),
            (20, list(range(5, 105, 5))),
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
        """Five who use the disk weigh no more than one."""
        for members, weight in ((1, 5), (2, 2), (3, 1), (5, 1)):
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
        return policy.SharePolicy(self.conf).compute(
            make_sample(pairs), {'a': party('a')}, {('a', 'disk0')}
        )

    def test_defaults_are_the_papers(self):
        """P4 §IV-D, §V-A; the paper has no figure for the seek penalty."""
        options = self.conf.diskplacer_weights
        for name, value in vars(make_config()).items():
            if name != 'lowest':
                self.assertEqual(value, options[name])
        self.assertFalse(options.idle_class)

    def test_everything(self):
        self._set(
            classes=4,
            scale_mb=20,
            curve='logarithmic',
            idle_recovery=2.0,
            idle_class=True,
            seek_penalty=1,
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
