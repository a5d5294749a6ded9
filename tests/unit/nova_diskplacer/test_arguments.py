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

import argparse
import unittest

from nova_diskplacer import arguments


class NumberTestCase(unittest.TestCase):
    def test_decimal_digits(self):
        for kind, text, expected in (
            (int, '1', 1),
            (int, '007', 7),
            (int, '100', 100),
            (float, '1', 1.0),
            (float, '2.50', 2.5),
            (float, '100', 100.0),
        ):
            value = arguments.number(kind, 1, 100)(text)
            self.assertEqual(expected, value)
            self.assertIs(kind, type(value))
        self.assertEqual(0.5, arguments.number(float, 0)('.5'))

    def test_anything_else(self):
        both = ('', '0', '101', '1_0', ' 5', '5 ', '5\n', '-5', '+5', '5.')
        both += ('\u0665', '0x5', '1e1', 'nan', 'inf', '9' * 5000)
        for kind, what, texts in (
            (int, 'an integer', (*both, '5.0')),
            (float, 'a number', (*both, '1,5', '1.5.5', '0.99')),
        ):
            for text in texts:
                with self.assertRaises(argparse.ArgumentTypeError) as caught:
                    arguments.number(kind, 1, 100)(text)
                self.assertEqual(
                    f'{text!r} is not {what} of at least 1, at most 100',
                    str(caught.exception),
                )
