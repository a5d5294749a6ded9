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

import queue
import threading

import fixtures
from oslotest import base

from nova_diskplacer.agent import outbox


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
        self.outbox = outbox.Outbox('transport')
        self.outbox.start()

    def send(self, transport, report):
        self.sent.put(report)
        self.let.acquire()
        if self.error is not None:
            raise self.error

    def test_sends(self):
        for report in ({'number': 1}, {'number': 2}):
            self.outbox.put(report)
            self.assertEqual(report, self.sent.get(timeout=120))
            self.let.release()

    def test_only_the_newest_waits(self):
        # the first is under way and the message bus does not take it
        self.outbox.put({'number': 1})
        self.sent.get(timeout=120)
        for number in range(2, 50):
            self.outbox.put({'number': number})
        self.let.release()
        self.assertEqual({'number': 49}, self.sent.get(timeout=120))
        self.let.release()
        self.assertRaises(queue.Empty, self.sent.get, timeout=0.2)

    def test_goes_on_after_a_failure(self):
        self.error = RuntimeError('the bus is away')
        for number in range(2):
            self.outbox.put({'number': number})
            self.sent.get(timeout=120)
            self.let.release()
        self.outbox.put({'number': 3})
        self.sent.get(timeout=120)
        self.error = None
        self.let.release()
        self.outbox.put({'number': 4})
        self.assertEqual({'number': 4}, self.sent.get(timeout=120))
        self.let.release()
        self.assertEqual(1, self.log.output.count('cannot be sent'))
        self.assertEqual(1, self.log.output.count('are sent again'))
