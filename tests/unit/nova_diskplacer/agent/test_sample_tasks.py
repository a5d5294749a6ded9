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
from nova_diskplacer.agent import sample_tasks
from tests.unit.nova_diskplacer.monitor import samples


class SampleTasksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.sample = None
        self.run_task = mock.Mock()
        self.task = sample_tasks.SampleTask(60.0, 'It', self.run_task)

    def repeat(self, *waits):
        """Repeat the task; call each function instead of a wait."""
        waits, stopped = list(waits), mock.Mock()
        stopped.is_set.side_effect = lambda: not waits
        stopped.wait.side_effect = lambda seconds: waits.pop(0)()
        sample_tasks.repeat(self.task, lambda: self.sample, stopped)
        return [call.args[0] for call in stopped.wait.call_args_list]

    def test_tasks_wait_for_the_first_sample(self):
        def measure():
            self.sample = samples.make_sample()

        waited = self.repeat(lambda: None, measure, lambda: None)
        self.run_task.assert_called_once_with(self.sample)
        self.assertEqual([0.2, 0.2, 60.0], waited)

    def test_a_failure_is_logged_once(self):
        self.sample = samples.make_sample()
        self.run_task.side_effect = exception.ContentionError('broken')

        def heal():
            self.run_task.side_effect = None

        self.repeat(lambda: None, heal, lambda: None)
        self.assertEqual(3, self.run_task.call_count)
        self.assertEqual(1, self.log.output.count('It cannot be checked'))
        self.assertEqual(1, self.log.output.count('It is checked again'))

    def test_a_task_that_waits_delays_no_other(self):
        self.sample = samples.make_sample()
        stopped, ran = threading.Event(), threading.Event()
        self.addCleanup(stopped.set)
        waits = sample_tasks.SampleTask(60.0, 'a', lambda _: stopped.wait())
        runs = sample_tasks.SampleTask(60.0, 'b', lambda _: ran.set())
        sample_tasks.start([waits, runs], lambda: self.sample, stopped)
        self.assertTrue(ran.wait(120))
