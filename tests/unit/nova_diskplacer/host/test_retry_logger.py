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

import fixtures
from oslo_log import log as logging
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import retry_logger


class RetryLoggerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.retries = retry_logger.RetryLogger(
            'It is broken', 'It works again'
        )

    def run_task(self, error=None):
        def task():
            if error is not None:
                raise error

        return self.retries.run(task)

    def lines(self):
        return self.log.output.splitlines()

    def test_success_is_not_logged(self):
        for _ in range(3):
            self.assertTrue(self.run_task())
        self.assertEqual([], self.lines())

    def test_first_failure_of_a_type_is_a_warning(self):
        self.log = self.useFixture(fixtures.FakeLogger(level=30))
        for number in range(3):
            self.assertFalse(
                self.run_task(exception.PlacementError(f'failure {number}'))
            )
        self.assertEqual(
            ['It is broken, trying again: failure 0'], self.lines()
        )
        self.assertFalse(self.run_task(exception.NoComputeNode('another')))
        self.assertEqual(
            'It is broken, trying again: another', self.lines()[-1]
        )
        self.assertEqual(2, len(self.lines()))

    def test_same_failure_is_logged_once_even_at_debug_level(self):
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        for reason in ('no', 'no', 'never', 'never'):
            self.run_task(OSError(reason))
        self.assertEqual(
            ['It is broken, trying again: no', 'It is broken: never'],
            self.lines(),
        )

    def test_recovery_is_logged_once(self):
        self.run_task(OSError('no'))
        for _ in range(3):
            self.assertTrue(self.run_task())
        self.assertEqual('It works again.', self.lines()[-1])
        self.assertEqual(2, len(self.lines()))

    def test_repeated_failure_and_recovery(self):
        for _ in range(2):
            self.run_task(OSError('no'))
            self.run_task()
        self.assertEqual(4, len(self.lines()))

    def test_unexpected_exception_has_a_traceback(self):
        self.run_task(ZeroDivisionError('a defect'))
        self.assertIn('Traceback', self.log.output)
