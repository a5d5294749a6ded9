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

import ddt
import fixtures
import testtools

from diskplacer_measure.sizing import samples
from nova_diskplacer import exception


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
        samples.append(self.path, first)
        samples.append(self.path, second)
        self.assertEqual([first, second], samples.read(self.path))
        self.assertEqual(2, self.content().count('\n'))


class CheckWritableTest(Base):
    def test_makes_the_file(self):
        samples.check_writable(self.path)
        self.assertEqual('', self.content())

    def test_something_else_stays(self):
        for content in (
            'root:x:0:0\nno newline',
            '{"important": 1}',
            'gAAAAAB-a-token',
            '{"version": 12}',
        ):
            self.write(content)
            self.assertRaises(
                exception.DiskPlacerError, samples.check_writable, self.path
            )
            self.assertEqual(content, self.content())

    def test_half_a_first_line_is_removed(self):
        for content in ('', '{"ver', '{"version": 1, "memory_bytes'):
            self.write(content)
            samples.check_writable(self.path)
            self.assertEqual('', self.content())


@ddt.ddt
class ReadTest(Base):
    def error(self):
        return str(
            self.assertRaises(
                exception.DiskPlacerError, samples.read, self.path
            )
        )

    @ddt.data(
        ('seconds', 0, 'seconds=0.0 is not above 0'),
        ('memory_bytes', 0, 'memory_bytes=0 is not above 0'),
        ('block', 'x', "block='x' is no int"),
        ('vcpus_are', 'loose', "none of 'pinned', 'floating'"),
        ('counters', {'disk_reads': 'x'}, "counters.disk_reads='x'"),
        ('load', [], 'load=[] is no dict'),
        ('version', 2, 'version=2 is not 1'),
        ('color', 'red', 'color'),
    )
    @ddt.unpack
    def test_a_field_that_is_wrong(self, name, value, message):
        fields = {'version': 1, **dataclasses.asdict(sample()), name: value}
        self.write(json.dumps(fields), '\n')
        self.assertIn(f'{self.path}: line 1: ', self.error())
        self.assertIn(message, self.error())


class LoadTest(testtools.TestCase):
    def test_what_the_load_tells(self):
        one = sample(load={'data_bytes': 3, 'operations': 9})
        self.assertEqual((3, 9), (one.data_bytes, one.operations))

    def test_what_it_does_not(self):
        for load in ({}, {'data_bytes': 'x', 'operations': 0}):
            one = sample(load=load)
            self.assertEqual((None, None), (one.data_bytes, one.operations))
