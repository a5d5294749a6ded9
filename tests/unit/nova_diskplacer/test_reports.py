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

import copy
import queue
import time
import uuid

import fixtures
import oslo_messaging
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer import reports
from nova_diskplacer.scheduler import host_disk_cache

REPORT = {
    'version': 1,
    'host': 'compute-1',
    'compute_node': 'compute-1.example.org',
    'provider': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0001',
    'disks': [
        {
            'uuid': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0002',
            'medium': 'hdd',
            'model': 'ST8000',
            'numa_node': 1,
            'total_gb': 100,
            'reserved_gb': 5,
            'used_gb': 30,
            'total_mbps': 150,
            'used_mbps': 0,
            'health': 'ok',
            'vdisks': [
                {'volume_id': 'v1', 'server_id': 's1', 'size_gb': 30},
                {
                    'volume_id': 'p',
                    'server_id': None,
                    'size_gb': 5,
                    'is_snapshot': True,
                },
            ],
        },
        {
            'uuid': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0003',
            'medium': '',
            'model': '',
            'numa_node': None,
            'total_gb': 100,
            'reserved_gb': 100,
            'used_gb': 0,
            'total_mbps': 150,
            'used_mbps': 0,
            'health': 'missing',
            'vdisks': [],
        },
    ],
}


def changed(*path_and_value):
    """Return ``REPORT`` with one value replaced."""
    *path, key, value = path_and_value
    report = copy.deepcopy(REPORT)
    place = report
    for step in path:
        place = place[step]
    place[key] = value
    return report


def without(*path):
    """Return ``REPORT`` with one key removed."""
    report = changed(*path, None)
    place = report
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return report


