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
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import retry_logger


class TroubleTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.trouble = retry_logger.Trouble('It is broken', 'It works again')

    def attempt(self, error=None):
        def work():
            if error is not None:
                raise error

        return self.trouble.attempt(work)

    def lines(self):
        return self.log.output.splitlines()

    def test_nothing_is_said_while_all_is_well(self):
        for _ in range(3):
            self.assertTrue(self.attempt())
        self.assertEqual([], self.lines())

    def test_the_first_of_a_kind_is_a_warning(self):
        self.log = self.useFixture(fixtures.FakeLogger(level=30))
        for number in range(3):
            self.assertFalse(
                self.attempt(exception.PlacementAway(f'failure {number}'))
            )
        self.assertEqual(
            ['It is broken, trying again: failure 0'], self.lines()
        )
        self.assertFalse(self.attempt(exception.NoComputeNode('another')))
        self.assertEqual(
            'It is broken, trying again: another', self.lines()[-1]
        )
        self.assertEqual(2, len(self.lines()))

    def test_the_end_is_said_once(self):
        self.attempt(OSError('no'))
        for _ in range(3):
            self.assertTrue(self.attempt())
        self.assertEqual('It works again.', self.lines()[-1])
        self.assertEqual(2, len(self.lines()))

    def test_it_begins_anew(self):
        for _ in range(2):
            self.attempt(OSError('no'))
            self.attempt()
        self.assertEqual(4, len(self.lines()))

    def test_what_nobody_expected_has_a_traceback(self):
        self.attempt(ZeroDivisionError('a defect'))
        self.assertIn('Traceback', self.log.output)
