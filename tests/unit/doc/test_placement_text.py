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
        'media_80_gain_over_today': 0.02,
        'ram_85_gain_over_today': 0.0157,
        'ram_85_gain_over_today_low': -0.011,
        'ram_85_gain_over_today_high': 0.0424,
        'load_95_neighbours_ratio': 1.02252,
        'large_90_neighbours_ratio': 1.03,
        'holdout_gain_over_today': 0.01217,
        'holdout_gain_over_today_low': 0.0033,
        'holdout_gain_over_today_high': 0.02104,
        'holdout_gain_over_today_min': -0.00469,
        'holdout_gain_over_today_max': 0.06771,
        'holdout_neighbours_ratio': 0.99,
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

    def test_extremes(self):
        _, gain, neighbours = placement_text.extreme_rows(RESULT)
        self.assertEqual(
            ['RAM runs out first, 85 %', '1.6 (95 % CI −1.1 to 4.2)'],
            gain[1:],
        )
        self.assertEqual(['90 %, 1,000 hosts', '1.030'], neighbours[1:])

    def test_holdout(self):
        _, today = placement_text.holdout_rows(RESULT)
        self.assertEqual(
            ['1.2 (95 % CI 0.3 to 2.1)', '−0.5', '6.8'], today[1:]
        )

    def test_loads(self):
        _, ours, *_ = placement_text.load_rows(RESULT, [40])
        self.assertEqual('100.0 / 4.33', ours[1])
