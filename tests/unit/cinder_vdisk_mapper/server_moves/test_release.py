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

import types

import fixtures
import testtools

from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import release
from cinder_vdisk_mapper.server_moves import store

RELEASED = record.Record('here@vdisk', 'there@vdisk', 's', record.RELEASING)


class ReleaseTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.recorded = RELEASED
        volume = types.SimpleNamespace(
            id='volume', provider_location='disk', provider_id='disk'
        )
        for name, value in (
            ('fresh', lambda _: volume),
            ('read', lambda _: self.recorded),
            ('forget', self.forget),
        ):
            self.useFixture(fixtures.MockPatchObject(store, name, value))

    def forget(self, volume_id, before):
        self.recorded = None

    def test_released(self):
        self.assertIsNone(release.finish('volume'))
        self.assertIsNone(release.finish('volume'))

    def test_another_process_is_faster(self):
        def late(volume_id, before):
            self.recorded = None
            raise store.Changed('no longer releasing')

        self.useFixture(fixtures.MockPatchObject(store, 'forget', late))
        self.assertIsNone(release.finish('volume'))
