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


"""What Cinder and Nova do with volumes of the driver, on the real cloud."""

import functools
import hashlib
import json
import os
import pathlib
import stat
import xml.etree.ElementTree

from tests.e2e import base
from tools.minicloud import api
from tools.minicloud import checks

MIB = 2**20
LUKS = b'LUKS\xba\xbe'


class FeaturesTestCase(base.TestCase):
    def setUp(self):
        self.types = []
        # last, when no volume has them
        self.addCleanup(self._delete_types)
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.addCleanup(self._delete_copies)

    def _delete_types(self):
        for type_ in self.types:
            self.api.delete('volumev3', f'/types/{type_}')

    def _delete_copies(self):
        """Delete all snapshots and backups."""

        def gone(kind):
            found = self.api.get('volumev3', f'/{kind}')[kind]
            for one in found:
                self.discard('volumev3', f'/{kind}/{one["id"]}')
            return not found

        for kind in ('snapshots', 'backups'):
            self.eventually(f'{kind} gone', functools.partial(gone, kind))

    def post(self, path, body):
        return self.api.post('volumev3', path, body)

    def action(self, volume, **action):
        return self.post(f'/volumes/{volume}/action', action)

    def make_type(self, backend='vdisk', **specs):
        """Make a volume type, which goes with the test; returns its id."""
        name = f'{self.id().rsplit(".", 1)[-1]}-{len(self.types)}'
        specs = {'volume_backend_name': backend, **specs}
        body = {'volume_type': {'name': name, 'extra_specs': specs}}
        type_ = self.post('/types', body)['volume_type']['id']
        self.types.append(type_)
        return type_

    def ask(self, size=1, server=None, **fields):
        """Ask for a volume, on the host of a server if given."""
        hints = {'local_to_instance': server} if server else {}
        body = {
            'volume': {'size': size, 'volume_type': 'vdisk', **fields},
            'OS-SCH-HNT:scheduler_hints': hints,
        }
        return self.post('/volumes', body)['volume']['id']

    def volume(self, size=1, server=None, **fields):
        """Return the id of a new volume."""
        volume = self.ask(size, server, **fields)
        self.api.wait_volume(volume, 'available')
        return volume

    def path(self, volume):
        """Return the file that a volume is, found on the disks alone."""
        root = self.cloud.state.disk_root(self.host)
        (path,) = root.glob(f'*/vdisks/volume-{volume}')
        return path

    def bound(self, server, **fields):
        """Return a volume that has been attached to a server, and is not."""
        volume = self.volume(server=server, **fields)
        self.api.attach(server, volume)
        self.api.detach(server, volume)
        return volume

    def disk_element(self, server, volume):
        text = checks.domain_xml(self.cloud, server)
        for disk in xml.etree.ElementTree.fromstring(text).iter('disk'):
            if disk.findtext('serial') == volume:
                return disk
        raise LookupError(volume)

    def assert_private(self, path):
        found = path.stat()
        self.assertEqual(0o600, stat.S_IMODE(found.st_mode))
        self.assertEqual((0, 0), (found.st_uid, found.st_gid))


def write(path, seed):
    """Put bytes that ``seed`` decides at the begin and the end of a file."""
    with path.open('r+b') as stream:
        for offset in (0, path.stat().st_size - MIB):
            stream.seek(offset)
            stream.write(pattern(seed))
        os.fsync(stream.fileno())


