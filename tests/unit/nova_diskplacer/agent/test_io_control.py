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

from oslo_config import cfg
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import io_control
from nova_diskplacer.agent import reporter
from nova_diskplacer.agent import restore
from nova_diskplacer.agent import sample_tasks
from nova_diskplacer.agent import spindown
from nova_diskplacer.elastic.processes import decider
from nova_diskplacer.host import systemd
from nova_diskplacer.io_weights import manager
from nova_diskplacer.monitor import sampler
from nova_diskplacer.monitor import seek_detector
from tests import configured
from tests.unit.nova_diskplacer.monitor import example


class IOControlTest(base.BaseTestCase):
    """What is done beside the I/O loop, with samples that are faked."""

    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.conf.register_opt(cfg.StrOpt('host', default='compute-3'))
        self.conf.set_override('mode', 'on', 'diskplacer_weights')
        self.sample = self.patch(sampler, 'Sampler').return_value.sample
        self.sample.return_value = example.make_sample()
        apply = self.patch(manager, 'WeightManager').return_value.apply
        apply.return_value = example.make_decision()
        self.patch(restore, 'restore_weights')
        self.start = self.patch(sample_tasks, 'start')
        self.clean = self.patch(seek_detector, 'clean')

    def patch(self, target, name):
        patch = mock.patch.object(target, name, autospec=False)
        self.addCleanup(patch.stop)
        return patch.start()

    def run_loop(self, rounds=1):
        """Return the I/O control after some rounds, and its tasks."""
        control = io_control.IOControl(self.conf, list, list, dict)
        stopped, beats = threading.Event(), []

        def beat():
            beats.append(None)
            if len(beats) == rounds:
                stopped.set()

        with (
            mock.patch.object(systemd, 'notify_watchdog', beat),
            mock.patch.object(stopped, 'wait'),
        ):
            control.run(stopped)
        tasks, self.last_sample, ends = self.start.call_args.args
        self.assertIs(stopped, ends)
        return control, {task.subject: task for task in tasks}

    def enable_elastic_vdisks(self, status):
        self.conf.set_override('enabled', True, 'diskplacer_elastic')
        self.patch(decider, 'WidthDecider').return_value.status = status

    def test_before_the_first_interval(self):
        control = io_control.IOControl(self.conf, list, list, dict)
        self.assertIsNone(control.current_status())
        self.assertIsNone(control.wanted_step())
        self.assertEqual(
            reporter.DiskActivity({}, {}, {}), control.disk_activity()
        )

    def test_status(self):
        control, _ = self.run_loop(2)
        status = control.current_status()
        self.assertEqual('compute-3', status.host)
        self.assertTrue(status.deciding)
        self.assertEqual(2, status.rounds)
        self.assertEqual([1.0, 9.0, 10.0, 10.0], status.pairs.classes)
        self.assertIsNone(status.elastic)
        self.assertIs(self.sample.return_value, self.last_sample())

    def test_status_has_the_standby_and_elastic_vdisks_of_now(self):
        self.enable_elastic_vdisks(example.elastic_status())
        control, _ = self.run_loop()
        control._spindown.disks = {
            example.HDD: spindown.Standby(True, 9.0, 600.0)
        }
        status = control.current_status()
        self.assertEqual(example.elastic_status(), status.elastic)
        self.assertEqual(example.elastic_status().step, control.wanted_step())
        standby = {disk.uuid: disk.standby_seconds for disk in status.disks}
        self.assertEqual(600.0, standby[example.HDD])

    def test_activity_of_disks(self):
        self.enable_elastic_vdisks(example.elastic_status())
        control, _ = self.run_loop()
        activity = control.disk_activity()
        self.assertEqual(
            {example.HDD: 50, example.NVME: 50}, activity.pressure
        )
        self.assertEqual(
            {example.HDD: True, example.NVME: False}, activity.idle
        )
        self.assertEqual([example.VOLUME], list(activity.moves))

    def test_traces_of_a_killed_agent_are_removed(self):
        """Whether this one traces or not, and once."""
        for penalty in (0, 1):
            self.conf.set_override(
                'seek_penalty', penalty, 'diskplacer_weights'
            )
            self.run_loop()
        self.assertEqual([mock.call(self.conf)] * 2, self.clean.mock_calls)
        self.clean.side_effect = exception.ContentionError('busy')
        _, tasks = self.run_loop()
        self.assertIn('Excessive seeking', tasks)

    def test_tasks(self):
        _, tasks = self.run_loop()
        self.assertEqual(
            [
                'The health of disks',
                'The I/O of guests',
                'Excessive seeking',
                'The standby of disks',
            ],
            list(tasks),
        )
        self.enable_elastic_vdisks(None)
        _, tasks = self.run_loop()
        self.assertEqual(10, tasks['Elastic vdisks'].interval)

    def test_options_that_contradict_each_other(self):
        self.conf.set_override('enabled', True, 'diskplacer_elastic')
        self.conf.set_override('narrow_pressure', 0.9, 'diskplacer_elastic')
        self.assertRaises(
            exception.ElasticError,
            io_control.IOControl,
            self.conf,
            list,
            list,
            dict,
        )
