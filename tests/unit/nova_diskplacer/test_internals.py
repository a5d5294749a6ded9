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

"""Tests of the check of another program's code."""

import json
import unittest

from nova_diskplacer import internals


def name(attribute, **changes):
    return internals.Name(f'json.{attribute}', 'tests', **changes)


class MissingTest(unittest.TestCase):
    def _missing(self, *names):
        return internals.missing(names)

    def test_what_is_there(self):
        there = name(
            'JSONEncoder.encode', parameters=('o',), source=('isinstance',)
        )
        self.assertEqual([], self._missing(there, name('decoder.scanner')))

    def test_what_is_not(self):
        module = internals.Name('json.nowhere.loads', 'tests')
        self.assertEqual(
            [
                'json.nowhere.loads',
                'json.gone',
                'json.JSONEncoder.gone',
                'json.dumps(gone=)',
                '"gone" in json.dumps',
            ],
            self._missing(
                module,
                name('gone'),
                name('JSONEncoder.gone'),
                name('dumps', parameters=('obj', 'gone')),
                name('dumps', source=('return', 'gone')),
            ),
        )

    def test_code_without_source(self):
        builtin = internals.Name('builtins.len', 'tests')
        self.assertEqual([], self._missing(builtin))


class CheckTest(unittest.TestCase):
    def setUp(self):
        internals.check.cache_clear()
        self.addCleanup(internals.check.cache_clear)

    def test_one_line_once(self):
        names = (name('gone'), name('loads'), name('away'))
        with self.assertLogs(internals.LOG.logger, 'ERROR') as logs:
            for _ in range(2):
                internals.check(names, 'Python 4')
        (line,) = logs.output
        self.assertIn('not the Python 4', line)
        self.assertTrue(line.endswith(': json.gone, json.away'), line)

    def test_nothing_is_missing(self):
        self.assertTrue(hasattr(json, 'loads'))
        with self.assertNoLogs(internals.LOG.logger):
            internals.check((name('loads'),), 'Python')
