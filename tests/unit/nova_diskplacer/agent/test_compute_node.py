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
from oslotest import base

from nova_diskplacer.agent import compute_node
from tests import configured


class LookoutTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = 0
        self.conf = self.useFixture(configured.Options()).conf

    def lookout(self):
        return compute_node.ComputeNode(self.conf, lambda: self.now)

    def test_says_once_what_is_wrong(self):
        self.useFixture(
            fixtures.MonkeyPatch('socket.gethostname', lambda: 'one.test')
        )
        lookout = self.lookout()
        for self.now in range(0, 300, 10):
            lookout.missing()
            self.assertEqual(
                int(self.now >= 60), self.log.output.count('one.test')
            )
        for words in ('libvirt', '[diskplacer] compute_node', 'hypervisor'):
            self.assertIn(words, self.log.output)

    def test_where_the_name_comes_from(self):
        self.conf.set_override('compute_node', 'two', 'diskplacer')
        lookout = self.lookout()
        self.assertEqual('two', lookout.name)
        lookout.missing()
        self.now = 60
        lookout.missing()
        self.assertIn('from [diskplacer] compute_node', self.log.output)

    def test_says_it_again_when_it_went(self):
        lookout = self.lookout()
        for _ in range(2):
            lookout.missing()
            self.now += 60
            lookout.missing()
            lookout.present()
            lookout.missing()
            lookout.present()
        self.assertEqual(2, self.log.output.count('no disk of this host'))
