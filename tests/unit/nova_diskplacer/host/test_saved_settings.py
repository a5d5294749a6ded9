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

import json
import os

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import saved_settings

UUID = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'
ORIGINAL = saved_settings.Original('sda', '7', {'scheduler': 'none'})


class OriginalsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'state', 'queues'
        )
        self.path = os.path.join(self.directory, UUID + '.json')
        self.originals = saved_settings.Originals(self.directory, 'boot')

    def write(self, text):
        os.makedirs(self.directory, exist_ok=True)
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write(text)

    def test_nothing(self):
        self.assertEqual([], self.originals.uuids())
        self.assertIsNone(self.originals.load(UUID))
        self.originals.forget(UUID)

    def test_save_load_forget(self):
        self.originals.save(UUID, ORIGINAL)
        again = saved_settings.Originals(self.directory, 'boot')
        self.assertEqual([UUID], again.uuids())
        self.assertEqual(ORIGINAL, again.load(UUID))
        again.forget(UUID)
        self.assertEqual([], self.originals.uuids())
        self.assertIsNone(self.originals.load(UUID))

    def test_of_another_boot(self):
        self.originals.save(UUID, ORIGINAL)
        later = saved_settings.Originals(self.directory, 'another')
        self.assertEqual([UUID], later.uuids())
        self.assertIsNone(later.load(UUID))

    def test_what_a_killed_agent_leaves_is_nothing(self):
        self.write('')
        os.rename(self.path, self.path + '.new')
        self.assertEqual([], self.originals.uuids())
        self.originals.save(UUID, ORIGINAL)
        self.assertEqual([UUID + '.json'], os.listdir(self.directory))

    def test_malformed(self):
        good = {
            'version': 1,
            'boot_id': 'boot',
            'device': 'sda',
            'sequence': '',
            'values': {},
        }
        self.write(json.dumps(good))
        self.assertIsNotNone(self.originals.load(UUID))
        for text in (
            '',
            '{',
            '[]',
            '{}',
            json.dumps({**good, 'version': 2}),
            json.dumps({**good, 'values': {'nr_requests': 7}}),
            json.dumps({**good, 'values': []}),
        ):
            self.write(text)
            error = self.assertRaises(
                exception.DiskError, self.originals.load, UUID
            )
            self.assertIn(f'{self.path} does not hold', str(error))

    def test_it_cannot_be_saved(self):
        os.makedirs(os.path.dirname(self.directory))
        with open(self.directory, 'w', encoding='utf-8'):
            pass
        error = self.assertRaises(
            exception.DiskError, self.originals.save, UUID, ORIGINAL
        )
        self.assertIn(self.directory, str(error))

    def test_the_boot_has_an_id(self):
        self.assertEqual(36, len(saved_settings.boot_id()))
        self.assertEqual(saved_settings.boot_id(), saved_settings.boot_id())
