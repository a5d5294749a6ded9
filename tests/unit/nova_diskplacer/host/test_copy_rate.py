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

from nova_diskplacer.host import copy_rate

MIB = 1 << 20


class LimitTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 100.0
        for name, value in (
            ('monotonic', lambda: self.now),
            ('sleep', self.sleep),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'time.{name}', value))

    def sleep(self, seconds):
        self.assertGreaterEqual(seconds, 0)
        self.now += seconds

    def test_a_fast_copy_waits(self):
        limit = copy_rate.Limit(10)
        for done in range(0, 100 * MIB, 4 * MIB):
            self.now += 0.01
            limit.wait(done)
        self.assertAlmostEqual(109.6, self.now)

    def test_a_slow_copy_does_not(self):
        limit = copy_rate.Limit(10)
        for done in range(0, 100 * MIB, 4 * MIB):
            self.now += 1
            limit.wait(done)
        self.assertAlmostEqual(125.0, self.now)

    def test_no_limit(self):
        limit = copy_rate.Limit(0)
        limit.wait(1 << 50)
        self.assertEqual(100.0, self.now)
