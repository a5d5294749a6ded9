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
import json
import os

import ddt
import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies

from nova_diskplacer import exception
from nova_diskplacer.sizing import samples


def sample(**changes):
    """Return a run with some fields changed."""
    fields = {
        'started': '2026-11-24T10:00:00+00:00',
        'host': 'compute1',
        'kernel': '6.1.0',
        'server': 'a',
        'vcpus': 2,
        'memory_bytes': 2 << 30,
        'seconds': 12.5,
        'counters': {'disk_reads': 7},
    }
    return samples.Sample(**fields | changes)


class Base(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('runs.jsonl')

    def write(self, *lines):
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write(''.join(lines))

    def content(self):
        with open(self.path, encoding='utf-8') as stream:
            return stream.read()


class AppendTest(Base):
    def test_runs_are_read_as_written(self):
        first = sample(
            missing={'migrations': 'no process'},
            block=3,
            vcpus_are=samples.PINNED,
            load={'workload': 'a', 'data_bytes': 5, 'operations': 8},
        )
        second = sample(server='b')
        samples.append(self.path, [first])
        samples.append(self.path, [second])
        self.assertEqual([first, second], samples.read(self.path))
        self.assertEqual(2, self.content().count('\n'))

    def test_a_half_written_line_is_removed(self):
        line = samples.to_line(sample())
        self.write(line, line[:-40])
        self.assertEqual([sample()], samples.read(self.path))
        samples.append(self.path, [sample(server='b')])
        self.assertEqual(
            ['a', 'b'], [one.server for one in samples.read(self.path)]
        )

    def test_nothing_but_a_half_written_line(self):
        self.write('{"version"')
        self.assertEqual([], samples.read(self.path))
        samples.append(self.path, [sample()])
        self.assertEqual([sample()], samples.read(self.path))

    def test_a_long_half_written_line(self):
        whole = samples.to_line(sample())
        self.write(whole, '{' + ' ' * 10_000)
        samples.append(self.path, [sample()])
        self.assertEqual(2 * whole, self.content())

    @given(strategies.integers(0, 2))
    def test_killed_at_any_byte(self, runs):
        line = samples.to_line(sample())
        for end in range(len(line)):
            self.write(line * runs, line[:end])
            samples.append(self.path, [sample()])
            self.assertEqual(line * (runs + 1), self.content())

    def test_a_file_that_cannot_be_written(self):
        error = self.assertRaises(
            exception.SizingError,
            samples.append,
            os.path.join(self.path, 'below'),
            [sample()],
        )
        self.assertIn('below: ', str(error))


class CheckWritableTest(Base):
    def test_makes_the_file(self):
        samples.check_writable(self.path)
        self.assertEqual('', self.content())

    def test_something_else_stays(self):
        self.write('root:x:0:0\nno newline')
        self.assertRaises(
            exception.SizingError, samples.check_writable, self.path
        )
        self.assertEqual('root:x:0:0\nno newline', self.content())


@ddt.ddt
class ReadTest(Base):
    def test_no_file(self):
        error = self.assertRaises(
            exception.SizingError, samples.read, self.path
        )
        self.assertEqual(f'{self.path}: No such file or directory', str(error))

    @ddt.data(
        ('{"a": 1', 'no JSON'),
        ('[1]', 'no object'),
        ('{}', 'version None is not 1'),
        ('{"version": 2}', 'version 2 is not 1'),
        ('{"version": 1, "seconds": 2}', 'not the fields of a run'),
        ('', 'no JSON'),
    )
    @ddt.unpack
    def test_a_line_that_is_no_run(self, line, message):
        self.write(samples.to_line(sample()), line, '\n')
        error = self.assertRaises(
            exception.SizingError, samples.read, self.path
        )
        self.assertIn(f'{self.path}, line 2: ', str(error))
        self.assertIn(message, str(error))

    @ddt.data(
        ('seconds', 0, 'not above 0'),
        ('seconds', '3', "seconds='3' is not int or float"),
        ('seconds', float('nan'), 'seconds=nan is not above 0'),
        ('memory_bytes', 0, 'memory_bytes=0 is not above 0'),
        ('counters', {'disk_reads': float('nan')}, 'is not a number'),
        ('vcpus', True, 'vcpus=True is not int'),
        ('block', 'x', 'is not int or NoneType'),
        ('vcpus_are', 'loose', "none of 'pinned', 'floating'"),
        ('counters', {'disk_reads': 'x'}, 'counter disk_reads'),
        ('load', [], 'is not dict'),
        ('server', None, 'is not str'),
    )
    @ddt.unpack
    def test_a_field_that_is_wrong(self, name, value, message):
        fields = dataclasses.asdict(sample()) | {name: value, 'version': 1}
        self.write(json.dumps(fields), '\n')
        error = self.assertRaises(
            exception.SizingError, samples.read, self.path
        )
        self.assertIn(message, str(error))

    def test_a_field_that_is_not_known(self):
        fields = dataclasses.asdict(sample()) | {'version': 1, 'color': 'red'}
        self.write(json.dumps(fields), '\n')
        error = self.assertRaises(
            exception.SizingError, samples.read, self.path
        )
        self.assertIn('color', str(error))


class LoadTest(testtools.TestCase):
    def test_what_the_load_tells(self):
        one = sample(load={'data_bytes': 3, 'operations': 9})
        self.assertEqual((3, 9), (one.data_bytes, one.operations))

    def test_what_it_does_not(self):
        for load in ({}, {'data_bytes': 'x', 'operations': 0}):
            one = sample(load=load)
            self.assertEqual((None, None), (one.data_bytes, one.operations))
