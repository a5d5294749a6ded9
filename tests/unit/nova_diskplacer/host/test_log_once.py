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

from nova_diskplacer.host import log_once

FORMAT = '%(levelname)s %(message)s'

LOG = logging.getLogger(__name__)


class ChangeLoggerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(format=FORMAT))
        self.changes = log_once.ChangeLogger(LOG)

    def lines(self):
        return self.log.output.splitlines()

    def test_same_message(self):
        for _ in range(3):
            # the text counts: two exceptions are never equal
            self.changes.log('sda', '%s is gone: %s', 'sda', OSError('no'))
        self.assertEqual(['WARNING sda is gone: no'], self.lines())

    def test_other_message(self):
        for reason in ('slow', 'gone', 'slow'):
            self.changes.log('sda', 'sda is %s', reason)
        self.assertEqual(3, len(self.lines()))

    def test_subjects_are_independent(self):
        for subject in ('sda', 'sdb', 'sda', 'sdb'):
            self.changes.log(subject, 'It is gone')
        self.assertEqual(2, len(self.lines()))

    def test_clear(self):
        self.assertFalse(self.changes.clear('sda'))
        self.changes.log('sda', 'sda is gone')
        self.assertTrue(self.changes.clear('sda'))
        self.changes.log('sda', 'sda is gone')
        self.assertEqual(2, len(self.lines()))

    def test_clear_except(self):
        for _ in range(2):
            for subject in ('sda', 'sdb'):
                self.changes.log(subject, '%s is gone', subject)
            self.changes.clear_except({'sda'})
        self.assertEqual(
            ['sda is gone', 'sdb is gone', 'sdb is gone'],
            [line.removeprefix('WARNING ') for line in self.lines()],
        )

    def test_level(self):
        log_once.ChangeLogger(LOG, logging.ERROR).log('sda', 'sda is gone')
        self.assertEqual(['ERROR sda is gone'], self.lines())

    def test_no_arguments(self):
        self.changes.log('sda', 'It is gone')
        self.assertEqual(['WARNING It is gone'], self.lines())
