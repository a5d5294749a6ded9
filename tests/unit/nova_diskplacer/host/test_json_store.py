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

import os

import fixtures
import testtools

from nova_diskplacer.host import json_store


class StoreTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'state', 'deep'
        )
        self.store = json_store.JsonStore(self.path)

    def test_kept(self):
        self.assertIsNone(self.store.load('disk'))
        self.store.save('disk', {'a': 1})
        self.assertEqual(
            {'a': 1}, json_store.JsonStore(self.path).load('disk')
        )
        self.assertEqual(['disk.json'], os.listdir(self.path))
        self.assertEqual('', self.log.output)

    def test_not_readable(self):
        self.store.save('disk', {})
        with open(f'{self.path}/disk.json', 'w') as stream:
            stream.write('{')
        self.assertIsNone(self.store.load('disk'))
        self.assertIn('it is not used', self.log.output)

    def test_not_writable(self):
        with open(os.path.dirname(self.path), 'w'):
            pass
        self.store.save('disk', {})
        self.store.save('disk', {})
        self.assertEqual(1, self.log.output.count('are not written'))
