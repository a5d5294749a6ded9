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

import testtools
from hypothesis import given
from hypothesis import strategies

from diskplacer_measure.sizing.key_value import latencies


class SummarizeTest(testtools.TestCase):
    def test_known(self):
        # 1 to 1000 hundredths of a millisecond, shuffled
        values = [1e-5 * (1 + number * 7 % 1000) for number in range(1000)]
        found = latencies.summarize(values)
        self.assertEqual(1000, found.operations)
        self.assertAlmostEqual(5.005e-3, found.mean)
        self.assertEqual(
            ['0.5', '0.9', '0.95', '0.99', '0.999'], list(found.quantiles)
        )
        for part, value in found.quantiles.items():
            self.assertAlmostEqual(float(part) * 1e-2, value)
        self.assertAlmostEqual(0.1, found.below_1_ms, delta=0.0011)
        self.assertAlmostEqual(0.001, found.from_10_to_30_ms, delta=0.0011)

    def test_the_disk(self):
        found = latencies.summarize([0.0005, 0.0099, 0.012, 0.029, 0.031])
        self.assertEqual(0.2, found.below_1_ms)
        self.assertEqual(0.4, found.from_10_to_30_ms)

    def test_nothing(self):
        self.assertIsNone(latencies.summarize([]))

    @given(strategies.lists(strategies.floats(0, 10), min_size=1))
    def test_quantiles_are_values_in_order(self, values):
        found = latencies.summarize(values)
        quantiles = list(found.quantiles.values())
        self.assertEqual(sorted(quantiles), quantiles)
        for part, value in found.quantiles.items():
            self.assertIn(value, values)
            within = sum(one <= value for one in values)
            self.assertGreaterEqual(within, float(part) * len(values))
