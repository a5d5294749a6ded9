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

from oslotest import base

from nova_diskplacer.client import cinder_volumes

DISK = 'b0000000-0000-4000-8000-000000000000'
EXPORT = '192.0.2.1:3260,1 iqn.2010-10.org.openstack:volume-1 0'


def volume(provider_id, host='a@vdisk#pool'):
    return {'provider_id': provider_id, 'host': host}


class PlaceTest(base.BaseTestCase):
    def test_location(self):
        for provider_id, is_location in (
            (DISK, True),
            (f'{DISK},{DISK}', True),
            (EXPORT, False),
            (None, False),
        ):
            location = cinder_volumes.location_of(volume(provider_id))
            self.assertIs(is_location, cinder_volumes.is_location(location))

    def test_backend(self):
        for host, backend in (
            ('a.example@vdisk#pool', ('a.example', 'vdisk')),
            ('a@vdisk', ('a', 'vdisk')),
            ('a', ('a', '')),
            (None, ('', '')),
        ):
            one = volume(DISK, host)
            self.assertEqual(backend, cinder_volumes.backend_of(one))
            self.assertEqual(backend[0], cinder_volumes.host_of(one))

    def test_exported(self):
        """A backend of the same name on another host has vdisks."""
        moving, other = volume(EXPORT), volume(EXPORT, 'a@san#pool')
        listed = [moving, other, volume(DISK, 'b@vdisk#pool'), volume(None)]
        self.assertEqual([moving], cinder_volumes.exported(listed))


class DevicesTest(base.BaseTestCase):
    def test_devices_that_users_name(self):
        """An attachment without Nova may name any device."""
        attached = {
            'id': 'one',
            'attachments': [{'device': '/dev/\x1b[2Jv\nb\u202e'}],
        }
        at_rest = {'id': 'two', 'attachments': []}
        self.assertEqual(
            {'one': '?[2Jv?b?'},
            cinder_volumes.devices_of([attached, at_rest]),
        )
