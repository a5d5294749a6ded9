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
from nova_diskplacer.agent import io_background
from nova_diskplacer.monitor import guest_stats
from nova_diskplacer.monitor import seek_detector
from tests import configured
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples


class BackgroundChecksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.sample = None
        self.poll = mock.Mock()
        self.patch(guest_stats.GuestPoller, 'poll', self.poll)
        self.detector = mock.Mock(seekers=frozenset({('a', 'x')}))
        self.patch(
            seek_detector,
            'SeekDetector',
            mock.Mock(return_value=self.detector),
        )
        self.checks = io_background.BackgroundChecks(
            self.conf, lambda: self.sample, dict
        )
        self.smart = self.patch(self.checks.health, 'poll', mock.Mock())

    def patch(self, target, name, value):
        patch = mock.patch.object(target, name, value)
        self.addCleanup(patch.stop)
        return patch.start()

    def threads(self):
        """Return the subjects of the threads that are started."""
        with mock.patch.object(threading, 'Thread') as thread:
            self.checks.start(threading.Event())
        return [call.kwargs['args'][2] for call in thread.call_args_list]

    def repeat(self, check, *waits):
        """Repeat a check; call each function instead of a wait."""
        waits, stopped = list(waits), mock.Mock()
        stopped.is_set.side_effect = lambda: not waits
        stopped.wait.side_effect = lambda seconds: waits.pop(0)()
        self.checks._repeat(stopped, 60.0, 'It', check)
        return [call.args[0] for call in stopped.wait.call_args_list]

    def test_threads(self):
        self.assertEqual(
            [
                'The health of disks',
                'The I/O of guests',
                'The standby of disks',
            ],
            self.threads(),
        )
        self.conf.set_override('mode', 'dry_run', 'diskplacer_weights')
        self.assertIn('Excessive seeking', self.threads())
        self.conf.set_override('seek_penalty', 0, 'diskplacer_weights')
        self.assertNotIn('Excessive seeking', self.threads())

    def test_elastic_vdisks_are_decided_on_if_enabled(self):
        self.assertIsNone(self.checks.elastic)
        self.conf.set_override('enabled', True, 'diskplacer_elastic')
        self.checks = io_background.BackgroundChecks(
            self.conf, lambda: self.sample, dict
        )
        self.assertIn('Elastic vdisks', self.threads())
        self.conf.set_override('narrow_pressure', 0.9, 'diskplacer_elastic')
        self.assertRaises(
            exception.ElasticError,
            io_background.BackgroundChecks,
            self.conf,
            lambda: self.sample,
            dict,
        )

    def test_checks_wait_for_the_first_sample(self):
        def measure():
            self.sample = samples.make_sample()

        check = mock.Mock()
        waited = self.repeat(check, lambda: None, measure, lambda: None)
        check.assert_called_once_with(self.sample)
        self.assertEqual([0.2, 0.2, 60.0], waited)

    def test_a_failure_is_logged_once(self):
        self.sample = samples.make_sample()
        check = mock.Mock(side_effect=exception.ContentionError('broken'))

        def heal():
            check.side_effect = None

        self.repeat(check, lambda: None, heal, lambda: None)
        self.assertEqual(3, check.call_count)
        self.assertEqual(1, self.log.output.count('It cannot be checked'))
        self.assertEqual(1, self.log.output.count('It is checked again'))

    def test_each_check(self):
        sample = samples.make_sample()
        self.assertEqual(frozenset(), self.checks.seekers)
        self.assertIsNone(self.checks.guests)
        self.checks._check_smart(sample)
        self.smart.assert_called_once_with(sample.devices, set())
        self.checks._poll_libvirt(sample)
        self.assertEqual(self.poll.return_value, self.checks.guests)
        self.checks._detect_seeks(sample)
        self.detector.run.assert_called_once_with(sample)
        self.assertEqual({('a', 'x')}, self.checks.seekers)

    def test_disks_that_may_go_into_standby_are_left_alone(self):
        """SMART is read once after their last I/O."""
        self.checks.spindown.disks = {
            example.HDD: None,
            example.NVME: None,
            example.LOST: None,
        }
        sample = samples.make_sample(
            disks={
                example.HDD: example.disk_state(idle_seconds=300.0),
                example.NVME: example.disk_state(idle_seconds=299.0),
            }
        )
        self.checks._check_smart(sample)
        self.smart.assert_called_once_with({}, {example.HDD})
