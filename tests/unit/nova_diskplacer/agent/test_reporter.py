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

from oslotest import base

from nova_diskplacer import reports
from nova_diskplacer.agent import inventory
from nova_diskplacer.agent import reporter
from tests.fakes import disks as fake_disks
from tests.unit.nova_diskplacer.agent import test_service


class ReporterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.now = 100.0
        self.sent = []
        self.reporter = self.restarted()

    def restarted(self):
        return reporter.Reporter(
            self, 'one', 'one.example.org', 10, lambda: self.now
        )

    def put(self, message):
        self.sent.append(message)

    def update(self, pressure=0, asked=False, **disk):
        """Return what the agent sends: a report, a heartbeat or None."""
        self.sent.clear()
        reported = inventory.ReportedDisk(
            fake_disks.make_disk('a', **disk), test_service.FIGURES
        )
        self.reporter.update('root', None, [reported], {'a': pressure}, asked)
        return self.sent[0] if self.sent else None

    def assert_report(self, message):
        reports.check(message)
        self.assertEqual('a', message['disks'][0]['uuid'])
        return message

    def test_a_change_is_reported_and_then_confirmed(self):
        report = self.assert_report(self.update())
        self.assertIsNone(self.update())
        self.now += 9
        self.assertFalse(self.reporter.due)
        self.assertIsNone(self.update())
        self.now += 1
        self.assertTrue(self.reporter.due)
        self.assertEqual(reports.heartbeat(report), self.update())
        self.assertIsNone(self.update())
        changed = self.assert_report(self.update(health='missing'))
        self.assertNotEqual(report['digest'], changed['digest'])

    def test_what_is_asked_for_is_reported(self):
        report = self.update()
        self.assertEqual(report, self.update(asked=True))

    def test_a_new_agent_says_the_same_of_the_same(self):
        report = self.update()
        self.reporter = self.restarted()
        self.assertEqual(report, self.update())

    def test_a_report_puts_off_the_heartbeat(self):
        self.update()
        self.now += 8
        self.update(health='missing')
        self.now += 8
        self.assertIsNone(self.update(health='missing'))

    def test_small_changes_of_pressure_are_not_reported(self):
        self.assert_report(self.update(pressure=3))
        for pressure in (4, 7, 1):
            self.assertIsNone(self.update(pressure=pressure))
        report = self.assert_report(self.update(pressure=8))
        self.assertEqual(8, report['disks'][0]['pressure'])
        self.assertIsNone(self.update(pressure=4))
        report = self.assert_report(self.update(pressure=0))
        self.assertEqual(0, report['disks'][0]['pressure'])

    def test_disks_come_and_go(self):
        self.assertEqual({'a': 3}, reporter.smooth({}, {'a': 3}))
        self.assertEqual({}, reporter.smooth({'a': 3}, {}))
        self.assertEqual(
            {'a': 3, 'b': 99}, reporter.smooth({'a': 3}, {'a': 5, 'b': 99})
        )
