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

import ddt
import testtools

from diskplacer_measure.sizing import advice

GIB = 1 << 30


@ddt.ddt
class DataTest(testtools.TestCase):
    @ddt.data(1, 2)
    def test_data_that_fits(self, gib):
        found = advice.by_data(2 * GIB, gib * GIB)
        self.assertTrue(found.enough)
        self.assertIn(f'The data is {gib / 2:.2f} of the memory', found.text)
        self.assertIn('P1 §III', found.text)

    def test_data_of_p1_that_does_not(self):
        found = advice.by_data(2 * GIB, 8 * GIB)
        self.assertFalse(found.enough)
        self.assertEqual(
            (8 * GIB, None), (found.least_bytes, found.most_bytes)
        )
        self.assertIn('The data is 4.00 times the memory', found.text)
        self.assertIn('8.0 GiB', found.text)
        self.assertIn('P1 §III-A, Fig. 4(a)', found.text)


class RefaultsTest(testtools.TestCase):
    def test_hardly_any(self):
        found = advice.by_refaults(2 * GIB, 59, 60)
        self.assertTrue(found.enough)
        self.assertIn('0.98 pages a second', found.text)

    def test_many(self):
        # 1 GiB in pages of 4 KiB
        found = advice.by_refaults(2 * GIB, 1 << 18, 100)
        self.assertFalse(found.enough)
        self.assertEqual(
            (2 * GIB, 3 * GIB), (found.least_bytes, found.most_bytes)
        )
        self.assertIn('2621.4 pages a second', found.text)
        self.assertIn('1.00 GiB in 100 s', found.text)
        self.assertIn('P1 §III-A', found.text)
