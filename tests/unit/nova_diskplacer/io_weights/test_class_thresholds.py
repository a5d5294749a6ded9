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

"""Tests of the penalty curves, and of those that others write."""

import os
import pathlib
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

import fixtures
import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.io_weights import class_thresholds


class ShippedTest(unittest.TestCase):
    def test_linear_loses_a_class_with_each_scale(self):
        """P4 §IV-D: w = max(N - C/S, 1), or 0 with the idle class."""
        self.assertEqual(
            tuple(range(1, 10)), class_thresholds.falls('linear', 10, lowest=1)
        )
        self.assertEqual(
            tuple(range(1, 11)), class_thresholds.falls('linear', 10, lowest=0)
        )
        self.assertEqual(
            99, len(class_thresholds.falls('linear', 100, lowest=1))
        )
        self.assertEqual((), class_thresholds.falls('linear', 1, lowest=1))

    def test_logarithmic_loses_a_class_with_each_doubling(self):
        """P4 §IV-D: w = max(N - lg(C/S), 1)."""
        self.assertEqual(
            (2, 4, 8, 16, 32, 64, 128, 256, 512),
            class_thresholds.falls('logarithmic', 10, lowest=1),
        )

    def test_logarithmic_ends_at_the_limit(self):
        found = class_thresholds.falls('logarithmic', 100, lowest=1)
        self.assertEqual(10, len(found))
        self.assertEqual(class_thresholds.LIMIT, found[-1])

    @hypothesis.given(
        st.sampled_from(['linear', 'logarithmic']),
        st.integers(1, 100),
        st.integers(0, 1),
        st.integers(0, class_thresholds.LIMIT * class_thresholds.RESOLUTION),
    )
    @hypothesis.settings(max_examples=20)
    def test_falls_are_the_formula(self, name, classes, lowest, step):
        use = step / class_thresholds.RESOLUTION
        level = getattr(class_thresholds, name)(use, classes)
        lost = sum(
            use >= fall
            for fall in class_thresholds.falls(name, classes, lowest)
        )
        self.assertEqual(
            max(classes - lost, lowest), classes - lost, 'below the lowest'
        )
        self.assertLess(abs(max(level, lowest) - (classes - lost)), 1)
        self.assertGreaterEqual(classes - lost, max(level, lowest))


class StrangeTest(unittest.TestCase):
    """Curves that somebody got wrong."""

    def _falls(self, curve, classes=10, lowest=1):
        with mock.patch.object(class_thresholds, 'load', return_value=curve):
            return class_thresholds.falls('own', classes, lowest)

    def _refused(self, message, curve):
        with self.assertRaisesRegex(exception.ContentionError, message):
            self._falls(curve)

    def test_out_of_bounds_is_the_bound(self):
        self.assertEqual((), self._falls(lambda use, classes: 1000.0))
        self.assertEqual((), self._falls(lambda use, classes: float('inf')))
        self.assertEqual(
            (4.0,) * 9,
            self._falls(lambda use, classes: -1e300 if use >= 4 else classes),
        )
        self.assertEqual(
            (4.0,) * 9,
            self._falls(
                lambda use, classes: -float('inf') if use >= 4 else classes
            ),
        )

    def test_a_curve_may_begin_low_and_jump(self):
        self.assertEqual(
            (0.0,) * 5 + (1.5,) * 3,
            self._falls(lambda use, classes: 5 if use < 1.5 else 2),
        )

    def test_no_number(self):
        self._refused(
            r'curve=own returns nan for a use of 0.0 scales and 10 classes',
            lambda use, classes: float('nan'),
        )
        self._refused(
            r'curve=own fails for a use of 0.0 scales and 10 classes: '
            r'TypeError',
            lambda use, classes: None,
        )

    def test_raises(self):
        self._refused(
            'curve=own fails for a use of 0.0 .* ZeroDivisionError: ',
            lambda use, classes: 1 / use,
        )

    def test_rises(self):
        self._refused(
            'curve=own rises to class 10 of 10 at a use of 6.0 scales',
            lambda use, classes: classes - use if use < 6 else classes,
        )


class PluginTest(testtools.TestCase):
    """A curve of a package that somebody has installed."""

    def setUp(self):
        super().setUp()
        self.site = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.site / 'own_curves.py').write_text(
            textwrap.dedent("""
            def halving(use, classes):
                return classes / 2 ** use
            """)
        )
        about = self.site / 'own_curves-1.0.dist-info'
        about.mkdir()
        (about / 'METADATA').write_text(
            'Metadata-Version: 2.1\nName: own-curves\nVersion: 1.0\n'
        )
        (about / 'entry_points.txt').write_text(
            '[nova_diskplacer.penalty_curves]\n'
            'halving = own_curves:halving\n'
            'broken = own_curves:gone\n'
        )

    def _falls(self, name):
        """Ask a new process, which finds the package as the agent does."""
        done = subprocess.run(
            [
                sys.executable,
                '-c',
                'import sys\n'
                'from nova_diskplacer import exception\n'
                'from nova_diskplacer.io_weights import class_thresholds\n'
                'try:\n'
                '    print(class_thresholds.falls(sys.argv[1], 8, 1))\n'
                'except exception.ContentionError as error:\n'
                '    print(error)\n',
                name,
            ],
            env={
                **os.environ,
                'PYTHONPATH': str(self.site),
                'XDG_CACHE_HOME': str(self.site),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def test_is_found_by_its_entry_point(self):
        # 7 where 8 / 2 ** use is 7, at 0.19 scales, and so on
        self.assertEqual(
            '(0.25, 0.4375, 0.6875, 1.0, 1.4375, 2.0, 3.0)',
            self._falls('halving'),
        )

    def test_unknown(self):
        self.assertEqual(
            '[diskplacer_weights] curve=cubic is not one of those installed: '
            'broken, halving, linear, logarithmic',
            self._falls('cubic'),
        )

    def test_cannot_be_loaded(self):
        self.assertIn(
            '[diskplacer_weights] curve=broken cannot be loaded: '
            'AttributeError',
            self._falls('broken'),
        )
