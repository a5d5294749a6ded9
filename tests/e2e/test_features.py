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

import os
import pathlib

from tests.e2e import base
from tests.e2e import features
from tools.minicloud import api
from tools.minicloud import checks


class AttachedTest(features.FeaturesTestCase):
    def test_volumes_of_a_server(self):
        """All with one server: a guest takes long to boot."""
        server = self.boot('plain', self.host)
        self.check_qos_and_discard(server)
        self.check_snapshot_of_an_attached_volume(server)
        self.check_encrypted(server)

    def check_qos_and_discard(self, server):
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

    def check_snapshot_of_an_attached_volume(self, server):
        # a copy is on the same disk: round robin would keep them apart
        type_ = self.make_type(**{'vdisk:mapping': 'consolidated'})
        volume = self.bound(server, volume_type=type_)
        features.write(self.path(volume), 'first')
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
        features.write(self.path(volume), 'second')
        copy = self.volume(2, volume_type=type_, snapshot_id=snapshot)
        self.assertTrue(features.seeded(self.path(copy), 'first', base.GIB))
        self.assertTrue(features.seeded(self.path(volume), 'second'))
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
        self.eventually(
            'revert', lambda: features.seeded(self.path(volume), 'first')
        )

    def check_encrypted(self, server):
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
        volume = self.volume(server=server, volume_type=type_)
        self.api.attach(server, volume)
        disk = self.disk_element(server, volume)
        source = pathlib.Path(disk.find('source').get('file')).resolve()
        self.assertEqual(self.path(volume), source)
        self.assertEqual('luks', disk.find('.//encryption').get('format'))
        with source.open('rb') as stream:
            self.assertEqual(features.LUKS, stream.read(len(features.LUKS)))
        self.api.detach(server, volume)
        self.assert_private(source)


class RefusalsTest(features.FeaturesTestCase):
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
