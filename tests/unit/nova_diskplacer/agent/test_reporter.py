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

import os
import queue
import threading
import time

import fixtures
from oslotest import base

from nova_diskplacer import report_format
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.agent import reporter
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks
from tests.unit.nova_diskplacer.agent import test_reported_disks


class ReporterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.now = 100.0
        self.sent = []
        self.reporter = self.restarted()

    def restarted(self, **kwargs):
        return reporter.Reporter(
            self, 'one', 'one.example.org', 10, lambda: self.now, **kwargs
        )

    def put(self, message):
        self.sent.append(message)

    def update(self, pressure=0, asked=False, idle=None, moves=None, **disk):
        """Return what the agent sends: a report, a heartbeat or None."""
        self.sent.clear()
        reported = reported_disks.ReportedDisk(
            fake_disks.make_disk('a', **disk), test_reported_disks.FIGURES
        )
        self.reporter.update(
            'root',
            None,
            [reported],
            reporter.DiskActivity({'a': pressure}, idle or {}, moves or {}),
            asked,
        )
        return self.sent[0] if self.sent else None

    def assert_report(self, message):
        report_format.check(message)
        self.assertEqual('a', message['disks'][0]['uuid'])
        return message

    def test_weights(self):
        self.assertEqual('', self.assert_report(self.update())['weights'])
        self.reporter = self.restarted(weights='auto')
        self.assertEqual('auto', self.assert_report(self.update())['weights'])

    def test_a_change_is_reported_and_then_confirmed(self):
        report = self.assert_report(self.update())
        self.assertIsNone(self.update())
        self.now += 9
        self.assertFalse(self.reporter.due)
        self.assertIsNone(self.update())
        self.now += 1
        self.assertTrue(self.reporter.due)
        self.assertEqual(report_format.heartbeat(report), self.update())
        self.assertIsNone(self.update())
        changed = self.assert_report(self.update(health='missing'))
        self.assertNotEqual(report['digest'], changed['digest'])

    def test_which_disks_can_hold_stripes(self):
        root = self.useFixture(fixtures.TempDir()).path
        os.symlink('/dev/diskplacer-a', f'{root}/a')
        for path, expected in ((f'{root}/a', True), ('/disks/a', False)):
            report = self.assert_report(self.update(path=path))
            self.assertIs(expected, report['disks'][0]['can_stripe'])

    def test_software_is_told(self):
        self.reporter = reporter.Reporter(
            self,
            'one',
            'one.example.org',
            10,
            lambda: self.now,
            {'release': '2.0.0', 'profiles': 'abc'},
        )
        report = self.assert_report(self.update())
        self.assertEqual(
            ('2.0.0', 'abc'), (report['release'], report['profiles'])
        )

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

    def test_idle(self):
        report = self.assert_report(self.update())
        self.assertNotIn('idle', report['disks'][0])
        for idle in (False, True):
            report = self.assert_report(self.update(idle={'a': idle}))
            self.assertEqual(idle, report['disks'][0]['idle'])

    def test_a_move(self):
        vdisks = (VDisk('volume-v', 'v', None, GIB, True),)
        (vdisk,) = self.update(vdisks=vdisks)['disks'][0]['vdisks']
        self.assertNotIn('move', vdisk)
        moves = {'v': 'to 4 disks: pressure of 99%', 'w': 'to 2 disks'}
        report = self.assert_report(self.update(vdisks=vdisks, moves=moves))
        (vdisk,) = report['disks'][0]['vdisks']
        self.assertEqual(moves['v'], vdisk['move'])

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


class OutboxTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.sent = queue.Queue()
        self.let = threading.Semaphore(0)
        self.error = None
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.reports.send_report', self.send
            )
        )
        self.sender = reporter.ReportSender('transport')
        threading.Thread(target=self.sender.run, daemon=True).start()

    def send(self, transport, report):
        self.sent.put(report)
        self.let.acquire()
        if self.error is not None:
            raise self.error

    def test_sends(self):
        for report in ({'number': 1}, {'number': 2}):
            self.sender.put(report)
            self.assertEqual(report, self.sent.get(timeout=120))
            self.let.release()

    def test_only_the_newest_waits(self):
        # the first is under way and the message bus does not take it
        self.sender.put({'number': 1})
        self.sent.get(timeout=120)
        for number in range(2, 50):
            self.sender.put({'number': number, 'disks': []})
        self.let.release()
        self.assertEqual(49, self.sent.get(timeout=120)['number'])
        self.let.release()
        self.assertRaises(queue.Empty, self.sent.get, timeout=0.2)

    def test_a_heartbeat_does_not_replace_a_report(self):
        def report(number):
            return {'number': number, 'disks': []}

        self.sender.put(report(1))
        self.sent.get(timeout=120)
        for message in (report(2), {'number': 2}, report(3), {'number': 3}):
            self.sender.put(message)
        self.let.release()
        self.assertEqual(report(3), self.sent.get(timeout=120))
        self.let.release()
        self.sender.put({'number': 3})
        self.assertEqual({'number': 3}, self.sent.get(timeout=120))
        self.let.release()

    def test_no_older_report_follows_a_newer_one(self):
        reports = [{'number': number, 'disks': []} for number in (1, 2)]
        self.error = RuntimeError('the bus is away')
        self.sender.put(reports[0])
        self.sent.get(timeout=120)
        self.let.release()
        self.failed(reports[0])
        self.error = None
        self.sender.put(reports[1])
        self.sent.get(timeout=120)
        # a heartbeat is due while the newer one is sent
        self.sender.put({'number': 2})
        self.let.release()
        self.assertEqual({'number': 2}, self.sent.get(timeout=120))
        self.let.release()

    def failed(self, report):
        """Wait until that report, or none, is known to have failed."""
        end = time.monotonic() + 120
        while self.sender._failed != report:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def test_a_report_that_failed_goes_before_its_heartbeat(self):
        report = {'number': 1, 'disks': []}
        self.error = RuntimeError('the bus is away')
        self.sender.put(report)
        self.sent.get(timeout=120)
        self.let.release()
        self.failed(report)
        self.sender.put({'number': 1})
        self.assertEqual(report, self.sent.get(timeout=120))
        self.error = None
        self.let.release()
        self.failed(None)
        self.sender.put({'number': 1})
        self.assertEqual({'number': 1}, self.sent.get(timeout=120))
        self.let.release()

    def test_goes_on_after_a_failure(self):
        self.error = RuntimeError('the bus is away')
        for number in range(2):
            self.sender.put({'number': number})
            self.sent.get(timeout=120)
            self.let.release()
        self.sender.put({'number': 3})
        self.sent.get(timeout=120)
        self.error = None
        self.let.release()
        self.sender.put({'number': 4})
        self.assertEqual({'number': 4}, self.sent.get(timeout=120))
        self.let.release()
        self.assertEqual(1, self.log.output.count('cannot be sent'))
        self.assertEqual(1, self.log.output.count('are sent again'))
