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

from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import restore
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.monitor import seek_detector
from tests import configured


class RestoreTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        no_hierarchy = exception.ContentionError('cgroup v1')
        for target, name, mocked in (
            (cgroups, 'hierarchy', mock.Mock(side_effect=no_hierarchy)),
            (bfq_settings, 'BFQSettings', mock.Mock()),
            (seek_detector, 'clean', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, mocked))
        self.restore = bfq_settings.BFQSettings.return_value.restore

    def test_weights_are_restored_while_the_agent_traces(self):
        busy = exception.ContentionError('traces are busy')
        seek_detector.clean.side_effect = busy
        restore.restore_weights(self.conf)
        self.restore.assert_called_once_with()
        seek_detector.clean.assert_not_called()

    def test_each_part_is_restored(self):
        seek_detector.clean.side_effect = exception.ContentionError('busy')
        self.restore.side_effect = exception.DiskError('full')
        failure = self.assertRaises(
            exception.ContentionError,
            restore.restore_kernel_state,
            self.conf,
        )
        self.assertEqual('busy; full', str(failure))
