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


"""Copies of volumes of the driver, on the real cloud."""

import hashlib
import json
import os

from tests.e2e import base
from tests.e2e import features
from tools.minicloud import checks


class CopiesTest(features.FeaturesTestCase):
    def test_backup_and_restore(self):
        server = self.boot('plain', self.host)
        volume = self.bound(server)
        path = self.path(volume)
        features.write(path, 'kept')
        backup = self.post('/backups', {'backup': {'volume_id': volume}})[
            'backup'
        ]['id']
        self._wait_backup(backup)
        features.write(path, 'lost')
        self.post(
            f'/backups/{backup}/restore', {'restore': {'volume_id': volume}}
        )
        self._wait_backup(backup)
        self.api.wait_volume(volume, 'available')
        self.assertTrue(features.seeded(path, 'kept'))
        self.assert_private(path)
        self.assertEqual(base.GIB, path.stat().st_blocks * 512)

    def _wait_backup(self, backup):
        def ready():
            found = self.api.get('volumev3', f'/backups/{backup}')['backup']
            self.assertNotEqual('error', found['status'], found)
            return found['status'] == 'available'

        self.eventually('backup', ready)

    def test_images(self):
        # only the libvirt host has that backend
        type_ = self.make_type('vdisk-hdd')
        volume = self.volume(volume_type=type_, imageRef=self.cloud.image)
        self.assertEqual('true', self.api.volume(volume)['bootable'])
        self.assert_private(self.path(volume))
        self.assertEqual(base.GIB, self.path(volume).stat().st_blocks * 512)
        root = {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': volume,
            'boot_index': 0,
        }
        body = {
            'name': 'from-volume',
            'flavorRef': self.cloud.flavors['plain'],
            'networks': 'none',
            'block_device_mapping_v2': [root],
            'host': self.host,
        }
        server = self.api.post('compute', '/servers', {'server': body})
        server = server['server']['id']
        self.api.wait_server(server)
        self.eventually(
            'guest',
            lambda: 'guest: ready' in self.api.console(server),
            base.GUEST_TIMEOUT,
        )
        self.api.delete_server(server)
        self.api.wait_volume(volume, 'available')
        features.write(self.path(volume), 'image')
        image = self.action(
            volume,
            **{
                'os-volume_upload_image': {
                    'image_name': 'from-volume',
                    'disk_format': 'raw',
                    'container_format': 'bare',
                }
            },
        )['os-volume_upload_image']['image_id']
        self.addCleanup(self.api.delete, 'image', f'/v2/images/{image}')
        self.api.wait_volume(volume, 'available')
        found = self.api.get('image', f'/v2/images/{image}')
        self.assertEqual(
            ('active', base.GIB), (found['status'], found['size'])
        )
        self.assertEqual('sha512', found['os_hash_algo'])
        with self.path(volume).open('rb') as stream:
            wanted = hashlib.file_digest(stream, 'sha512').hexdigest()
        self.assertEqual(wanted, found['os_hash_value'])

    def test_retype_to_another_medium(self):
        server = self.boot('plain', self.host)
        volume = self.bound(server)
        before = self.path(volume)
        features.write(before, 'moved')
        wanted = features.digest(before)
        rotational = self.make_type('vdisk-hdd')
        self.action(
            volume,
            **{
                'os-retype': {
                    'new_type': rotational,
                    'migration_policy': 'on-demand',
                }
            },
        )

        def moved():
            found = self.api.volume(volume)
            return (
                found['status'] == 'available'
                and '@vdisk-hdd#' in found['os-vol-host-attr:host']
            )

        self.eventually('retype', moved)
        # Cinder calls a volume available before it has deleted the source
        self.eventually('deletion of the source', lambda: not before.exists())
        after = self._only()
        self.assertNotEqual(checks.disk_of(after), self._disk(before))
        self.assertEqual('hdd', self._medium(after))
        self.assertEqual(wanted, features.digest(after))
        self.assert_private(after)
        self.api.attach(server, volume)
        source = self.disk_element(server, volume).find('source')
        self.assertEqual(str(after), os.path.realpath(source.get('file')))

    def _only(self):
        """Return the only vdisk file on the host."""
        root = self.cloud.state.disk_root(self.host)
        (path,) = root.glob('*/vdisks/*')
        return path

    def _disk(self, path):
        return path.parent.parent.name

    def _medium(self, path):
        identity = path.parent.parent / checks.IDENTITY
        return json.loads(identity.read_text())['medium']
