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

"""Encrypted volumes in real Cinder, with keys in memory."""

import os
import subprocess

import fixtures
from castellan.tests.unit.key_manager import mock_key_manager
from cinder import objects

from tests import loops
from tests.functional.cinder import test_driver

GIB = 1 << 30


class EncryptionTestCase(test_driver.DriverTestCase):
    def setUp(self):
        # one for all of Cinder's parts
        self.keys = mock_key_manager.MockKeyManager()
        self.patch('castellan.key_manager.API', return_value=self.keys)
        super().setUp()
        self.without_sudo()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.driver = self.volume[0].manager.driver
        self.server_id = self.server()

    def encrypted(self, size=1, provider='luks', status='available'):
        """Return a volume of a new type, as the database has it."""
        type_ = self.api.create_type(f'encrypted-{provider}')['id']
        self.api.api_post(
            f'/types/{type_}/encryption',
            {
                'encryption': {
                    'provider': provider,
                    'cipher': 'aes-xts-plain64',
                    'key_size': 256,
                    'control_location': 'front-end',
                }
            },
        )
        body = {
            'volume': {'size': size, 'volume_type': type_},
            'OS-SCH-HNT:scheduler_hints': {
                'local_to_instance': self.server_id
            },
        }
        volume = self.api.post_volume(body)
        self.wait(volume['id'], status)
        return objects.Volume.get_by_id(self.context, volume['id'])

    def copy(self, row, images):
        self.driver.copy_image_to_encrypted_volume(
            self.context, row, images, 'an-image'
        )

    def content(self, path, row, length=5000):
        """Return the begin of what QEMU reads with a volume's key."""
        key = self.keys.get(self.context, row.encryption_key_id)
        secret = os.path.join(self.directory, 'secret')
        with open(secret, 'w') as stream:
            stream.write(key.get_encoded().hex())
        out = os.path.join(self.directory, 'out')
        subprocess.run(
            [
                'qemu-img',
                'dd',
                '--object',
                f'secret,id=s,format=raw,file={secret}',
                '--image-opts',
                *('-O', 'raw', 'bs=1M', 'count=1'),
                f'if=driver=luks,key-secret=s,file.filename={path}',
                f'of={out}',
            ],
            check=True,
        )
        with open(out, 'rb') as stream:
            return stream.read(length)

    def test_image(self):
        row = self.encrypted()
        images = test_driver.Images(b'image' * 1000)
        self.copy(row, images)
        path = self.driver.local_path(row)
        self.assertEqual(images.content, self.content(path, row))
        status = os.stat(path)
        self.assertEqual(GIB, status.st_size)
        self.assertGreaterEqual(status.st_blocks * 512, GIB)
        self.assertEqual(1, sum(self.host.reserved().values()))
        # a clone has the key of its source
        volume = self.api.post_volume(
            {'volume': {'size': 2, 'source_volid': row.id}}
        )
        self.wait(volume['id'], 'available')
        clone = objects.Volume.get_by_id(self.context, volume['id'])
        path = self.driver.local_path(clone)
        self.assertEqual(images.content, self.content(path, clone))

    def test_other_provider(self):
        self.encrypted(provider='luks2', status='error')
        self.assertIn('must be of provider luks', self.log.output)
        self.assertEqual({}, self.held())

    def test_block_device(self):
        """What is a device to LVM is written like a file."""
        device = self.useFixture(loops.LoopDevice(1)).device
        row = self.encrypted()
        self.patch(
            'cinder_vdisk_mapper.driver.VDiskMapperDriver._attach_volume',
            return_value=({'device': {'path': device}}, row),
        )
        self.patch(
            'cinder_vdisk_mapper.driver.VDiskMapperDriver._detach_volume'
        )
        images = test_driver.Images(b'image' * 1000)
        self.copy(row, images)
        self.assertEqual(images.content, self.content(device, row))
