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

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.io_weights import turns

MBPS = 150.0
SERVERS = frozenset({'scan', 'light'})


def lost(turn_s, seek_s):
    """Return what a disk loses that seeks for so long after each turn."""
    return seek_s / (turn_s + seek_s)


def step(trial, throughput, busy, seconds, allowed, servers=SERVERS):
    """Return the trial after an interval, as the manager has it."""
    if not turns.is_counted(throughput, busy, queue=0.5, has_trial=True):
        return turns.pause(trial, seconds, below_limit=True)
    return turns.step(
        trial, throughput, seconds, turns.TURNS_S, allowed, servers
    )


def run(trial, seek_s, allowed, seconds, own_lost=0.0, busy=1.0):
    """Yield the trial after each interval of a second on a simulated disk."""
    for _ in range(seconds):
        share = 1 - (
            own_lost
            if trial.choice is None
            else lost(turns.TURNS_S[trial.choice], seek_s)
        )
        trial = step(trial, share * MBPS, busy, 1.0, allowed)
        yield trial


def last(*arguments, **options):
    *_, trial = run(*arguments, **options)
    return trial


class StepTest(unittest.TestCase):
    def test_a_short_load_is_not_tried(self):
        for trial in run(turns.Trial(1), 0.016, 0.2, seconds=19):
            self.assertEqual(1, trial.choice)
            self.assertIsNone(trial.lost)

    def test_a_disk_that_is_not_at_its_limit_is_not_tried(self):
        trial = last(turns.Trial(1), 0.016, 0.2, seconds=1000, busy=0.8)
        self.assertEqual(
            turns.Trial(1), dataclasses.replace(trial, paused_s=0.0)
        )

    def test_without_seeks_the_shortest_turns_are_kept(self):
        for first in (None, 1, 4):
            trial = last(turns.Trial(first), 0.0, 0.02, seconds=26)
            self.assertEqual((0, 0.0), (trial.choice, trial.lost))

    def test_turns_that_cost_too_much_are_taken_back(self):
        """A turn of 50 ms costs a quarter, one of 100 ms 14 %."""
        trial = last(turns.Trial(1), 0.016, 0.2, seconds=40)
        self.assertEqual(4, trial.choice)
        self.assertAlmostEqual(lost(0.1, 0.016), trial.lost)
        trial = last(turns.Trial(1), 0.016, 0.6, seconds=40)
        self.assertEqual(1, trial.choice)

    def test_bfqs_own_settings_are_kept_if_all_turns_cost_too_much(self):
        trial = last(turns.Trial(1), 0.016, 0.02, seconds=40)
        self.assertIsNone(trial.choice)
        self.assertEqual(0.0, trial.lost)

    def test_turns_are_compared_with_bfqs_own_settings(self):
        """Servers that read at random places cost as much with those."""
        trial = last(turns.Trial(1), 0.016, 0.2, seconds=40, own_lost=0.9)
        self.assertEqual(0, trial.choice)

    def test_a_load_that_stays_is_tried_ever_less_often(self):
        seconds_own = sum(
            trial.choice is None
            for trial in run(turns.Trial(1), 0.0, 0.2, seconds=3000)
        )
        # three seconds each after 20, 60, 120, 240, 480, 960 and 960
        self.assertEqual(7 * 3, seconds_own)

    def test_another_result_is_soon_tried_again(self):
        trial = last(turns.Trial(1), 0.0, 0.2, seconds=3000)
        self.assertEqual((0, 960.0), (trial.choice, trial.kept_s))
        for seek_s, choice, limit_s in ((0.016, 4, 980), (0.0, 0, 80)):
            trial = next(
                trial
                for trial in run(trial, seek_s, 0.2, seconds=limit_s)
                if trial.left_s is not None and trial.choice == choice
            )
            self.assertEqual(60.0, trial.kept_s)
            self.assertEqual(max(60.0, trial.rest_s), trial.left_s)

    def test_another_load_is_not_compared_with_the_one_before(self):
        """The disk had a fifth of its throughput when the trial began."""
        before = last(turns.Trial(1), 0.0, 0.2, seconds=20)
        self.assertIsNone(before.left_s)
        trial = last(before, 0.016, 0.2, seconds=3, own_lost=0.8)
        for seconds, choice in ((5, 0), (10, 1)):
            paused = trial
            for _ in range(seconds):
                paused = turns.pause(paused, 1.0)
            self.assertEqual(choice, paused.choice)
        self.assertEqual(60.0, paused.left_s)
        self.assertEqual(4, last(paused, 0.016, 0.2, seconds=80).choice)

    def test_a_load_after_a_long_pause_is_soon_tried(self):
        """The one before had turns for nothing, these cost the disk much."""
        trial = last(turns.Trial(1), 0.0, 0.2, seconds=3000)
        self.assertGreater(trial.left_s, 300.0)
        for pause_s, tried_after_s in ((290, trial.left_s), (300, 20.0)):
            paused = trial
            for _ in range(pause_s):
                paused = turns.pause(paused, 1.0)
            self.assertEqual((0, 0.0), (paused.choice, paused.lost))
            self.assertEqual(tried_after_s, paused.left_s)
        # nor is a pause before a trial one of the trial
        begun = turns.Trial(0, left_s=1.0, paused_s=200.0)
        begun = last(begun, 0.0, 0.2, seconds=1)
        self.assertEqual((None, 0.0), (begun.left_s, begun.paused_s))
        # pauses that are interrupted do not add up
        for _ in range(3):
            for _ in range(290):
                trial = turns.pause(trial, 1.0)
            trial = last(trial, 0.0, 0.2, seconds=1)
        self.assertGreater(trial.left_s, 300.0)

    def test_pauses_add_up_only_between_intervals_that_count(self):
        trial = last(turns.Trial(1), 0.0, 0.02, seconds=20)
        for _ in range(6):
            for _ in range(6):
                trial = turns.pause(trial, 1.0)
            trial = last(trial, 0.0, 0.02, seconds=1)
        self.assertEqual((0, 0.0), (trial.choice, trial.lost))

    def test_a_trial_of_other_servers_that_is_given_up_comes_again(self):
        trial = last(turns.Trial(1), 0.0, 0.2, seconds=3000)
        other = SERVERS | {'other'}
        trial = step(trial, MBPS, 1.0, 1.0, 0.2, other)
        self.assertIsNone(trial.left_s)
        for _ in range(3):
            trial = step(trial, MBPS, 1.0, 1.0, 0.2, other)
        for _ in range(10):
            trial = turns.pause(trial, 1.0)
        self.assertEqual((0, 960.0), (trial.choice, trial.left_s))
        for seconds in range(60):
            self.assertIsNotNone(trial.left_s, seconds)
            trial = step(trial, MBPS, 1.0, 1.0, 0.2, other)
        self.assertIsNone(trial.left_s)

    def test_a_server_that_comes_after_the_reference_is_not_known(self):
        """What turns cost with it cannot be told from that reference."""
        trial = last(turns.Trial(1), 0.0, 0.2, seconds=20)
        other = SERVERS | {'other'}
        trial = step(trial, MBPS / 8, 1.0, 30.0, 0.2, SERVERS)
        trial = step(trial, MBPS, 1.0, 30.0, 0.2, other)
        self.assertEqual((0, SERVERS), (trial.choice, trial.servers))
        trial = step(trial, MBPS, 1.0, 30.0, 0.2, other)
        self.assertIsNotNone(trial.left_s)
        trial = step(trial, MBPS, 1.0, 30.0, 0.2, other)
        self.assertIsNone(trial.left_s)

    def test_a_disk_rests_by_what_a_trial_has_cost(self):
        """But none follows another one within a minute."""
        for seek_s, allowed, tried in (
            (0.0, 0.2, 1),
            (0.016, 0.2, 5),
            (0.1, 0.2, 5),
            (0.0, 0.02, 1),
            (0.016, 0.02, 5),
            (0.0, 0.6, 1),
        ):
            ended = next(
                trial
                for trial in run(turns.Trial(1), seek_s, allowed, seconds=50)
                if trial.lost is not None
            )
            lost_s = sum(
                3 * lost(turn, seek_s) for turn in turns.TURNS_S[:tried]
            )
            self.assertAlmostEqual(
                max(60.0, lost_s / (allowed / 2)), ended.rest_s
            )

    def test_no_trial_comes_before_the_rest_is_over(self):
        """Even if the last one had another result than the one before."""
        trial = last(turns.Trial(1), 0.1, 0.02, seconds=40)
        self.assertGreater(trial.rest_s, 960.0)
        self.assertEqual((60.0, trial.rest_s), (trial.kept_s, trial.left_s))
        trial = last(turns.Trial(1), 0.1, 0.02, seconds=37)
        for _ in range(10):
            trial = turns.pause(trial, 1.0)
        self.assertGreater(trial.rest_s, 900.0)
        self.assertEqual((60.0, trial.rest_s), (trial.kept_s, trial.left_s))

    def test_a_trial_that_is_given_up_was_not_the_last_one(self):
        """What was kept before stays, and for as long as before."""
        before = last(turns.Trial(1), 0.0, 0.2, seconds=300)
        trial = last(before, 0.0, 0.2, seconds=130)
        trial = last(trial, 0.0, 0.2, seconds=15, busy=0.5)
        self.assertEqual(
            (0, 0.0, before.kept_s), (trial.choice, trial.lost, trial.kept_s)
        )

    def test_a_load_that_ends_in_the_reference_takes_no_result(self):
        """It was at its limit with BFQ's own settings, too."""
        before = last(turns.Trial(1), 0.0, 0.2, seconds=26)
        trial = last(before, 0.0, 0.2, seconds=int(before.left_s) + 2)
        self.assertEqual((None, None), (trial.left_s, trial.choice))
        trial = last(trial, 0.0, 0.2, seconds=10, busy=0.5)
        self.assertEqual(
            (0, 0.0, before.kept_s), (trial.choice, trial.lost, trial.kept_s)
        )

    def test_turns_that_take_a_disk_to_its_limit_are_not_kept(self):
        """It does more at once than one request, and has time left then."""
        trial = turns.Trial(1, left_s=1.0)
        choices = []
        for _ in range(300):
            throughput, busy = (
                (60.0, 0.7) if trial.choice is None else (40.0, 1.0)
            )
            trial = step(trial, throughput, busy, 1.0, 0.2)
            choices.append(trial.choice)
        self.assertEqual({None}, {*choices})

    def test_a_disk_that_does_nothing_tells_nothing(self):
        trial = last(turns.Trial(1), 0.0, 0.2, seconds=20)
        trial = last(trial, 0.0, 0.2, seconds=9, own_lost=1.0)
        self.assertIsNone(trial.choice)
        self.assertIsNone(trial.lost)

    def test_a_step_takes_three_seconds_or_an_interval(self):
        for seconds, intervals in ((0.2, 15), (0.5, 6), (1.0, 3), (10.0, 1)):
            trial = turns.Trial(1, left_s=None)
            trial = dataclasses.replace(trial, choice=None)
            calls = 0
            while trial.choice is None:
                # what is in flight when a step begins
                mbps = 9e9 if calls * seconds < 0.9 and intervals > 1 else MBPS
                trial = step(trial, mbps, 1.0, seconds, 0.2)
                calls += 1
            self.assertEqual(intervals, calls)
            self.assertAlmostEqual(MBPS, trial.reference)

    @given(
        seek_s=st.floats(0.0, 0.2),
        allowed=st.sampled_from(sorted(turns.ALLOWED.values())),
        first=st.sampled_from([None, 0, 1, 4]),
        own=st.floats(0.0, 0.9),
        calls=st.integers(40, 400),
    )
    def test_what_is_kept_costs_no_more_than_allowed(
        self, seek_s, allowed, first, own, calls
    ):
        for trial in run(
            turns.Trial(first), seek_s, allowed, calls, own_lost=own
        ):
            if trial.left_s is None or trial.lost is None:
                continue
            costs = [
                1 - (1 - lost(turn_s, seek_s)) / (1 - own)
                for turn_s in turns.TURNS_S
            ]
            if trial.choice is None:
                self.assertTrue(all(cost > allowed for cost in costs))
            else:
                self.assertLessEqual(costs[trial.choice], allowed + 1e-9)
                for shorter in costs[: trial.choice]:
                    self.assertGreater(shorter, allowed - 1e-9)

    @given(
        st.lists(
            st.tuples(
                st.floats(0.0, 1e10), st.floats(0.0, 1.0), st.floats(1.0, 10)
            )
        )
    )
    def test_any_load_ends_each_trial(self, intervals):
        trial, tried, paused_s = turns.Trial(1), 0, 0.0
        for throughput, busy, seconds in intervals:
            trial = step(trial, throughput, busy, seconds, 0.2)
            if trial.left_s is not None:
                tried, paused_s = 0, 0.0
            elif busy >= 0.9 and throughput:
                tried, paused_s = tried + 1, 0.0
            else:
                paused_s += seconds
            self.assertLessEqual(tried, 3 * (len(turns.TURNS_S) + 1))
            self.assertLess(paused_s, 10.0)
            self.assertIn(trial.choice, (None, *range(len(turns.TURNS_S))))
