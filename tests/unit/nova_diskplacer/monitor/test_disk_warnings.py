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

from nova_diskplacer.monitor import disk_warnings


class NoticesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.notices = disk_warnings.Notices()

    def judge(self, value):
        self.notices.judge('u', 'heat', f'{value}!', value >= 9, value >= 7)
        return self.notices.of('u')

    def test_said_once(self):
        for value in (9, 10, 11):
            self.assertEqual((f'{value}!',), self.judge(value))
        self.assertEqual('Disk u: 9!\n', self.log.output)

    def test_does_not_flap(self):
        self.assertEqual((), self.judge(8))
        self.judge(9)
        self.assertEqual(('8!',), self.judge(8))
        self.assertEqual((), self.judge(6))
        self.assertEqual((), self.judge(8))
        self.assertEqual(
            'Disk u: 9!\nDisk u: the heat is as it should be.\n',
            self.log.output,
        )
        self.judge(9)
        self.assertEqual(2, self.log.output.count('9!'))

    def test_of_each_disk(self):
        self.notices.tell('u', 'b', 'two')
        self.notices.tell('u', 'a', 'one')
        self.notices.tell('v', 'a', 'three')
        self.assertEqual(('one', 'two'), self.notices.of('u'))
        self.assertEqual({'u', 'v'}, self.notices.uuids())
        self.notices.forget('u')
        self.assertEqual((), self.notices.of('u'))
        self.assertEqual(('three',), self.notices.of('v'))
