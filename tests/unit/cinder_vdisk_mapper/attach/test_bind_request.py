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

import testtools
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.cinder_vdisk_mapper.attach import test_binding


class ReadTestCase(test_driver.DriverTestCase):
    def test_volumes_that_nova_makes_for_a_boot(self):
        for name, migration_status, boot_time in (
            ('server-blank-vol', None, True),
            ('server-blank-vol', 'migrating', True),
            # Cinder copies the name, too
            ('server-blank-vol', 'target:id', False),
            ('other-blank-vol', None, False),
            ('data', None, False),
        ):
            request = bind_request.read(
                None,
                test_driver.volume(
                    display_name=name,
                    migration_status=migration_status,
                    volume_attachment=[test_driver.attachment('server')],
                ),
                'round_robin',
            )
            self.assertEqual(boot_time, request.boot_time)


class AttachedTestCase(testtools.TestCase):
    """Which volumes count as vdisks of a server of two of 10 GiB."""

    def attached(self, *volumes, **specs):
        server = test_binding.server(vdisks=2, vdisk_gb=10, **specs)
        found = [mock.Mock(volume=volume) for volume in volumes]
        with mock.patch.object(
            objects.VolumeAttachmentList,
            'get_all_by_instance_uuid',
            return_value=found,
        ) as get:
            result = bind_request.attached(mock.sentinel.context, server)
        get.assert_called_once_with(mock.sentinel.context, server.uuid)
        return result

    def volume(self, number, location, **fields):
        return test_driver.volume(
            **{
                'id': number,
                'name_id': number,
                'provider_location': location,
                **fields,
            }
        )

    def test_by_disk(self):
        self.assertEqual(
            {
                'a': {'volume-1', 'volume-2', 'volume-3'},
                'b': {'volume-3'},
            },
            self.attached(
                self.volume('1', 'a'),
                self.volume('2', 'a'),
                self.volume('3', 'a,b'),
                self.volume('4', None),
            ),
        )

    def test_what_is_no_vdisk_of_its_flavor(self):
        self.assertEqual(
            {},
            self.attached(
                self.volume('1', 'a', size=11),
                self.volume('2', 'a', bootable=True),
                # its owner may not attach it to this server
                self.volume('3', 'a', project_id='other'),
            ),
        )

    def test_a_flavor_without_vdisks(self):
        server = nova_api.Server('s', fakes.PROJECT, 'node', None)
        for found in (server, None):
            for bootable in (False, True):
                self.assertEqual(
                    not bootable,
                    bind_request.is_of_flavor(
                        found, self.volume('1', 'a', bootable=bootable)
                    ),
                )
