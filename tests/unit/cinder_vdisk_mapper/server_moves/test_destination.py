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
import testtools
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.server_moves import destination
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer.disks import links

NAME = 'volume-1'


class DestinationTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        conf.config(lock_path=directory, group='oslo_concurrency')
        self.operations = mock.Mock()
        self.backend = self.operations.backend
        self.backend.linked_disk.return_value = links.REMOTE
        self.backend.disks_holding.return_value = ['disk']
        self.backend.in_use.return_value = False
        self.backend.remote_device.return_value = '/dev/session'
        self.log_out = self.patch(remote, 'log_out', mock.Mock())
        self.destination = destination.Destination(
            'host2@vdisk', self.operations, 'any'
        )

    def patch(self, target, name, value):
        patch = mock.patch.object(target, name, value)
        patch.start()
        self.addCleanup(patch.stop)
        return value

    def test_another_request_does_not_end(self):
        """Its session may hang; nobody waits for ever."""
        self.patch(destination, '_LOCK_PATIENCE', 0.05)
        with locks.hold('move-7f3c'):
            lock = self.destination.locked('7f3c')
            error = self.assertRaises(errors.BindingError, lock.__enter__)
        for text in ('7f3c', 'host2@vdisk', 'may hang'):
            self.assertIn(text, str(error))
        self.assertNotIn('host2', error.public)
        with self.destination.locked('7f3c'):
            pass

    def test_a_qemu_that_ends(self):
        self.backend.remote_in_use.side_effect = [True, True, False]
        self.patch(destination, '_INTERVAL', 0.0)
        self.destination.undo(NAME)
        self.log_out.assert_called_once()
        self.operations.delete.assert_called_once_with('disk', NAME)

    def test_a_qemu_that_runs_on(self):
        self.patch(destination, '_PATIENCE', 0.0)
        self.patch(destination, '_INTERVAL', 0.0)
        for here, there in ((True, False), (False, True)):
            self.backend.in_use.return_value = here
            self.backend.remote_in_use.return_value = there
            error = self.assertRaises(
                remote.InUse, self.destination.undo, NAME
            )
            place = 'disk disk' if here else '/dev/session'
            self.assertIn(
                f'a process has {place}',
                str(error).replace('its copy on ', ''),
            )
        self.backend.unlink.assert_not_called()
        self.log_out.assert_not_called()
        self.operations.delete.assert_not_called()

    def test_a_link_that_a_killed_attempt_has_removed(self):
        """The QEMU that runs on needs it for its next start."""
        self.patch(destination, '_PATIENCE', 0.0)
        self.backend.linked_disk.return_value = None
        self.backend.remote_in_use.return_value = True
        self.assertRaises(remote.InUse, self.destination.undo, NAME)
        self.backend.link_remote.assert_called_once_with(NAME)
