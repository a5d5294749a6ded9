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

"""The backends of this host that stripe, and their volumes."""

from unittest import mock

import testtools
from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.cinder_vdisk_mapper.attach import test_striped_binding


class SetupTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.kinds = {
            'node@files': fakes.Backend(),
            'node@lvm': test_striped_binding.StripingBackend(),
        }
        options = {
            name: mock.Mock(backend=backend, vdisk_media='hdd')
            for name, backend in self.kinds.items()
        }
        for target, name, value in (
            (locks, 'make_directory', None),
            (backend_sections, 'read', options),
            (placement_client.PlacementClient, 'from_conf', None),
        ):
            patch = mock.patch.object(target, name, return_value=value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(base, 'load', lambda one: one.backend)
        patch.start()
        self.addCleanup(patch.stop)

    def find(self, host):
        volume = test_driver.volume(host=host)
        with mock.patch.object(
            objects.Volume, 'get_by_id', return_value=volume
        ):
            return backends.find(mock.Mock(), 'id')

    def test_backend_of_a_volume(self):
        found, volume = self.find('node@lvm#pool')
        self.assertEqual(
            ('node@lvm', 'hdd', 'node@lvm#pool'),
            (found.name, found.media, volume.host),
        )
        self.assertIs(self.kinds['node@lvm'], found.storage)
        self.assertIs(found.storage, found.operations.backend)

    def test_no_backend(self):
        for host in ('node@files#pool', 'other@lvm', None):
            error = self.assertRaises(exception.DiskError, self.find, host)
            self.assertIn(f'belongs to {host}', str(error))
            self.assertIn('vdisk_backend=lvm are node@lvm', str(error))
        with mock.patch.object(
            objects.Volume,
            'get_by_id',
            side_effect=cinder_exc.VolumeNotFound(volume_id='id'),
        ):
            error = self.assertRaises(
                exception.DiskError, backends.find, mock.Mock(), 'id'
            )
        self.assertIn('Cinder has no volume id', str(error))
