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
import typing

import ddt
import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies

from nova_diskplacer import exception
from nova_diskplacer.host import json_lines


@dataclasses.dataclass(frozen=True)
class Inner:
    count: int


@dataclasses.dataclass(frozen=True)
class Outer:
    size: float
    name: str
    inner: Inner
    parts: tuple[Inner, ...]
    shares: dict[str, float]
    block: int | None
    about: dict[str, typing.Any]


OUTER = Outer(1.5, 'a', Inner(3), (Inner(4),), {'b': 0.5}, None, {'c': [1]})


class Base(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('lines')

    def write(self, text):
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write(text)

    def content(self):
        with open(self.path, encoding='utf-8') as stream:
            return stream.read()


class WriterTest(Base):
    def add(self):
        with json_lines.Writer(self.path) as writer:
            writer.add(OUTER, version=1)

    def test_what_was_written(self):
        self.add()
        self.add()
        self.assertEqual(
            [OUTER, OUTER],
            [
                json_lines.parse(line, Outer, version=1)
                for line in json_lines.read(self.path)
            ],
        )

    @given(strategies.integers(0, 2))
    def test_killed_at_any_byte(self, lines):
        line = json_lines.dump(OUTER, version=1)
        for end in range(len(line)):
            self.write(line * lines + line[:end])
            self.assertEqual(lines, len(json_lines.read(self.path)))
            self.add()
            self.assertEqual(line * (lines + 1), self.content())

    def test_two_writers(self):
        with json_lines.Writer(self.path):
            error = self.assertRaises(
                exception.DiskPlacerError, json_lines.Writer, self.path
            )
        self.assertIn('another process writes it', str(error))
        self.add()

    def test_a_full_disk(self):
        self.add()
        with json_lines.Writer(self.path) as writer:
            with fixtures.MonkeyPatch(
                'os.write', lambda file, text: len(text) // 2
            ):
                error = self.assertRaises(
                    exception.DiskError, writer.add, OUTER
                )
        self.assertIn('no space is left', str(error))

    def test_a_directory_that_is_missing(self):
        error = self.assertRaises(
            exception.DiskError, json_lines.Writer, self.path + '/below'
        )
        self.assertIn('below: ', str(error))


@ddt.ddt
class ParseTest(Base):
    def error(self, text):
        error = self.assertRaises(
            ValueError, json_lines.parse, text, Outer, version=1
        )
        return str(error)

    def test_a_missing_file(self):
        error = self.assertRaises(
            exception.DiskError, json_lines.read, self.path
        )
        self.assertEqual(f'{self.path}: No such file or directory', str(error))

    def test_a_file_without_an_end(self):
        self.useFixture(fixtures.MockPatchObject(json_lines, '_MOST', 1 << 20))
        error = self.assertRaises(
            exception.DiskError, json_lines.read, '/dev/zero'
        )
        self.assertIn('/dev/zero: longer than 1 MiB', str(error))

    def test_the_line_is_named(self):
        def parse():
            with json_lines.line('f', 3):
                json_lines.parse(b'\xff', Outer)

        error = self.assertRaises(exception.DiskPlacerError, parse)
        self.assertIn('f: line 3: not JSON', str(error))

    @ddt.data(
        (b'', 'not JSON'),
        (b'{"a": 1', 'not JSON'),
        (b'[1]', 'not an object of JSON'),
        (b'[' * 100_000, 'not JSON'),
        (b'{"version": 2}', 'version=2 is not 1'),
        (b'{}', 'version=None is not 1'),
        (b'{"version": 1}', 'it lacks or does not have: about, block'),
    )
    @ddt.unpack
    def test_a_malformed_line(self, text, message):
        self.assertIn(message, self.error(text))

    @ddt.data(
        ('"size": 1.5', '"size": 2', ''),
        ('"size": 1.5', '"size": "x"', "size='x' is no float"),
        ('"size": 1.5', '"size": true', 'size=True is no float'),
        ('"size": 1.5', '"size": NaN', 'NaN is no number'),
        ('"size": 1.5', '"size": 1e999', 'size=inf is no float'),
        ('"size": 1.5', '"size": 1' + 400 * '0', 'is no float'),
        ('"a"', 'null', 'name=None is no str'),
        ('"count": 3', '"count": 3.0', 'inner.count=3.0 is no int'),
        ('"count": 3', '"number": 3', 'inner lacks or does not have: count'),
        ('[{"count": 4}]', '3', 'parts=3 is no tuple'),
        ('"count": 4', '"count": true', 'parts.count=True is no int'),
        ('0.5', 'null', 'shares.b=None is no float'),
        ('"block": null', '"block": 3', ''),
        ('"block": null', '"block": "x"', "block='x' is no int"),
        ('{"c": [1]}', '[1]', 'about=[1] is no dict'),
    )
    @ddt.unpack
    def test_a_value(self, old, new, message):
        line = json_lines.dump(OUTER, version=1)
        self.assertIn(old, line)
        text = line.replace(old, new, 1).encode()
        if message:
            self.assertIn(message, self.error(text))
        else:
            json_lines.parse(text, Outer, version=1)
