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

"""Tests of what first requests wait for."""

import threading
import types
import unittest
from unittest import mock

import oslo_messaging

from nova_diskplacer.profiles import catalogue
from nova_diskplacer.scheduler import report_listener
from tests.unit.nova_diskplacer.scheduler import fakes


class CacheUpdaterTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(report_listener, 'reports')
        self.reports = patch.start()
        self.addCleanup(patch.stop)

    def _cache(self, expected):
        """Return the cache as the first request of a worker gets it."""
        listener = self.updater = report_listener.CacheUpdater(
            None, fakes.make_cache(), expected, timeout=3600.0
        )
        listener.start()
        self.take = self.reports.ReportListener.call_args.args[1]
        got = []
        request = threading.Thread(
            target=lambda: got.append(listener.cache()), daemon=True
        )
        request.start()
        return request, got

    def test_waits_until_all_hosts_with_disks_have_reported(self):
        request, got = self._cache(lambda: {fakes.host_uuid(0)})
        self.take(fakes.report(1, fakes.disk(1, 0)))
        self.assertEqual([], got)
        self.take(fakes.report(0, fakes.disk(0, 0)))
        request.join(120)
        self.assertEqual(2, len(got[0]))

    def test_tells_its_software(self):
        options = types.SimpleNamespace(
            host='control',
            diskplacer=types.SimpleNamespace(profile_dirs=[]),
        )
        request, _ = self._cache(set)
        request.join(120)
        tell = self.reports.ReportListener.call_args.kwargs['send_software']
        with mock.patch.object(report_listener.conf, 'CONF', options):
            tell()
        self.reports.send_software.assert_called_once_with(
            None, 'control', catalogue.software([])
        )

    def test_asks_for_a_report_that_it_does_not_have(self):
        request, got = self._cache(lambda: {fakes.host_uuid(0)})
        confirm = self.reports.ReportListener.call_args.kwargs['heartbeat']

        def heartbeat(digest):
            confirm(
                {
                    'host': 'host0',
                    'provider': fakes.host_uuid(0),
                    'digest': digest,
                }
            )

        # answers to the call for all reports are on their way
        heartbeat('one')
        report = fakes.report(0, fakes.disk(0, 0))
        self.take({**report, 'digest': 'one'})
        request.join(120)
        heartbeat('one')
        self.reports.renew_report.assert_not_called()
        heartbeat('two')
        self.reports.renew_report.assert_called_once_with(None, 'host0')

    def test_nobody_waits_after_the_end(self):
        request, got = self._cache(lambda: {fakes.host_uuid(0)})
        self.assertEqual([], got)
        self.updater.stop()
        request.join(120)
        self.assertEqual(1, len(got))
        self.reports.ReportListener.return_value.stop.assert_called_once()
        for thread in threading.enumerate():
            if getattr(thread, '_target', None) in (
                self.updater._become_ready,
                self.updater._renew,
            ):
                thread.join(120)
                self.assertFalse(thread.is_alive())

    def test_nothing_listens_where_no_report_can_be_requested(self):
        away = oslo_messaging.MessageDeliveryFailure('away')
        self.reports.request_reports.side_effect = away
        with self.assertRaises(oslo_messaging.MessageDeliveryFailure):
            self._cache(set)
        listener = self.reports.ReportListener.return_value
        listener.start.assert_called_once()
        listener.stop.assert_called_once()

    def test_nobody_waits_where_placement_answers_nonsense(self):
        def nonsense():
            raise ValueError('no JSON')

        with self.assertLogs(report_listener.LOG.logger, 'ERROR') as logs:
            request, got = self._cache(nonsense)
            request.join(120)
        self.assertEqual(1, len(got))
        self.assertEqual(1, len(logs.output))
