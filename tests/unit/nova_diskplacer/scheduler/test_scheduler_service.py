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

"""Tests of what is called when nova-scheduler has stopped."""

import types
import unittest
from unittest import mock

from nova import service as nova_service

from nova_diskplacer import internals
from nova_diskplacer.scheduler import scheduler_service


class CallAfterStopTest(unittest.TestCase):
    def setUp(self):
        self.stop = mock.Mock(name='stop', __name__='stop')
        patch = mock.patch.object(nova_service.Service, 'stop', self.stop)
        patch.start()
        self.addCleanup(patch.stop)
        self.done = mock.Mock(name='end')
        self.done.side_effect = self.stop.assert_called_once

    def _stop(self, binary='nova-scheduler'):
        service = types.SimpleNamespace(binary=binary)
        nova_service.Service.stop(service)
        self.stop.assert_called_once_with(service)

    def test_after_a_scheduler_once(self):
        for _ in range(2):
            # as each filter of a scheduler does
            scheduler_service.call_after_stop(self.done)
        self._stop()
        self.done.assert_called_once_with()

    def test_not_after_another_service(self):
        scheduler_service.call_after_stop(self.done)
        self._stop('nova-compute')
        self.done.assert_not_called()

    def test_after_a_stop_that_fails(self):
        self.stop.side_effect = OSError
        scheduler_service.call_after_stop(self.done)
        with self.assertRaises(OSError):
            self._stop()
        self.done.assert_called_once_with()

    def test_an_end_that_fails(self):
        self.done.side_effect = OSError
        scheduler_service.call_after_stop(self.done)
        with self.assertLogs(scheduler_service.LOG.logger, 'ERROR'):
            self._stop()

    def test_nova_that_has_no_such_service(self):
        with (
            mock.patch.object(internals, 'missing', return_value=['stop']),
            self.assertNoLogs(scheduler_service.LOG.logger, 'INFO'),
        ):
            scheduler_service.call_after_stop(self.done)
        self.assertIs(self.stop, nova_service.Service.stop)
