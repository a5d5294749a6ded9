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

import dataclasses
import datetime
import json
import math
import pathlib

import fixtures
import testtools

import _results

CONTENT = {
    'benchmark': 'one',
    'date': '2026-11-21',
    'command': 'tools/bench.sh one',
    'kernel': '6.18.0',
    'cpus': 2,
    'figures': {
        'times': 4.0,
        'times_min': 3.0,
        'times_max': 5.0,
        'rate': 10.0,
        'rate_low': 8.0,
        'rate_high': 12.5,
        'plain': 2.0,
        'none': None,
    },
    'goals': [],
}


def result(**figures):
    """Return a result with figures besides those of CONTENT."""
    return _results.Result(
        'one',
        datetime.date(2026, 11, 21),
        'tools/bench.sh one',
        _results.Machine('6.18.0', 2),
        CONTENT['figures'] | figures,
    )


class ResultTest(testtools.TestCase):
    def test_is_what_a_benchmark_wrote(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'one-seeking.json').write_text(json.dumps(CONTENT))
        (directory / 'README').write_text('no result')
        self.assertEqual({'one-seeking': result()}, _results.read(directory))

    def test_machine_revision_and_code(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        machine = {'cpu': 'A', 'cores': 4, 'kernel': '6.18.0', 'load': 0.5}
        content = {
            key: value
            for key, value in CONTENT.items()
            if key not in ('kernel', 'cpus')
        }
        content |= {'machine': machine, 'revision': 'ab', 'code': {'c': 'd'}}
        (directory / 'one.json').write_text(json.dumps(content))
        (found,) = _results.read(directory).values()
        self.assertEqual(('6.18.0', 4, 'A', 0.5), found.machine)
        self.assertEqual(('ab', {'c': 'd'}), (found.revision, found.code))

    def test_there_is_none(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.assertEqual({}, _results.read(path / 'none'))

    def test_value(self):
        for name, value in (
            ('plain', (2.0, None, None, '')),
            ('times', (4.0, 3.0, 5.0, '')),
            ('rate', (10.0, 8.0, 12.5, '95 % CI')),
            ('plain / times', (0.5, None, None, '')),
            ('rate / times', (2.5, 1.6, 12.5 / 3, '95 % CI')),
            ('plain - times', (-2.0, None, None, '')),
            ('rate - times', (6.0, 3.0, 9.5, '95 % CI')),
            ('loss / times', (-0.5, -4 / 3, 1 / 3, '')),
            ('times / fall', (-2.0, -math.inf, math.inf, '')),
            ('times / loss', (-2.0, -math.inf, math.inf, '')),
            ('plain / loss', (-1.0, None, None, '')),
            ('times - loss', (6.0, 2.0, 9.0, '')),
        ):
            found = result(
                loss=-2.0,
                loss_min=-4.0,
                loss_max=1.0,
                fall=-2.0,
                fall_min=-4.0,
                fall_max=-1.0,
            ).value(name)
            self.assertEqual(value, dataclasses.astuple(found), name)

    def test_not_measured(self):
        for name in ('none', 'none / plain', 'plain / none', 'other'):
            self.assertIsNone(result().value(name), name)

    def test_divided_by_nothing(self):
        self.assertIsNone(result(idle=0.0).value('plain / idle'))

    def test_figure_is_in_its_interval(self):
        for low, high in ((2.5, 3.0), (1.0, 1.5), (3.0, 1.0)):
            self.assertRaises(ValueError, _results.Value, 2.0, low, high)
        found = [
            _results.Value(2.0, *ends).bounded
            for ends in ((), (1.0, 2.0), (-math.inf, math.inf))
        ]
        self.assertEqual([False, True, False], found)
