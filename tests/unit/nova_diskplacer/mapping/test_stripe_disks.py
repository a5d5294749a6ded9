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

import re
import unittest

from nova_diskplacer.mapping import stripe_disks


class PatternTest(unittest.TestCase):
    def test_pattern(self):
        for text in ('2', '6', '1-2', '1-6', '2-4', '3-6'):
            self.assertTrue(re.fullmatch(stripe_disks.PATTERN, text), text)
        for text in ('1', '7', 'x', '2-3', '4-2', '2-2', '1-8', '1-', '-4'):
            self.assertIsNone(re.fullmatch(stripe_disks.PATTERN, text), text)


class ParseTest(unittest.TestCase):
    def test_numbers(self):
        for policy, text, numbers in (
            ('round_robin', None, (1, 0)),
            ('striped', '3', (3, 0)),
            ('elastic', '1-4', (1, 4)),
            ('elastic', '3-6', (3, 6)),
        ):
            self.assertEqual(numbers, stripe_disks.parse(policy, text))

    def test_a_value_that_does_not_fit_the_mapping(self):
        form = (
            'MINIMUM-MAXIMUM, such as 1-4, where the maximum is at most 6 and '
            'a multiple of the smaller minimum'
        )
        for policy, text, message in (
            (
                'consolidated',
                '2',
                'diskplacer:stripe_disks=2 is allowed only with '
                'diskplacer:mapping=striped or elastic, not with '
                'diskplacer:mapping=consolidated',
            ),
            (
                'striped',
                None,
                'diskplacer:mapping=striped requires diskplacer:stripe_disks, '
                'an integer from 2 to 6',
            ),
            (
                'striped',
                '1-4',
                'diskplacer:mapping=striped requires diskplacer:stripe_disks, '
                'an integer from 2 to 6, not 1-4',
            ),
            (
                'elastic',
                None,
                'diskplacer:mapping=elastic requires diskplacer:stripe_disks, '
                + form,
            ),
            (
                'elastic',
                '3',
                'diskplacer:mapping=elastic requires diskplacer:stripe_disks, '
                f'{form}, not 3',
            ),
        ):
            with self.assertRaises(ValueError) as raised:
                stripe_disks.parse(policy, text)
            self.assertEqual(message, str(raised.exception))
