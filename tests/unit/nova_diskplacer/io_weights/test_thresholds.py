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

"""Tests of the penalty curves and their thresholds."""

import math
import unittest

import hypothesis
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.io_weights import policy


class CurvesTest(unittest.TestCase):
    def test_linear(self):
        """P4 §IV-D: w = max(N - C/S, 1), or 0 with the idle class."""
        for classes, lowest, count in ((10, 1, 9), (10, 0, 10), (100, 1, 99)):
            self.assertEqual(
                tuple(range(1, count + 1)),
                policy.thresholds('linear', classes, lowest),
            )
        self.assertEqual((), policy.thresholds('linear', 1, 1))

    def test_logarithmic(self):
        """P4 §IV-D: w = max(N - lg(C/S), 1)."""
        self.assertEqual(
            (2, 4, 8, 16, 32, 64, 128, 256, 512),
            policy.thresholds('logarithmic', 10, 1),
        )

    def test_logarithmic_ends_at_the_limit(self):
        found = policy.thresholds('logarithmic', 100, 1)
        self.assertEqual(10, len(found))
        self.assertEqual(policy.MAX_SCALES, found[-1])

    @hypothesis.given(
        st.integers(1, 100), st.integers(0, 1), st.integers(0, 1 << 14)
    )
    @hypothesis.settings(max_examples=50)
    def test_thresholds_follow_the_formulas(self, classes, lowest, sixteenths):
        use = sixteenths / 16
        formulas = {
            'linear': classes - use,
            'logarithmic': classes - math.log2(max(use, 1.0)),
        }
        for curve, exact in formulas.items():
            found = policy.thresholds(curve, classes, lowest)
            lost = sum(use >= threshold for threshold in found)
            # a fraction counts as the class above it
            self.assertEqual(
                max(math.ceil(exact), lowest), classes - lost, (curve, use)
            )


class ListTest(unittest.TestCase):
    def test_list(self):
        self.assertEqual(
            (1.0, 2.5, 2.5, 8.0),
            policy.thresholds('1, 2.5,2.5,8', 10, 1),
        )

    def test_more_than_classes(self):
        self.assertEqual((0.0, 2.0), policy.thresholds('0,2,4', 3, 1))

    def test_beyond_the_limit(self):
        self.assertEqual((1.0,), policy.thresholds('1,2000,inf', 10, 1))

    def test_invalid(self):
        for curve in ('', 'steep', '1,', '2,1', '-1,2', 'nan', '1,nan,2'):
            with self.assertRaisesRegex(
                exception.ContentionError,
                f'curve={curve} is neither linear, logarithmic nor a rising',
            ):
                policy.thresholds(curve, 10, 1)
