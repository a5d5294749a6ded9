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
import stat
import subprocess
from unittest import mock

import fixtures
from castellan.tests.unit.key_manager import mock_key_manager
from cinder import objects
from os_brick.encryptors import luks

from tests import loops
from tests.functional.cinder import test_driver
from tests.functional.cinder import test_migration

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

    def test_clone_of_an_unbound_volume(self):
        """Cinder would attach it to change its key."""
        row = self.encrypted()
        volume = self.api.post_volume(
            {'volume': {'size': 1, 'source_volid': row.id}}
        )
        self.wait(volume['id'], 'available')
        clone = objects.Volume.get_by_id(self.context, volume['id'])
        self.assertIsNone(clone.provider_location)
        self.assertIsNotNone(clone.encryption_key_id)
        self.assertEqual({}, self.held())

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


class DMCrypt(fixtures.Fixture):
    """Keeps devices open as dm-crypt does, in the place of cryptsetup.

    ``paths`` are those of all devices that os-brick was given.
    """

    def _setUp(self):
        self.open = {}
        self.paths = []
        for name, method in (
            ('attach_volume', self.attach),
            ('detach_volume', self.detach),
        ):
            patch = mock.patch.object(luks.LuksEncryptor, name, method)
            patch.start()
            self.addCleanup(patch.stop)

    @property
    def attach(self):
        def attach_volume(encryptor, context, **kwargs):
            descriptor = os.open(encryptor.dev_path, os.O_RDWR)
            self.open[encryptor.dev_name] = descriptor
            self.paths.append(encryptor.symlink_path)
            # as ``ln --symbolic --force`` does
            os.unlink(encryptor.symlink_path)
            os.symlink(
                f'/proc/{os.getpid()}/fd/{descriptor}', encryptor.symlink_path
            )

        return attach_volume

    @property
    def detach(self):
        def detach_volume(encryptor, **kwargs):
            os.close(self.open.pop(encryptor.dev_name))

        return detach_volume


class RetypeTestCase(test_migration.MigrationTestCase):
    """The type of a volume changes to one with other encryption."""

    def setUp(self):
        self.patch(
            'castellan.key_manager.API',
            return_value=mock_key_manager.MockKeyManager(),
        )
        super().setUp()
        self.crypt = self.useFixture(DMCrypt())

    def type_with(self, key_size):
        """Create an encrypted volume type, and return its name."""
        name = f'luks-{key_size}'
        type_ = self.api.create_type(name)['id']
        self.api.api_post(
            f'/types/{type_}/encryption',
            {
                'encryption': {
                    'provider': 'luks',
                    'cipher': 'aes-xts-plain64',
                    'key_size': key_size,
                    'control_location': 'front-end',
                }
            },
        )
        return name

    def driver_of(self, row):
        """Return the driver of a volume."""
        (driver,) = (
            service.manager.driver
            for service in self.volume
            if row.host.startswith(f'{service.manager.host}#')
        )
        return driver

    def test_from_one_encryption_to_another(self):
        before, after = self.type_with(256), self.type_with(512)
        volume = self.api.post_volume(
            {'volume': {'size': 1, 'volume_type': before}}
        )
        self.wait(volume['id'], 'available')
        row = objects.Volume.get_by_id(self.context, volume['id'])
        driver = self.driver_of(row)
        driver._connections.bind(row)
        path = driver.local_path(row)
        content = os.urandom(1 << 20)
        with open(path, 'r+b') as stream:
            stream.write(content)
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {
                'os-retype': {
                    'new_type': after,
                    'migration_policy': 'on-demand',
                }
            },
            check_response_status=[202],
        )
        self.wait_until(
            lambda: self.is_retyped(volume, after), 'the volume is retyped'
        )
        row = objects.Volume.get_by_id(self.context, volume['id'])
        now = self.driver_of(row).local_path(row)
        self.assertNotEqual(path, now)
        status = os.lstat(now)
        self.assertTrue(stat.S_ISREG(status.st_mode))
        self.assertEqual(GIB, status.st_size)
        with open(now, 'rb') as stream:
            self.assertEqual(content, stream.read(len(content)))
        self.wait_until(
            lambda: not os.path.lexists(path), 'the former vdisk is gone'
        )
        self.assertEqual((2, {}), (len(self.crypt.paths), self.crypt.open))
        left = {os.path.lexists(path) for path in self.crypt.paths}
        self.assertEqual({False}, left)
        self.delete(volume)
        disks = self.host.disks().values()
        self.assertEqual([], [name for disk in disks for name in disk.vdisks])

    def is_retyped(self, volume, name):
        row = objects.Volume.get_by_id(self.context, volume['id'])
        if row.status == 'error' or row.migration_status == 'error':
            self.fail(f'{row}: {self.log.output[-3000:]}')
        return row.volume_type.name == name and row.status == 'available'
