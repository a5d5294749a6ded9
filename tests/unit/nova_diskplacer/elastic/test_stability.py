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

"""No load makes a vdisk oscillate."""

import math

import hypothesis
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.elastic import simulation
from tests.unit.nova_diskplacer.elastic import hosts

SETUP = simulation.Setup(
    size_gb=1, minimum=1, maximum=4, mbps=1000.0, medium='ssd'
)
WHOLE = SETUP.maximum * SETUP.mbps

# K and L of the policy
LEVELS = hosts.QUICK.levels
LONGEST = hosts.QUICK.narrow_after_max

TIMES = st.floats(1, 1500)
DEMANDS = st.floats(0, 1.2 * WHOLE)
EXAMPLES = hosts.EXAMPLES


def simulate(load, seconds, settings=hosts.QUICK):
    """Return the moves of a load, each with the time when it began."""
    steps = simulation.run(load, SETUP, seconds, settings)
    return [
        (step.at + step.seconds, step.began) for step in steps if step.began
    ]


def turns(moves):
    """Return when the vdisk was narrowed first after it was widened."""
    found, wide = [], True
    for at, move in moves:
        if not move.widens and wide:
            found.append(at)
        wide = move.widens
    return found


def most_turns(seconds):
    """Return the bound that the policy states."""
    return LEVELS * (1 + math.floor(seconds / LONGEST))


class AnyLoadTest(testtools.TestCase):
    def assert_bounded(self, load, seconds):
        moves = simulate(load, seconds)
        self.assertTrue(len(turns(moves)) <= most_turns(seconds))
        # and not only in the end
        for at in turns(moves):
            later = [one for one in turns(moves) if at <= one < at + LONGEST]
            self.assertTrue(len(later) <= LEVELS)
        for (begin, move), (then, _) in zip(moves, moves[1:], strict=False):
            least = move.seconds + hosts.QUICK.min_interval
            self.assertTrue(then - begin >= least)
        return moves

    @given(st.lists(st.builds(simulation.Span, TIMES, DEMANDS), max_size=12))
    @EXAMPLES
    def test_any_series(self, spans):
        load = simulation.Series(tuple(spans))
        self.assert_bounded(load, load.seconds)

    @given(TIMES, TIMES, DEMANDS)
    @EXAMPLES
    def test_any_period(self, on, off, mbps):
        self.assert_bounded(simulation.Period(on, off, mbps), 6000)

    @given(st.floats(0.75, 0.85), st.floats(0.27, 0.33), st.floats(5, 100))
    @EXAMPLES
    def test_at_the_thresholds(self, high, low, half):
        """The load is about both thresholds of whatever width it finds."""

        def load(start, end, width):
            is_high = (start // half) % 2 == 0
            share = high * width if is_high else low * width / 2
            return share * SETUP.mbps

        self.assert_bounded(load, 6000)

    @given(st.floats(0, 100), st.floats(0, 100))
    @EXAMPLES
    def test_adversary(self, patience, delay):
        """The load does the opposite of what the width suits, when it does.

        It comes back ``patience`` seconds after a narrowing, and stops
        ``delay`` seconds after the vdisk is at its widest.
        """
        since = {'width': 1, 'at': 0.0}

        def load(start, end, width):
            if width != since['width']:
                since.update(width=width, at=start)
            waited = start - since['at']
            if width == SETUP.minimum:
                return WHOLE if waited >= patience else 0.0
            return WHOLE if width < 4 or waited < delay else 0.0

        moves = self.assert_bounded(load, 6000)
        # it does succeed as often as the longest time of quiet permits
        self.assertTrue(len(turns(moves)) >= 6000 / (LONGEST + 400))

    def test_adversary_without_doublings(self):
        def load(start, end, width):
            return WHOLE if width < 4 else 0.0

        often = len(turns(simulate(load, 6000)))
        settings = hosts.changed(narrow_after_max=60)
        self.assertTrue(len(turns(simulate(load, 6000, settings))) > 2 * often)


class SteadyLoadTest(testtools.TestCase):
    @given(DEMANDS)
    @EXAMPLES
    def test_only_widens(self, mbps):
        moves = simulate(lambda start, end, width: mbps, 2000)
        self.assertEqual([], turns(moves))
        self.assertTrue(len(moves) <= 2)

    @given(st.floats(0, 9), st.floats(1, 9), DEMANDS)
    @EXAMPLES
    def test_faster_than_an_interval(self, on, off, mbps):
        moves = simulate(simulation.Period(on + 0.1, off, mbps), 2000)
        self.assertEqual([], turns(moves))


class ManyVDisksTest(testtools.TestCase):
    @given(
        st.lists(st.floats(0, 2), min_size=2, max_size=6),
        st.lists(st.floats(0, 0.6), min_size=4, max_size=4),
    )
    @hypothesis.settings(EXAMPLES, derandomize=True)
    def test_steady_loads_settle(self, uses, others):
        """Vdisks that begin on one disk spread over a host, and stay.

        A move of one may change what another one wants, but not for long.
        Nothing proves that, so these are always the same examples.
        """
        vdisks = {f'v{number}': use for number, use in enumerate(uses)}
        cloud = hosts.Host(
            dict.fromkeys(vdisks, hosts.vdisk('a')), disks='abcd'
        )
        cloud.others = dict(zip('abcd', others, strict=True))
        moves = []
        for number in range(600):
            parts = {
                uuid: use / cloud.vdisks[uuid].width
                for uuid, use in vdisks.items()
            }
            if cloud.observe(**parts).move:
                moves.append(number)
                cloud.finish()
        self.assertEqual([], [number for number in moves if number > 400])


class PeriodicLoadTest(testtools.TestCase):
    @given(st.floats(100, 600), st.floats(1, LONGEST - 1))
    @EXAMPLES
    def test_narrows_in_few_pauses(self, on, off):
        period = on + off
        moves = simulate(simulation.Period(on, off, WHOLE), 12 * period)
        pauses = {int(at // period) for at in turns(moves)}
        self.assertTrue(len(pauses) <= LEVELS)

    @given(st.integers(14, 60), st.integers(1, 47))
    @EXAMPLES
    def test_settles(self, on, off):
        """Every pause has the same intervals here, so the first ones decide.

        Else one that begins with an interval may be quiet for longer than
        those before it. The load is long enough for two moves.
        """
        period = 10.0 * (on + off)
        load = simulation.Period(10.0 * on, 10.0 * off, WHOLE)
        steps = simulation.run(load, SETUP, 8 * period, hosts.QUICK)
        settled = [one for one in steps if one.at > (LEVELS + 1) * period]
        self.assertEqual({(4, None)}, {(s.width, s.target) for s in settled})

    @given(st.floats(100, 600), st.floats(2 * LONGEST + 100, 3000))
    @EXAMPLES
    def test_turns_in_each_long_pause(self, on, off):
        period = on + off
        moves = simulate(simulation.Period(on, off, WHOLE), 5 * period)
        pauses = [int(at // period) for at in turns(moves)]
        self.assertEqual([0, 1, 2, 3, 4], pauses)
