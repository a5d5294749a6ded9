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

"""Tests of items that expire."""

import unittest

from nova_diskplacer.scheduler import pending_claims
from tests.unit.nova_diskplacer.scheduler import fakes


class ExpiringSetTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.items = pending_claims.ExpiringSet(self.clock)

    def test_items_expire(self):
        self.items.add('a')
        self.clock.now += 19
        self.items.add('b')
        self.assertEqual(['a', 'b'], self.items.items())
        self.clock.now += 1
        self.assertEqual(['b'], self.items.items())

    def test_expired_items_take_no_memory(self):
        self.items.add('a')
        self.clock.now += 20
        self.items.add('b')
        self.assertFalse(self.items.remove('a'))

    def test_remove(self):
        self.items.add('a')
        self.assertTrue(self.items.remove('a'))
        self.assertFalse(self.items.remove('a'))
        self.assertEqual([], self.items.items())
