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

"""Images on encrypted volumes, by the real qemu-img and os-brick."""

import json
import os
import pathlib
import subprocess
import uuid
from unittest import mock

import fixtures
from castellan import key_manager
from cinder import exception as cinder_exc
from cinder import utils
from cinder.image import image_utils
from cinder.volume import throttling
from cinder.volume import volume_utils
from os_brick import encryptors
from oslo_concurrency import processutils

from cinder_vdisk_mapper.attach import connections
from cinder_vdisk_mapper.attach import copy_links
from tests.unit.cinder_vdisk_mapper import test_driver

MIB = 1 << 20
GIB = 1 << 30
KEY = bytes(range(32))
PASSPHRASE = KEY.hex()
HERE = {'host': 'node'}


class EncryptionTestCase(test_driver.DriverTestCase):
    """A volume of 1 GiB, which is a preallocated file."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conversions = self.directory / 'conversion'
        self.conf.config(image_conversion_dir=str(self.conversions))
        self.vdisk = self.directory / 'volume-id'
        with self.vdisk.open('wb') as stream:
            os.posix_fallocate(stream.fileno(), 0, GIB)
        self.volume = test_driver.volume(
            size=1, encryption_key_id='key', provider_location='a'
        )
        self.encryption = {
            'provider': 'luks',
            'control_location': 'front-end',
            'cipher': 'aes-xts-plain64',
            'key_size': 256,
            'encryption_key_id': 'key',
        }
        self.commands = []
        self.sizes = []
        self.patch(
            volume_utils.db,
            'volume_encryption_metadata_get',
            lambda *_: self.encryption,
        )
        self.patch(key_manager, 'API', mock.Mock())
        key = key_manager.API.return_value.get.return_value
        key.get_encoded.return_value = KEY
        self.patch(utils, 'execute', self.execute)
        self.patch(
            throttling.Throttle, 'get_default', lambda: throttling.Throttle()
        )
        self.patch(image_utils, 'fetch_to_raw', self.fetch)
        self.patch(volume_utils, 'brick_get_connector_properties', lambda: {})
        self.patch(
            self.driver,
            '_attach_volume',
            lambda _, volume, properties: (
                {'device': {'path': str(self.vdisk)}},
                volume,
            ),
        )
        self.detached = self.patch(self.driver, '_detach_volume', mock.Mock())
        self.image = b''

    def patch(self, target, name, new):
        patch = mock.patch.object(target, name, new)
        patch.start()
        self.addCleanup(patch.stop)
        return new

    def execute(self, *command, run_as_root=False, **kwargs):
        self.commands.append(command)
        result = processutils.execute(*map(_quick, command), **kwargs)
        status = self.vdisk.stat()
        self.sizes.append((status.st_size, status.st_blocks * 512 >= GIB))
        return result

    def fetch(self, context, service, image_id, path, blocksize, **kwargs):
        self.fetched = kwargs
        pathlib.Path(path).write_bytes(self.image)

    def copy(self):
        self.driver.copy_image_to_encrypted_volume(
            mock.sentinel.context, self.volume, None, 'image', True
        )

    def decrypted(self, length):
        """Return the beginning of the volume's content."""
        secret = self.directory / 'secret'
        secret.write_text(PASSPHRASE)
        out = self.directory / 'out'
        subprocess.run(
            [
                'qemu-img',
                'dd',
                '--object',
                f'secret,id=s,format=raw,file={secret}',
                '--image-opts',
                '-O',
                'raw',
                'bs=1M',
                f'count={length // MIB}',
                f'if=driver=luks,key-secret=s,file.filename={self.vdisk}',
                f'of={out}',
            ],
            check=True,
        )
        return out.read_bytes()


def _quick(word):
    """Have a key derived in milliseconds, if a word has LUKS options.

    qemu-img takes two seconds of a processor for it, and as long to open what
    it has made.
    """
    return f'{word},iter-time=1' if 'ivgen-alg=' in word else word


class ImageTestCase(EncryptionTestCase):
    def head(self):
        """Return the first bytes of the vdisk as they are on the disk."""
        with self.vdisk.open('rb') as stream:
            return stream.read(8 * MIB)

    def test_written(self):
        self.image = os.urandom(MIB) + bytes(2 * MIB) + os.urandom(MIB)
        self.copy()
        self.assertEqual(self.image, self.decrypted(4 * MIB))
        self.assertNotIn(self.image[:64], self.head())
        self.assertEqual({'size': 1}, self.fetched)
        self.detached.assert_called_once()
        # allocated all along
        self.assertEqual([(GIB, True)] * 3, self.sizes)
        # the key is shown to nobody, and not kept
        self.assertEqual(3, len(self.commands))
        self.assertNotIn(PASSPHRASE, str(self.commands))
        self.assertEqual([], os.listdir(self.conversions))
        held = [
            os.readlink(entry.path)
            for entry in os.scandir('/proc/self/fd')
            if os.path.lexists(entry.path)
        ]
        self.assertNotIn('passphrase', str(held))
        info = subprocess.run(
            ['qemu-img', 'info', '--output=json', self.vdisk],
            check=True,
            capture_output=True,
        )
        data = json.loads(info.stdout)['format-specific']['data']
        self.assertEqual(
            ('aes-256', 'xts', 'plain64'),
            (data['cipher-alg'], data['cipher-mode'], data['ivgen-alg']),
        )

    def test_header_counts(self):
        """An image as large as the volume does not fit beside a header."""
        self.patch(
            image_utils,
            'fetch_to_raw',
            lambda context, service, image_id, path, *_, **__: os.truncate(
                path, GIB
            ),
        )
        error = self.assertRaises(cinder_exc.ImageTooBig, self.copy)
        self.assertIn(f'and the volume has {GIB}', str(error))
        self.assertEqual([], os.listdir(self.conversions))
        self.assertEqual(bytes(8 * MIB), self.head())
        self.detached.assert_called_once()

    def test_qemu_img_fails(self):
        self.image = bytes(MIB)
        self.encryption['cipher'] = 'rot-xts-plain64'
        self.assertRaises(processutils.ProcessExecutionError, self.copy)
        self.assertEqual([], os.listdir(self.conversions))
        self.detached.assert_called_once()


