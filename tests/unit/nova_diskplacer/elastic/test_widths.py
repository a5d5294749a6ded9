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
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.elastic import widths
from tests.unit.nova_diskplacer.elastic import hosts

WIDTHS = st.integers(1, widths.MAX)


@ddt.ddt
class ParseTest(testtools.TestCase):
    @ddt.data(('1-4', (1, 4)), ('2-3', (2, 3)), ('1-64', (1, 64)))
    @ddt.unpack
    def test_valid(self, text, expected):
        self.assertEqual(expected, widths.parse(text))

    @ddt.data(
        '', '4', '4-4', '4-1', '0-4', '1-65', '1-100', '-4', '1-', '1-4-8',
        ' 1-4', '1-4\n', '1–4', '١-٤', 'a-b',
    )  # fmt: skip
    def test_invalid(self, text):
        error = self.assertRaises(ValueError, widths.parse, text)
        self.assertIn(f'diskplacer:stripe_disks={text} is not', str(error))
        self.assertIn('1 <= MIN < MAX <= 64', str(error))


class NextTest(testtools.TestCase):
    def test_wider(self):
        self.assertEqual((4, 3), widths.wider(2, 8, 2))
        self.assertEqual((3,), widths.wider(2, 3, 2))
        self.assertEqual((4, 3, 2), widths.wider(1, 4, 64))
        self.assertEqual((), widths.wider(4, 4, 2))

    def test_narrower(self):
        self.assertEqual((1, 2, 4), widths.narrower(8, 1))
        self.assertEqual((3, 4), widths.narrower(8, 3))
        self.assertEqual((1,), widths.narrower(3, 1))
        self.assertEqual((), widths.narrower(2, 2))

    @given(WIDTHS, WIDTHS)
    @hosts.EXAMPLES
    def test_narrower_is_within_the_limits(self, width, minimum):
        found = (*widths.narrower(width, minimum), width)
        for one, other in zip(found, found[1:], strict=False):
            self.assertTrue(minimum <= one < other)
            self.assertTrue(one == minimum or one <= other / 2)
        self.assertEqual(min(width, minimum), min(found[0], minimum))