def pattern(seed):
    return hashlib.sha256(seed.encode()).digest() * (MIB // 32)


def seeded(path, seed, size=None):
    """Return whether a file has what ``write`` put into one of that size."""
    with path.open('rb') as stream:
        for offset in (0, (size or path.stat().st_size) - MIB):
            stream.seek(offset)
            if stream.read(MIB) != pattern(seed):
                return False
    return True


def digest(path):
    with path.open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()


class AttachedTest(FeaturesTestCase):
    def test_qos_and_discard(self):
        limits = {'total_iops_sec': '321', 'read_bytes_sec': '7654321'}
        qos = self.post(
            '/qos-specs',
            {'qos_specs': {'name': 'q', 'consumer': 'front-end', **limits}},
        )['qos_specs']['id']
        self.addCleanup(
            self.api.delete, 'volumev3', f'/qos-specs/{qos}?force=true'
        )
        type_ = self.make_type()
        self.api.get(
            'volumev3', f'/qos-specs/{qos}/associate?vol_type_id={type_}'
        )
        server = self.boot('plain', self.host)
        limited = self.volume(server=server, volume_type=type_)
        self.api.attach(server, limited)
        disk = self.disk_element(server, limited)
        self.assertEqual(
            limits, {one.tag: one.text for one in disk.find('iotune')}
        )
        self.assertEqual('unmap', disk.find('driver').get('discard'))
        plain = self.volume(server=server)
        self.api.attach(server, plain)
        self.assertIsNone(self.disk_element(server, plain).find('iotune'))

    def test_snapshot_of_an_attached_volume(self):
        server = self.boot('plain', self.host)
        # a copy is on the same disk: round robin would keep them apart
        type_ = self.make_type(**{'vdisk:mapping': 'consolidated'})
        volume = self.bound(server, volume_type=type_)
        write(self.path(volume), 'first')
        self.api.attach(server, volume)
        snapshot = self.post(
            '/snapshots', {'snapshot': {'volume_id': volume, 'force': True}}
        )['snapshot']['id']
        path = f'/snapshots/{snapshot}'
        self.eventually(
            'snapshot',
            lambda: (
                self.api.get('volumev3', path)['snapshot']['status']
                == 'available'
            ),
        )
        write(self.path(volume), 'second')
        copy = self.volume(2, volume_type=type_, snapshot_id=snapshot)
        self.assertTrue(seeded(self.path(copy), 'first', base.GIB))
        self.assertTrue(seeded(self.path(volume), 'second'))
        self.assertEqual(
            checks.disk_of(self.path(volume)), checks.disk_of(self.path(copy))
        )
        self.assertEqual(2 * base.GIB, self.path(copy).stat().st_size)
        self.api.detach(server, volume)
        self.assert_private(self.path(volume))
        self.assert_private(self.path(copy))
        self.api.attach(server, copy)
        source = self.disk_element(server, copy).find('source')
        given = os.path.realpath(source.get('file'))
        self.assertEqual(str(self.path(copy)), given)
        self.api.detach(server, copy)
        # back to what it was
        self.action(volume, revert={'snapshot_id': snapshot})
        self.api.wait_volume(volume, 'available')
        self.eventually('revert', lambda: seeded(self.path(volume), 'first'))

    def test_encrypted(self):
        type_ = self.make_type()
        self.post(
            f'/types/{type_}/encryption',
            {
                'encryption': {
                    'provider': 'luks',
                    'cipher': 'aes-xts-plain64',
                    'key_size': 256,
                    'control_location': 'front-end',
                }
            },
        )
        server = self.boot('plain', self.host)
        volume = self.volume(server=server, volume_type=type_)
        self.api.attach(server, volume)
        disk = self.disk_element(server, volume)
        source = pathlib.Path(disk.find('source').get('file')).resolve()
        self.assertEqual(self.path(volume), source)
        self.assertEqual('luks', disk.find('.//encryption').get('format'))
        with source.open('rb') as stream:
            self.assertEqual(LUKS, stream.read(len(LUKS)))
        self.api.detach(server, volume)
        self.assert_private(source)


class CopiesTest(FeaturesTestCase):
    def test_backup_and_restore(self):
        server = self.boot('plain', self.host)
        volume = self.bound(server)
        path = self.path(volume)
        write(path, 'kept')
        backup = self.post('/backups', {'backup': {'volume_id': volume}})[
            'backup'
        ]['id']
        self._wait_backup(backup)
        write(path, 'lost')
        self.post(
            f'/backups/{backup}/restore', {'restore': {'volume_id': volume}}
        )
        self._wait_backup(backup)
        self.api.wait_volume(volume, 'available')
        self.assertTrue(seeded(path, 'kept'))
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
        write(self.path(volume), 'image')
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
        write(before, 'moved')
        wanted = digest(before)
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
        self.assertEqual(wanted, digest(after))
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


class RefusalsTest(FeaturesTestCase):
    def test_transfer(self):
        self.api.create_user('other', 'other')
        other = api.Api(self.cloud.state, 'other', 'other')
        volume = self.volume()
        transfer = self.post(
            '/volume-transfers', {'transfer': {'volume_id': volume}}
        )['transfer']
        other.post(
            'volumev3',
            f'/volume-transfers/{transfer["id"]}/accept',
            {'accept': {'auth_key': transfer['auth_key']}},
        )
        self.api.wait_volume(volume, 'available')
        found = other.volume(volume)
        self.assertEqual(
            other.session.get_project_id(),
            found['os-vol-tenant-attr:tenant_id'],
        )
        other.delete_volume(volume)

    def test_multiattach_is_refused(self):
        type_ = self.make_type(multiattach='<is> True')
        volume = self.ask(volume_type=type_)
        self.api.wait_volume(volume, 'error')
        messages = self.api.get(
            'volumev3', f'/messages?resource_uuid={volume}'
        )['messages']
        self.assertIn(
            'Could not find any available weighted backend',
            messages[0]['user_message'],
        )
