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

import threading
from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import io_loop
from nova_diskplacer.agent import restore
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.host import systemd
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import seek_detector
from tests import configured
from tests.unit.nova_diskplacer.monitor import example


class IOLoopTest(base.BaseTestCase):
    """The order of measuring, deciding and restoring, with all else faked."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.conf.set_override('mode', 'on', 'diskplacer_weights')
        self.conf.set_override('interval', 0.2, 'diskplacer_monitor')
        self.sampler = self.patch(sampler, 'Sampler')
        self.sampler.return_value.sample.return_value = example.make_sample()
        self.manager = self.patch(manager, 'WeightManager')
        self.apply = self.manager.return_value.apply
        self.apply.return_value = example.make_decision()
        self.restore = self.patch(restore, 'restore_weights')
        self.servers, self.disks = [], []
        self.loop = self.make_loop()

    def patch(self, target, name):
        patch = mock.patch.object(target, name, autospec=False)
        self.addCleanup(patch.stop)
        return patch.start()

    def make_loop(self):
        return io_loop.IOLoop(
            self.conf,
            lambda: self.servers,
            lambda: self.disks,
            slow_checks.SlowChecks(self.conf),
        )

    def run_loop(self, *steps):
        """Run an interval after each step, and then until it stops."""
        stopped, steps = threading.Event(), list(steps)
        self.patch(stopped, 'wait')
        beats = self.patch(systemd, 'notify_watchdog')

        def beat():
            if steps:
                steps.pop(0)()
            else:
                stopped.set()

        beats.side_effect = beat
        self.loop.run(stopped)

    def fail(self, call):
        def step():
            call.side_effect = exception.ContentionError('broken')

        return step

    def heal(self, call):
        def step():
            call.side_effect = None

        return step

    def test_nothing_is_measured_until_servers_and_disks_are_known(self):
        for self.servers, self.disks in ((None, []), ([], None)):
            self.loop.run_once()
        self.sampler.assert_not_called()
        self.assertIsNone(self.loop.sample)
        self.assertIsNone(self.loop.interval)
        self.assertEqual({}, self.loop.disk_states)

    def test_an_interval(self):
        self.loop.run_once()
        self.loop.run_once()
        self.sampler.assert_called_once()
        self.manager.assert_called_once()
        interval = self.loop.interval
        self.assertIs(self.apply.return_value, interval.decision)
        self.assertIs(self.loop.sample, interval.sample)
        self.assertEqual(2, interval.rounds)
        self.assertEqual(2 * 2, interval.weight_changes)
        self.assertEqual(
            {example.HDD, example.NVME}, set(self.loop.disk_states)
        )

    def test_mode_off(self):
        self.conf.set_override('mode', 'off', 'diskplacer_weights')
        self.loop = self.make_loop()
        self.loop.run_once()
        self.manager.assert_not_called()
        self.assertIsNone(self.loop.interval.decision)

    def test_weights_are_restored_at_the_end(self):
        clean = self.patch(seek_detector, 'clean')
        self.run_loop()
        self.restore.assert_called_once_with(self.conf)
        # the detector may be tracing
        clean.assert_not_called()

    def test_weights_of_an_agent_before_are_restored_once_in_mode_off(self):
        self.conf.set_override('mode', 'off', 'diskplacer_weights')
        self.loop = self.make_loop()
        counts = []
        self.run_loop(*[lambda: counts.append(self.restore.call_count)] * 3)
        self.assertEqual([1, 1, 1], counts)

    def test_weights_of_an_agent_before_are_restored_once_in_a_dry_run(self):
        self.conf.set_override('mode', 'dry_run', 'diskplacer_weights')
        self.loop = self.make_loop()
        counts = []
        self.run_loop(*[lambda: counts.append(self.restore.call_count)] * 3)
        self.assertEqual([1, 1, 1], counts)
        self.assertEqual(4, self.apply.call_count)

    def test_a_restore_that_fails_is_repeated(self):
        self.conf.set_override('mode', 'off', 'diskplacer_weights')
        self.loop = self.make_loop()
        self.fail(self.restore)()
        self.run_loop(lambda: None, self.heal(self.restore), lambda: None)
        # three in the loop, the last of which succeeds, and one at the end
        self.assertEqual(4, self.restore.call_count)
        self.assertEqual(
            1, self.log.output.count('I/O weights cannot be restored')
        )

    def test_weights_are_restored_while_nothing_is_measured(self):
        sample = self.sampler.return_value.sample
        states = []
        self.run_loop(
            self.fail(sample),
            lambda: states.append(self.loop.disk_states),
            self.heal(sample),
            lambda: states.append(self.loop.disk_states),
        )
        self.assertEqual({}, states[0])
        self.assertNotEqual({}, states[1])
        # once in the loop, once at the end
        self.assertEqual(2, self.restore.call_count)
        self.assertEqual(1, self.log.output.count('cannot be measured'))
        self.assertEqual(1, self.log.output.count('is measured again'))
        # totals go on
        self.assertEqual(3, self.loop.interval.rounds)

    def test_weights_are_restored_while_the_disks_are_not_known(self):
        disks, intervals = self.disks, []

        def be(value):
            def step():
                self.disks = value

            return step

        self.run_loop(
            be(None),
            lambda: intervals.append((self.loop.interval, self.restored())),
            be(disks),
            lambda: intervals.append((self.loop.interval, self.restored())),
        )
        self.assertEqual((None, 1), intervals[0])
        self.assertIsNotNone(intervals[1][0])
        # and once at the end
        self.assertEqual(2, self.restored())

    def restored(self):
        return self.restore.call_count

    def test_a_failed_decision_is_not_repeated_at_once(self):
        self.fail(self.apply)()
        self.run_loop(self.heal(self.apply), *[lambda: None] * 9)
        self.assertEqual(1, self.apply.call_count)
        self.assertIsNone(self.loop.interval.decision)
        # once in the loop, once at the end
        self.assertEqual(2, self.restore.call_count)
        self.loop.run_once()
        self.assertEqual(2, self.apply.call_count)
        self.assertEqual(2, self.manager.call_count)
        self.assertIsNotNone(self.loop.interval.decision)
