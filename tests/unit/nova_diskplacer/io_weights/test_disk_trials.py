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

import testtools
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import turns
from tests import configured

A = Device('disk-a', 'sda', '8:0', rotational=True, mbps=160)


class Disk:
    """A simulated disk, which has the turns that were set last.

    :param seek_s: how long it seeks after each turn.
    """

    def __init__(self, seek_s):
        self.seek_s = seek_s
        self.turn_s = None

    def cost(self, turn_s):
        """Return the share of its throughput that turns cost."""
        return self.seek_s / (turn_s + self.seek_s) if turn_s else 0.0

    @property
    def throughput(self):
        return 160e6 * (1 - self.cost(self.turn_s))


class CountLoweredTest(testtools.TestCase):
    def test_a_light_server_is_not_lowered(self):
        for weights, count in (
            ((100,), 0),
            ((100, 10), 1),
            ((90, 10), 1),
            ((100, 90, 10), 1),
            ((90, 100), 0),
            ((100, 50, 10), 2),
            ((10, 10, 5), 1),
        ):
            self.assertEqual(count, disk_trials.count_lowered(weights))


class IsLightTest(testtools.TestCase):
    def test_use_of_those_with_the_highest_weight(self):
        for weights, moved, found in (
            ({'a': 100, 'b': 90}, {'a': 20, 'b': 80}, True),
            ({'a': 100, 'b': 90}, {'a': 21, 'b': 79}, False),
            ({'a': 90, 'b': 90, 'c': 5}, {'a': 9, 'b': 17, 'c': 72}, True),
            ({'a': 90, 'b': 90, 'c': 5}, {'a': 1, 'b': 80, 'c': 19}, False),
            # six that read as much, and one of them has begun last
            ({'a': 100} | dict.fromkeys('bcdef', 90),
             {'a': 21} | dict.fromkeys('bcdef', 26), False),
            ({'a': 100} | dict.fromkeys('bcdef', 90),
             {'a': 9} | dict.fromkeys('bcdef', 26), True),
        ):  # fmt: skip
            self.assertEqual(
                found, disk_trials.is_light(weights, moved, moved)
            )

    def test_parts_of_intervals(self):
        weights, moved = {'a': 100, 'b': 90}, {'a': 1, 'b': 99}
        for before, found in (
            ({'b': 99}, False),
            ({'a': 50, 'b': 50}, False),
            ({'a': 1}, True),
        ):
            self.assertEqual(
                found, disk_trials.is_light(weights, moved, before)
            )


class DiskTrialsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf

    @given(
        seek_s=st.floats(0.0, 0.2),
        lowered=st.integers(1, 2),
        # what the kernel has after it has refused; ten seconds of it would
        # end a trial
        failures=st.dictionaries(
            st.integers(0, 80),
            st.sampled_from([None, *turns.TURNS_S]),
            max_size=4,
        ),
    )
    def test_what_is_kept_costs_no_more_than_allowed(
        self, seek_s, lowered, failures
    ):
        allowed = turns.ALLOWED[self.conf.diskplacer_weights.prefer]
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(seek_s)
        for number in range(160):
            load = disk_trials.Load(lowered, disk.throughput, frozenset())
            trial = trials.step({A: load}, 1.0)[A.uuid]
            if number in failures:
                disk.turn_s = failures[number]
                trials.take_back(A.uuid)
                continue
            disk.turn_s = disk_trials.turn_s(A, trial)
            if trial.left_s is None or trial.lost is None:
                continue
            costs = [disk.cost(turn_s) for turn_s in turns.TURNS_S]
            if trial.choice is None:
                self.assertTrue(all(cost > allowed for cost in costs))
            else:
                self.assertLessEqual(costs[trial.choice], allowed + 1e-9)
                self.assertAlmostEqual(costs[trial.choice], trial.lost)
        self.assertIsNotNone(trial.lost)

    def run_disk(self, trials, disk, seconds, servers, seek_s=None):
        """Yield the trial after each second of a load."""
        for _ in range(seconds):
            disk.seek_s = disk.seek_s if seek_s is None else seek_s
            load = disk_trials.Load(1, disk.throughput, servers)
            trial = trials.step({A: load}, 1.0)[A.uuid]
            disk.turn_s = disk_trials.turn_s(A, trial)
            yield trial

    def run_loads(self, trials, disk, *loads):
        """Return the choices of some seconds of each load.

        :param loads: seconds, and further arguments of ``Load``; None for no
            load, and 'below' for one that the disk can bear.
        """
        found = []
        for seconds, load in loads:
            for _ in range(seconds):
                if load in (None, 'below'):
                    trials.step({}, 1.0, {A.uuid} if load else ())
                    disk.turn_s = None
                    continue
                lowered, servers, is_light = load
                one = disk_trials.Load(
                    lowered, disk.throughput, frozenset(servers), is_light
                )
                trial = trials.step({A: one}, 1.0)[A.uuid]
                disk.turn_s = disk_trials.turn_s(A, trial)
                found.append(trial.choice)
        return found

    def test_a_disk_whose_light_servers_wait_is_tried_at_once(self):
        for prefer in turns.ALLOWED:
            self.conf.set_override('prefer', prefer, 'diskplacer_weights')
            for lowered in (1, 2):
                trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
                found = self.run_loads(
                    trials,
                    disk,
                    (3, (lowered, 'ab', True)),
                    (30, (lowered, 'ab', False)),
                )
                self.assertEqual([None] * 3 + [0] * 30, found)

    def test_light_servers_that_begin_later_are_seen(self):
        """A scan is there, and who begins was idle in the interval before."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        found = self.run_loads(
            trials, disk, (2, (1, 'ab', False)), (30, (1, 'ab', True))
        )
        self.assertEqual([1] * 2 + [None] * 3 + [0] * 27, found)

    def test_a_trial_at_once_that_is_given_up(self):
        """Untried turns are in force then: bursts need them, too."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        light = 1, 'ab', True
        found = self.run_loads(
            trials, disk, (1, light), (12, None), (62, light), (12, None),
            (60, light),
        )  # fmt: skip
        self.assertEqual(
            [None] + [1] * 59 + [None] * 3 + [1] * 59 + [None],
            found,
        )

    def test_a_load_that_ends_as_its_trial_begins_takes_no_result(self):
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        load = 1, 'ab', False
        found = self.run_loads(trials, disk, (86, load))
        self.assertEqual([1] * 19 + [None] * 3 + [0] * 63 + [None], found)
        self.assertEqual(
            [0] * 59 + [None] * 3 + [0],
            self.run_loads(trials, disk, (12, None), (63, load)),
        )

    def test_a_load_that_only_turns_bring_to_the_limit(self):
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        load = 1, 'ab', False
        self.run_loads(trials, disk, (86, load), (12, 'below'))
        self.assertEqual([None] * 59, self.run_loads(trials, disk, (59, load)))

    def test_a_trial_of_several_waits_while_only_one_is_left(self):
        """Else turns would be kept that several cannot bear."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        self.run_loads(trials, disk, (20, (2, 'abc', False)))
        found = self.run_loads(
            trials, disk, (9, (1, 'ab', False)), (4, (2, 'abc', False))
        )
        self.assertEqual([None] * 11 + [0] * 2, found)

    def test_a_load_that_does_less_than_turns_may_cost_is_tried_soon(self):
        """The same servers read at random places now."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        load = 1, 'ab', False
        self.run_loads(trials, disk, (1500, load))
        disk.seek_s = 0.0004
        self.assertEqual([0] * 10, self.run_loads(trials, disk, (10, load)))
        disk.seek_s = 0.016
        self.assertEqual(
            [0] * 4 + [None] * 3
            + [choice for choice in range(4) for _ in range(3)]
            + [4] * 60,
            self.run_loads(trials, disk, (79, load)),
        )  # fmt: skip

    def test_turns_that_another_server_makes_harmful_are_taken_back(self):
        """With the other one, only turns of 100 ms cost less than a fifth.

        When it has gone, those of 2 ms are back. Each was kept for 16 minutes.
        """
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        few, more = frozenset({'scan', 'light'}), frozenset({'random'})
        *_, trial = self.run_disk(trials, disk, 3000, few)
        self.assertEqual((0, 960.0), (trial.choice, trial.kept_s))
        found = [
            trial.choice
            for trial in self.run_disk(trials, disk, 80, few | more, 0.016)
        ]
        self.assertEqual(
            [0] * 4 + [None] * 3
            + [choice for choice in range(4) for _ in range(3)]
            + [4] * 61,
            found,
        )  # fmt: skip
        *_, trial = self.run_disk(trials, disk, 3100, few | more)
        self.assertEqual((4, 960.0), (trial.choice, trial.kept_s))
        found = [
            trial.choice for trial in self.run_disk(trials, disk, 60, few, 0.0)
        ]
        self.assertEqual([4] * 19 + [None] * 3 + [0] * 38, found)

    def begin_second_trial(self, trials, disk):
        """Return the first seconds of a load, until it is tried again."""
        found = False
        for trial in self.run_disk(trials, disk, 200, frozenset('ab')):
            found = found or trial.lost is not None
            if found and trial.left_s is None:
                return trial
        raise AssertionError('no second trial')

    def test_a_refused_write_takes_no_earlier_result(self):
        """The disk is at its limit, but nobody knows with which settings."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.003)
        before = self.begin_second_trial(trials, disk).before
        self.assertEqual(1, before)
        for _ in range(12):
            load = disk_trials.Load(1, disk.throughput, frozenset('ab'))
            trials.step({A: load}, 1.0)
            trials.take_back(A.uuid)
        (trial,) = self.run_disk(trials, disk, 1, frozenset('ab'))
        self.assertIsNotNone(trial.left_s)
        self.assertEqual((before, 120.0), (trial.choice, trial.kept_s))

    def test_a_burst_of_another_server_takes_no_earlier_result(self):
        """For ten seconds the disk has the trial of several servers."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.003)
        before = self.begin_second_trial(trials, disk).before
        load = disk_trials.Load(2, disk.throughput, frozenset('abc'))
        trials.step({A: load}, 1.0)
        *_, trial = self.run_disk(trials, disk, 11, frozenset('ab'))
        self.assertIsNotNone(trial.left_s)
        self.assertEqual((before, 120.0), (trial.choice, trial.kept_s))

    def test_servers_that_come_again_are_known(self):
        """Each number of lowered servers has its own."""
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        servers = [frozenset({'light', 'a'}), frozenset({'light', 'a', 'b'})]
        in_trials = 0
        for number in range(3600):
            lowered = 1 + (number // 30) % 2
            load = disk_trials.Load(
                lowered, disk.throughput, servers[lowered - 1]
            )
            trial = trials.step({A: load}, 1.0)[A.uuid]
            in_trials += number >= 600 and trial.left_s is None
        # at most at 60, 180 and so on of each
        self.assertLess(in_trials, 60)

    @given(
        prefer=st.sampled_from(sorted(turns.ALLOWED)),
        loads=st.lists(
            st.tuples(
                st.integers(1, 300),
                st.frozensets(st.sampled_from('abcd'), min_size=2),
                st.sampled_from([0.0, 0.0005, 0.01, 0.1]),
            ),
            min_size=1,
            max_size=6,
        ),
    )
    @example(
        'throughput',
        [(60, frozenset('ab'), 0.0), (60, frozenset('ac'), 0.1)] * 9,
    )
    @settings(max_examples=30)
    def test_trials_lose_half_of_what_turns_may_cost(self, prefer, loads):
        """Whatever servers come and go, and whatever their turns cost."""
        self.conf.set_override('prefer', prefer, 'diskplacer_weights')
        trials, disk = disk_trials.DiskTrials(self.conf), Disk(0.0)
        all_s = 0
        lost_s = 0.0
        is_trial = False
        for seconds, servers, seek_s in loads * 3:
            disk.seek_s = seek_s
            for _ in range(seconds):
                all_s += 1
                if is_trial:
                    lost_s += disk.cost(disk.turn_s)
                (trial,) = self.run_disk(trials, disk, 1, servers)
                is_trial = trial.left_s is None
        # the last trial may not have been followed by its rest
        last_s = 3 * len(turns.TURNS_S)
        self.assertLessEqual(
            lost_s, turns.ALLOWED[prefer] / 2 * all_s + last_s
        )
