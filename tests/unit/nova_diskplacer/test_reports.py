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
import time
import uuid

import fixtures
import oslo_messaging
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import report_format
from nova_diskplacer import reports
from tests.unit.nova_diskplacer import test_report_format


class TransportTest(base.BaseTestCase):
    """For how long RabbitMQ keeps the queue of who was killed, in seconds."""

    def expiry(self, query='', **options):
        conf = cfg.ConfigOpts()
        self.addCleanup(conf.reset)
        oslo_messaging.set_transport_defaults('nova')
        # it registers the driver's options
        oslo_messaging.get_rpc_transport(conf, url='rabbit://localhost/')
        conf([])
        conf.set_override('transport_url', f'rabbit://localhost/{query}')
        for name, value in options.items():
            conf.set_override(name, value, 'oslo_messaging_rabbit')
        transport = reports.get_transport(conf)
        driver = transport._driver.conf.oslo_messaging_rabbit
        return driver.rabbit_transient_queues_ttl

    def test_a_minute_at_most(self):
        self.assertEqual(60, self.expiry())
        self.assertEqual(30, self.expiry(rabbit_transient_queues_ttl=30))
        # no end, to RabbitMQ
        self.assertEqual(60, self.expiry(rabbit_transient_queues_ttl=0))

    def test_as_configured(self):
        ttl = 'rabbit_transient_queues_ttl'
        self.assertEqual(900, self.expiry(query=f'?{ttl}=900'))
        for option in ('rabbit_stream_fanout', 'use_queue_manager'):
            self.assertEqual(
                1800,
                self.expiry(**{option: True, 'rabbit_quorum_queue': True}),
            )

    def test_other_drivers(self):
        conf = cfg.ConfigOpts()
        self.addCleanup(conf.reset)
        oslo_messaging.get_rpc_transport(conf, url='fake:/')
        conf([])
        conf.set_override('transport_url', 'fake:/')
        reports.get_transport(conf)


class MessagingTest(base.BaseTestCase):
    """Over the in-memory messaging driver."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.transport = oslo_messaging.get_rpc_transport(
            cfg.CONF, url='fake:/'
        )

    def start(self, kind, *callbacks):
        listener = kind(self.transport, *callbacks, str(uuid.uuid4()))
        listener.start()
        self.addCleanup(listener.stop)
        return listener

    def test_each_listener_hears_each_report(self):
        heard = [queue.Queue(), queue.Queue()]
        for one in heard:
            self.start(reports.ReportListener, one.put)
        host = str(uuid.uuid4())
        reports.send_report(
            self.transport, test_report_format.changed('host', host)
        )
        for one in heard:
            self.assertEqual(
                test_report_format.changed('host', host), one.get(timeout=120)
            )

    def test_a_malformed_report_is_logged_and_skipped(self):
        heard = queue.Queue()
        self.start(reports.ReportListener, heard.put)
        reports.send_report(
            self.transport, test_report_format.changed('version', 9)
        )
        reports.send_report(self.transport, test_report_format.REPORT)
        self.assertEqual(test_report_format.REPORT, heard.get(timeout=120))
        self.assertIn('malformed report: report: version=9', self.log.output)

    def test_malformed_reports_of_a_host_are_logged_once(self):
        heard = queue.Queue()
        listener = self.start(reports.ReportListener, heard.put)
        other = test_report_format.changed('host', 'compute-2')
        for _ in range(3):
            reports.send_report(
                self.transport, test_report_format.changed('version', 9)
            )
            reports.send_report(self.transport, other)
            self.assertEqual(other, heard.get(timeout=120))
        # those that are being received
        listener.stop()
        self.assertEqual(1, self.log.output.count('malformed report'))

    def test_reports_are_taken_one_after_the_other(self):
        """The first one may take longer than the second."""
        heard = queue.Queue()
        seconds = {'first': 0.2, 'second': 0}

        def take(report):
            time.sleep(seconds[report['host']])
            heard.put(report['host'])

        self.start(reports.ReportListener, take)
        for host in seconds:
            reports.send_report(
                self.transport, test_report_format.changed('host', host)
            )
        self.assertEqual(
            ['first', 'second'], [heard.get(timeout=120) for _ in range(2)]
        )

    def test_a_listener_that_fails_hears_the_next_report(self):
        heard = queue.Queue()

        def take(report):
            heard.put(report['host'])
            if report['host'] == 'bad':
                raise RuntimeError('cannot take it')

        self.start(reports.ReportListener, take)
        for host in ('bad', 'good'):
            reports.send_report(
                self.transport, test_report_format.changed('host', host)
            )
        self.assertEqual(
            {'bad', 'good'}, {heard.get(timeout=120) for _ in range(2)}
        )

    def test_all_agents_hear_a_request(self):
        heard = queue.Queue()
        for number in range(3):
            self.start(
                reports.RequestListener,
                lambda number=number: heard.put(number),
                lambda: heard.put('nobody asked for that'),
            )
        reports.request_reports(self.transport)
        self.assertEqual({0, 1, 2}, {heard.get(timeout=120) for _ in range(3)})

    def test_one_agent_hears_a_request_to_it(self):
        heard = queue.Queue()
        hosts = [str(uuid.uuid4()) for _ in range(3)]
        for host in hosts:
            listener = reports.RequestListener(
                self.transport,
                lambda: heard.put('nobody asked for that'),
                lambda host=host: heard.put(host),
                host,
            )
            listener.start()
            self.addCleanup(listener.stop)
        for host in (hosts[1], hosts[0]):
            reports.renew_report(self.transport, host)
        self.assertEqual(
            set(hosts[:2]), {heard.get(timeout=120) for _ in range(2)}
        )
        self.assertRaises(queue.Empty, heard.get, timeout=0.2)

    def test_heartbeats_are_told_from_reports(self):
        heard = queue.Queue()
        listener = reports.ReportListener(
            self.transport,
            lambda report: heard.put(('report', report)),
            str(uuid.uuid4()),
            lambda heartbeat: heard.put(('heartbeat', heartbeat)),
        )
        listener.start()
        self.addCleanup(listener.stop)
        report = report_format.with_digest(test_report_format.REPORT)
        for message in (report, report_format.heartbeat(report)):
            reports.send_report(self.transport, message)
        self.assertEqual(
            {'report': report, 'heartbeat': report_format.heartbeat(report)},
            dict(heard.get(timeout=120) for _ in range(2)),
        )
        self.assertNotIn('malformed', self.log.output)

    def test_schedulers_tell_their_software(self):
        software = {'release': '2.0.0', 'profiles': 'abc'}
        heard = queue.Queue()
        scheduler = reports.ReportListener(
            self.transport,
            lambda report: None,
            str(uuid.uuid4()),
            send_software=lambda: reports.send_software(
                self.transport, 'control', software
            ),
        )
        asker = reports.SchedulerListener(self.transport, heard.put)
        for listener in (scheduler, asker):
            listener.start()
            self.addCleanup(listener.stop)
        reports.request_software(self.transport)
        self.assertEqual(
            {'host': 'control', **software}, heard.get(timeout=120)
        )
        reports.send_software(self.transport, 'control', {'release': 2})
        reports.request_software(self.transport)
        heard.get(timeout=120)
        self.assertTrue(heard.empty())

    def test_a_stopped_listener_hears_nothing(self):
        heard = queue.Queue()
        listener = self.start(reports.ReportListener, heard.put)
        listener.stop()
        reports.send_report(self.transport, test_report_format.REPORT)
        time.sleep(0.2)
        self.assertTrue(heard.empty())
