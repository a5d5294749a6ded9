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

"""The LVM backend with a fake helper process."""

import os
from unittest import mock

import fixtures
import testtools
from cinder.volume import volume_utils
from oslo_concurrency import processutils

from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import lvm
from nova_diskplacer import exception
from nova_diskplacer.disks import discover

MIB = 1 << 20
UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class WipeTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(
            privsep_lvm.context.set_client_mode,
            privsep_lvm.context.client_mode,
        )
        self.calls = mock.Mock()
        self.backend = lvm.LVMBackend('/disks')
        self.backend._run = lambda operation, *arguments: getattr(
            self.calls, operation
        )(*arguments)
        for module, name in (
            (volume_utils, 'clear_volume'),
            (lvm, '_supports_write_zeroes'),
        ):
            patch = mock.patch.object(module, name, getattr(self.calls, name))
            patch.start()
            self.addCleanup(patch.stop)
        self.calls.legs.side_effect = lambda disk, name: [name]
        self.calls.mark_deleted.return_value = ('/dev/x', 100 * MIB)
        self.calls._supports_write_zeroes.return_value = False
        self.backend.configuration = mock.Mock(
            volume_clear='zero', volume_clear_size=0, volume_clear_ionice='-c3'
        )

    def delete(self):
        """Return the names of the calls, and whether all was wiped."""
        self.calls.reset_mock()
        self.backend.delete(UUID, 'volume-1')
        self.calls.remove.assert_called_once_with(UUID, 'volume-1', mock.ANY)
        names = [call[0] for call in self.calls.mock_calls]
        self.assertEqual(
            ('legs', 'mark_deleted', 'remove'), (*names[:2], names[-1])
        )
        wiped = self.calls.remove.call_args[0][2]
        return [
            name for name in names[2:-1] if not name.startswith('_')
        ], wiped

    def test_links_lead_to_volumes(self):
        """Also where a remote vdisk, which is a device, was linked."""
        with mock.patch.object(self.backend, '_run') as run:
            for to_device in (None, True, False):
                self.backend.link('disk', 'volume-1', to_device)
                run.assert_called_with('link', 'disk', 'volume-1', False)

    def test_attached_volumes_are_active(self):
        self.backend.attach_device(UUID, 'volume-1')
        self.calls.activate.assert_called_once_with(UUID, 'volume-1')

    def test_zero(self):
        self.assertEqual((['clear_volume'], True), self.delete())
        self.calls.clear_volume.assert_called_once_with(
            100,
            '/dev/x',
            volume_clear='zero',
            volume_clear_size=0,
            volume_clear_ionice='-c3',
        )

    def test_the_device_zeroes(self):
        self.calls._supports_write_zeroes.return_value = True
        self.assertEqual((['zero'], True), self.delete())

    def test_none(self):
        self.backend.configuration.volume_clear = 'none'
        self.assertEqual(([], False), self.delete())

    def test_size(self):
        self.calls._supports_write_zeroes.return_value = True
        for megabytes, expected in (
            (99, (['clear_volume'], False)),
            (100, (['zero'], True)),
            (200, (['zero'], True)),
        ):
            self.backend.configuration.volume_clear_size = megabytes
            self.assertEqual(expected, self.delete())

    def test_nothing_to_wipe(self):
        self.calls.mark_deleted.return_value = None
        self.assertEqual(([], True), self.delete())

    def test_failure_keeps_the_volume(self):
        self.calls.clear_volume.side_effect = (
            processutils.ProcessExecutionError(stderr='I/O error')
        )
        error = self.assertRaises(exception.DiskError, self.delete)
        self.assertIn('/dev/x: I/O error', str(error))
        self.calls.remove.assert_not_called()

    def test_options_without_a_driver(self):
        self.backend.configuration = None
        self.assertEqual((['clear_volume'], True), self.delete())
        (called,) = self.calls.clear_volume.mock_calls
        self.assertEqual('zero', called.kwargs['volume_clear'])


class BackendTestCase(testtools.TestCase):
    def test_forgotten(self):
        root = self.useFixture(fixtures.TempDir()).path
        backend = lvm.LVMBackend(root)
        self.assertFalse(backend.forgotten(UUID))
        discover.set_forgotten(root, UUID, True)
        self.assertTrue(backend.forgotten(UUID))
        os.symlink('/dev/diskplacer-' + UUID, os.path.join(root, UUID))
        self.assertFalse(backend.forgotten(UUID))
        self.assertFalse(lvm.LVMBackend('/no/such').forgotten(UUID))

    def test_device_path(self):
        backend = lvm.LVMBackend('/disks')
        self.assertEqual(
            f'/dev/diskplacer-{UUID}/_snapshot-1',
            backend.device_path(UUID, 'snapshot-1'),
        )
        self.assertRaises(
            exception.DiskError, backend.device_path, '..', 'volume-1'
        )
        self.assertRaises(
            exception.DiskError, backend.device_path, UUID, '../volume-1'
        )
