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


import datetime

import testtools

import _results
import placement_text

RESULT = _results.Result(
    'placement_quality',
    datetime.date(2026, 11, 26),
    'tools/bench.sh placement_quality',
    _results.Machine('6.18.0', 2),
    {
        **{
            f'some_{policy}_{field}': 0.5
            for policy in ('default', 'random')
            for field in (
                *placement_text._PERCENT,
                *placement_text._DIGITS,
            )
        },
        'some_default_gib': 0.9912,
        'some_default_gib_low': 0.98,
        'some_default_gib_high': 1.0,
        'load_40_default_gib': 1.0,
        'load_40_default_neighbours': 4.3333,
    },
)


class PlacementTextTest(testtools.TestCase):
    def test_scenario(self):
        head, ours, random = placement_text.scenario_rows(RESULT, 'some')
        self.assertEqual(len(head), len(ours))
        self.assertEqual('99.1 ± 1.0', ours[1])
        self.assertEqual('Random host', random[0])
        self.assertEqual(
            ['50.0'] * 4 + ['0.50', '0.5', '0.50', '0.50'], random[1:]
        )

    def test_loads(self):
        _, ours, *_ = placement_text.load_rows(RESULT, [40])
        self.assertEqual('100.0 / 4.33', ours[1])