class CheckTest(base.BaseTestCase):
    def refuse(self, report, *words):
        error = self.assertRaises(ValueError, reports.check, report)
        for word in words:
            self.assertIn(word, str(error))

    def test_good(self):
        self.assertEqual(REPORT, reports.check(copy.deepcopy(REPORT)))

    def test_what_a_later_version_adds_is_no_error(self):
        reports.check(changed('disks', 0, 'temperature', 40))

    def test_the_cache_mode_may_be_absent_or_unknown(self):
        for mode in ('none', 'writeback', None):
            report = {**REPORT, 'cache_mode': mode}
            self.assertEqual(report, reports.check(report))
        self.refuse({**REPORT, 'cache_mode': 7}, 'cache_mode: 7 is not of')

    def test_the_pressure_may_be_absent(self):
        for pressure in (0, 7, 100):
            report = changed('disks', 0, 'pressure', pressure)
            self.assertEqual(report, reports.check(copy.deepcopy(report)))
        for pressure in (-1, 101, 1 << 40, 0.5, '7', True, None):
            self.refuse(
                changed('disks', 1, 'pressure', pressure),
                f'disks.1.pressure={pressure!r} is not',
                'an integer from 0 to 100',
            )

    def test_no_report(self):
        for report in (None, [], 'report', 7):
            self.refuse(report, f'{report!r} is not of type', 'object')

    def test_versions(self):
        for version in (1, 2):
            reports.check(changed('version', version))
        self.refuse(changed('version', 3), 'version=3 is not one of: 1, 2')

    def test_the_digest_is_that_of_all_contents(self):
        report = reports.with_digest(REPORT)
        self.assertEqual(report, reports.check(copy.deepcopy(report)))
        self.assertEqual(report, reports.with_digest(copy.deepcopy(REPORT)))
        for other in (
            changed('cache_mode', 'none'),
            changed('disks', 0, 'used_gb', 31),
            changed('disks', 0, 'vdisks', []),
        ):
            self.assertNotEqual(
                report['digest'], reports.with_digest(other)['digest']
            )

    def test_a_heartbeat(self):
        report = reports.with_digest(REPORT)
        heartbeat = reports.heartbeat(report)
        self.assertEqual(
            {
                'version': 1,
                'host': 'compute-1',
                'provider': REPORT['provider'],
                'digest': report['digest'],
            },
            reports.check_heartbeat(heartbeat),
        )
        self.assertTrue(reports.is_heartbeat(heartbeat))
        self.assertFalse(reports.is_heartbeat(report))
        for bad, word in (
            ({**heartbeat, 'version': 3}, 'version=3'),
            ({**heartbeat, 'digest': 7}, 'digest'),
            ({**heartbeat, 'provider': None}, 'provider'),
        ):
            error = self.assertRaises(ValueError, reports.check_heartbeat, bad)
            self.assertIn(word, str(error))

    def test_each_key_is_needed(self):
        for key in REPORT:
            self.refuse(without(key), f'{key!r} is a required property')
        for path in (
            *(('disks', 0, key) for key in REPORT['disks'][0]),
            *(
                ('disks', 0, 'vdisks', 0, key)
                for key in REPORT['disks'][0]['vdisks'][0]
            ),
        ):
            where = '.'.join(map(str, path[:-1]))
            self.refuse(without(*path), f'{where} has no {path[-1]!r}')

    def test_each_value_has_its_type(self):
        for path in (
            *((key,) for key in REPORT),
            *(('disks', 0, key) for key in REPORT['disks'][0]),
            *(
                ('disks', 0, 'vdisks', 0, key)
                for key in REPORT['disks'][0]['vdisks'][0]
            ),
        ):
            for value in ({}, 1.5, True):
                where = '.'.join(map(str, path))
                self.refuse(changed(*path, value), where, 'is not')

    def test_disks_and_vdisks_are_dictionaries(self):
        self.refuse(changed('disks', 0, None), 'disks.0: None is not of type')
        self.refuse(
            changed('disks', 0, 'vdisks', 0, 'v1'),
            "disks.0.vdisks.0='v1' is not a dictionary",
        )
        self.refuse(
            changed('disks', 0, 'vdisks', 1, 'is_snapshot', 'yes'),
            "disks.0.vdisks.1.is_snapshot='yes' is not true or false",
        )

    def test_figures_are_not_negative_and_fit_an_array(self):
        for path in (
            *((key,) for key in host_disk_cache._AMOUNTS),
            ('numa_node',),
            ('vdisks', 0, 'size_gb'),
        ):
            reports.check(changed('disks', 0, *path, constants.MAX_FIGURE))
            for value in (-1, constants.MAX_FIGURE + 1, 1 << 63):
                self.refuse(
                    changed('disks', 0, *path, value), path[-1], str(value)
                )

    def test_medium(self):
        self.refuse(changed('disks', 0, 'medium', 'tape'), 'tape', 'hdd, ssd')

    def test_medium_of_a_disk_that_is_not_there(self):
        reports.check(changed('disks', 1, 'medium', ''))
        self.refuse(changed('disks', 0, 'medium', ''), 'hdd, ssd')

    def test_health(self):
        self.refuse(changed('disks', 0, 'health', 'tired'), 'tired', 'missing')

    def test_one_disk_twice(self):
        self.refuse(
            changed('disks', 1, REPORT['disks'][0]),
            'twice',
            REPORT['disks'][0]['uuid'],
        )


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
        reports.send_report(self.transport, changed('host', host))
        for one in heard:
            self.assertEqual(changed('host', host), one.get(timeout=120))

    def test_a_malformed_report_is_logged_and_skipped(self):
        heard = queue.Queue()
        self.start(reports.ReportListener, heard.put)
        reports.send_report(self.transport, changed('version', 9))
        reports.send_report(self.transport, REPORT)
        self.assertEqual(REPORT, heard.get(timeout=120))
        self.assertIn('malformed report: report: version=9', self.log.output)

    def test_malformed_reports_of_a_host_are_logged_once(self):
        heard = queue.Queue()
        listener = self.start(reports.ReportListener, heard.put)
        other = changed('host', 'compute-2')
        for _ in range(3):
            reports.send_report(self.transport, changed('version', 9))
            reports.send_report(self.transport, other)
            self.assertEqual(other, heard.get(timeout=120))
        # those that are being received
        listener.stop()
        self.assertEqual(1, self.log.output.count('malformed report'))

    def test_a_listener_that_fails_hears_the_next_report(self):
        heard = queue.Queue()

        def take(report):
            heard.put(report['host'])
            if report['host'] == 'bad':
                raise RuntimeError('cannot take it')

        self.start(reports.ReportListener, take)
        for host in ('bad', 'good'):
            reports.send_report(self.transport, changed('host', host))
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
        report = reports.with_digest(REPORT)
        for message in (report, reports.heartbeat(report)):
            reports.send_report(self.transport, message)
        self.assertEqual(
            {'report': report, 'heartbeat': reports.heartbeat(report)},
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
        reports.send_report(self.transport, REPORT)
        time.sleep(0.2)
        self.assertTrue(heard.empty())
