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


import fixtures
import testtools
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import linking
from nova_diskplacer import exception
from tests.fakes.disks import make_disk
from tests.fakes.disks import make_vdisk
from tests.unit.cinder_vdisk_mapper import fakes

NAME = 'volume-1'


class Volume:
    """A volume; ``saved`` is its disk in the database."""

    id = name_id = '1'

    def __init__(self, disk):
        self.provider_location = self.provider_id = self.saved = disk

    def refresh(self):
        self.provider_location = self.provider_id = self.saved

    def save(self):
        self.saved = self.provider_location


class LinkingTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')
        self.volume = Volume('a')

    def backend(self, *holding, **healths):
        return fakes.Backend(
            *(
                make_disk(
                    uuid,
                    health=healths.get(uuid, 'ok'),
                    held=[make_vdisk('1', None, 1)] if uuid in holding else [],
                )
                for uuid in 'ab'
            )
        )

    def test_the_first_attachment_makes_a_link(self):
        backend = self.backend('a')
        path = linking.stable_path(backend, self.volume)
        self.assertEqual('/disks/by-volume/volume-1', path)
        self.assertEqual({NAME: 'a'}, backend.linked)

    def test_a_striped_volume_has_no_link(self):
        backend = self.backend('a', 'b')
        self.volume = Volume('a,b')
        self.assertEqual(
            backend.device_path('a,b', NAME),
            linking.stable_path(backend, self.volume),
        )
        self.assertEqual({}, backend.linked)

    def test_what_was_moved_since_it_was_read(self):
        backend = self.backend('b')
        self.volume.saved = 'b'
        linking.stable_path(backend, self.volume)
        self.assertEqual({NAME: 'b'}, backend.linked)
        self.assertEqual('b', self.volume.provider_location)

    def test_an_interrupted_move_is_finished(self):
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual('b', self.volume.saved)
        self.assertEqual({NAME: 'b'}, backend.linked)

    def test_a_link_that_leads_nowhere(self):
        backend = self.backend('a')
        backend.link('b', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual('a', self.volume.saved)
        self.assertEqual({NAME: 'a'}, backend.linked)

    def test_the_disk_of_the_link_may_come_back(self):
        backend = self.backend('a', b='missing')
        backend.link('b', NAME)
        error = self.assertRaises(
            exception.DiskError, linking.stable_path, backend, self.volume
        )
        self.assertIn('disk b, which is missing', str(error))
        self.assertEqual({NAME: 'b'}, backend.linked)

    def test_the_disk_of_the_link_was_forgotten(self):
        backend = self.backend('a')
        backend.link('c', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual({NAME: 'a'}, backend.linked)
