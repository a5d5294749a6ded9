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

import time
from unittest import mock

from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import seek_detector
from tests import configured
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples


class SlowChecksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.poll = mock.Mock()
        self.patch(guest_stats.GuestPoller, 'poll', self.poll)
        self.detector = mock.Mock(seekers=frozenset({('a', 'x')}))
        self.patch(
            seek_detector,
            'SeekDetector',
            mock.Mock(return_value=self.detector),
        )
        self.timeouts = []
        self.checks = slow_checks.SlowChecks(self.conf, lambda: self.timeouts)
        self.smart = self.patch(self.checks.health, 'poll', mock.Mock())

    def patch(self, target, name, value):
        patch = mock.patch.object(target, name, value)
        self.addCleanup(patch.stop)
        return patch.start()

    def tasks(self):
        """Return the tasks by subject."""
        return {task.subject: task for task in self.checks.tasks()}

    def test_which_checks_are_enabled(self):
        self.assertEqual(
            ['The health of disks', 'The I/O of guests'], list(self.tasks())
        )
        self.conf.set_override('mode', 'dry_run', 'diskplacer_weights')
        self.assertIn('Excessive seeking', self.tasks())
        self.conf.set_override('seek_penalty', 0, 'diskplacer_weights')
        self.assertNotIn('Excessive seeking', self.tasks())

    def test_each_check(self):
        self.conf.set_override('mode', 'dry_run', 'diskplacer_weights')
        tasks, sample = self.tasks(), samples.make_sample()
        self.assertEqual(frozenset(), self.checks.seekers)
        self.assertIsNone(self.checks.guests)
        tasks['The health of disks'].run(sample)
        self.smart.assert_called_once_with(sample.devices, set())
        tasks['The I/O of guests'].run(sample)
        self.assertEqual(self.poll.return_value, self.checks.guests)
        tasks['Excessive seeking'].run(sample)
        self.detector.run.assert_called_once_with(sample)
        self.assertEqual({('a', 'x')}, self.checks.seekers)

    def test_guests_while_libvirt_refuses(self):
        task, sample = self.tasks()['The I/O of guests'], samples.make_sample()
        task.run(sample)
        self.poll.side_effect = exception.HypervisorError('away')
        self.assertRaises(exception.HypervisorError, task.run, sample)
        self.assertIsNone(self.checks.guests)
        self.poll.side_effect = None
        task.run(sample)
        self.assertEqual(self.poll.return_value, self.checks.guests)

    def test_guests_while_libvirt_hangs(self):
        clock = self.patch(time, 'monotonic', mock.Mock(return_value=100.0))
        self.tasks()['The I/O of guests'].run(samples.make_sample())
        for now, expected in (
            (129.0, self.poll.return_value),
            (131.0, None),
        ):
            clock.return_value = now
            self.assertEqual(expected, self.checks.guests)

    def test_disks_that_may_go_into_standby_are_left_alone(self):
        """SMART is read once after their last I/O."""
        self.timeouts = [example.HDD, example.NVME, example.LOST]
        sample = samples.make_sample(
            disks={
                example.HDD: example.disk_state(idle_seconds=300.0),
                example.NVME: example.disk_state(idle_seconds=299.0),
            }
        )
        self.tasks()['The health of disks'].run(sample)
        self.smart.assert_called_once_with({}, {example.HDD})