class ProviderTestCase(EncryptionTestCase):
    def test_luks_only(self):
        self.driver.create_volume(self.volume)
        for provider in ('luks2', 'plain'):
            self.encryption['provider'] = provider
            error = self.assertRaises(
                cinder_exc.VolumeDriverException,
                self.driver.create_volume,
                self.volume,
            )
            self.assertIn(f'Provider {provider} not supported', str(error))
            self.assertIn('must be of provider luks', str(error))
        self.volume.encryption_key_id = None
        self.driver.create_volume(self.volume)


class LinkTestCase(EncryptionTestCase):
    """Of volumes that Cinder copies to a type with other encryption."""

    def setUp(self):
        super().setUp()
        self.patch(
            connections.Connections, 'local_path', lambda *_: str(self.vdisk)
        )
        self.volume.provider_location = None
        update = self.driver.create_export(None, self.volume, HERE)
        self.volume.provider_location = update['provider_location']
        self.volume.migration_status = 'migrating'
        self.volume.id = str(uuid.uuid4())

    def connect(self):
        return self.driver.initialize_connection(self.volume, HERE)

    def test_vdisk_is_not_replaced(self):
        """os-brick puts its own link in the place of the device it gets."""
        connection = self.connect()
        path = connection['data']['device_path']
        self.assertEqual(str(self.vdisk), os.path.realpath(path))
        done = []

        def execute(*command, **kwargs):
            done.append(command[:2])
            if command[0] == 'ln':
                subprocess.run(command, check=True)

        encryptor = encryptors.get_volume_encryptor(
            root_helper='',
            connection_info=connection,
            keymgr=key_manager.API(),
            execute=execute,
            **self.encryption,
        )
        encryptor.attach_volume(None, **self.encryption)
        self.assertIn(('cryptsetup', 'luksOpen'), done)
        self.assertTrue(os.readlink(path).startswith('/dev/mapper/crypt-'))
        self.assertFalse(self.vdisk.is_symlink())
        self.assertEqual(GIB, self.vdisk.stat().st_size)
        self.driver.terminate_connection(self.volume, HERE)
        self.assertEqual([], os.listdir(self.conversions))
        self.assertTrue(self.vdisk.exists())

    def test_link_only_where_needed(self):
        for fields in (
            {'encryption_key_id': None},
            {'migration_status': None},
            {'migration_status': 'success'},
            {'volume_attachment': [test_driver.attachment('server')]},
        ):
            with mock.patch.multiple(self.volume, **fields):
                path = self.connect()['data']['device_path']
                self.assertNotIn(str(self.conversions), path)
        self.volume.migration_status = 'target:of-another'
        path = self.connect()['data']['device_path']
        self.assertIn(str(self.conversions), path)

    def test_detaching_others_looks_at_no_directory(self):
        """It may be on a network filesystem that is away."""
        self.volume.encryption_key_id = None
        self.conf.config(image_conversion_dir='/proc/no/such')
        for connector in (HERE, None):
            self.assertIsNone(
                self.driver.terminate_connection(self.volume, connector)
            )

    def test_any_host(self):
        for host in ('node[1]@vdisk', 'a.long.name.of.a.node' * 3 + '@vdisk'):
            path = copy_links.add(self.volume, str(self.vdisk), host)
            self.assertLess(len('crypt-' + os.path.basename(path)), 128)
            copy_links.remove(self.volume, host)
            self.assertEqual([], os.listdir(self.conversions))

    def test_a_link_that_cannot_be_removed(self):
        path = self.connect()['data']['device_path']
        with mock.patch.object(os, 'unlink', side_effect=PermissionError):
            self.driver.terminate_connection(self.volume, HERE)
        self.assertIn(f'The link {path} stays', self.log.output)

    def test_left_over_links(self):
        """Cinder removes, when it starts, what is named by the backend."""
        self.connect()
        image_utils.cleanup_temporary_file('node@vdisk#vdisk')
        self.assertEqual([], os.listdir(self.conversions))

    def test_a_killed_process_has_left_one(self):
        paths = {self.connect()['data']['device_path'] for _ in range(2)}
        self.assertEqual(2, len(paths))
        other = self.conversions / 'vdisk-other-1-node@vdisk#vdisk'
        other.touch()
        for connector in (HERE, None):
            self.driver.terminate_connection(self.volume, connector)
            self.assertEqual([other.name], os.listdir(self.conversions))
