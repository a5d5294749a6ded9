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
from hypothesis import given
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
            load = disk_trials.Load(lowered, disk.throughput)
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
