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

from nova_diskplacer.monitor import disk_health


class WarningsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.warnings = disk_health.Warnings()

    def update(self, value):
        self.warnings.update('u', 'heat', f'{value}!', value >= 9, value >= 7)
        return self.warnings.for_disk('u')

    def test_said_once(self):
        for value in (9, 10, 11):
            self.assertEqual((f'{value}!',), self.update(value))
        self.assertEqual('Disk u: 9!\n', self.log.output)

    def test_does_not_flap(self):
        self.assertEqual((), self.update(8))
        self.update(9)
        self.assertEqual(('8!',), self.update(8))
        self.assertEqual((), self.update(6))
        self.assertEqual((), self.update(8))
        self.assertEqual(
            'Disk u: 9!\nDisk u: the heat is normal again.\n',
            self.log.output,
        )
        self.update(9)
        self.assertEqual(2, self.log.output.count('9!'))

    def test_of_each_disk(self):
        self.warnings.update('u', 'b', 'two', True)
        self.warnings.update('u', 'a', 'one', True)
        self.warnings.update('v', 'a', 'three', True)
        self.assertEqual(('one', 'two'), self.warnings.for_disk('u'))
        self.warnings.clear_except({'v'})
        self.assertEqual((), self.warnings.for_disk('u'))
        self.assertEqual(('three',), self.warnings.for_disk('v'))
