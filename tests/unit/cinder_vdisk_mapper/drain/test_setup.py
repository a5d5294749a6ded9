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


import dataclasses
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.drain import setup
from nova_diskplacer import exception
from nova_diskplacer.disks import discover

DISK = '5d7a3c0e-0000-4000-8000-000000000001'
BACKEND = 'host@vdisk'


class FromConfTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.backend = mock.Mock()
        hung = dataclasses.replace(
            discover.missing(DISK, f'/disks/{DISK}'), health=discover.HUNG
        )
        self.backend.disks.side_effect = lambda wait: [
            dataclasses.replace(hung, health=self.health) if wait else hung
        ]
        self.health = discover.OK
        options = mock.Mock(vdisk_media='any')
        for name, value in (
            ('locks.make_directory', mock.Mock()),
            ('backend_sections.read', lambda _: {BACKEND: options}),
            ('backend_sections.hosts', mock.Mock()),
            ('base.load', lambda _: self.backend),
            ('placement_client.PlacementClient.from_conf', mock.Mock()),
        ):
            self.useFixture(
                fixtures.MockPatch(
                    f'cinder_vdisk_mapper.drain.setup.{name}', value
                )
            )

    def drainer(self):
        return setup.from_conf(mock.Mock(), DISK, 'none', 0, mock.Mock())

    def test_disk_that_answers_late(self):
        self.assertEqual(BACKEND, self.drainer().surveyor.name)

    def test_disk_that_is_hung(self):
        self.health = discover.HUNG
        self.assertRaises(exception.DiskError, self.drainer)
