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

import warnings

import numpy
import testtools
from hypothesis import given
from hypothesis import strategies

from nova_diskplacer.monitor import io_files

NUMBERS = strategies.integers(0, 2**63 - 1)
DEVICES = strategies.tuples(
    strategies.integers(0, 4095), strategies.integers(0, 2**20 - 1)
)
# of a cgroup: what each device counted
FILE = strategies.dictionaries(
    DEVICES, strategies.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=4
)


def write_v1(devices, place=0):
    """Return a file of cgroup v1, of bytes (0) or of requests (2)."""
    lines = []
    for (major, minor), counters in devices.items():
        done = counters[place : place + 2]
        for name, value in (
            ('Read', done[0]),
            ('Write', done[1]),
            ('Sync', 77),
            ('Async', 88),
            ('Discard', 99),
            ('Total', 111),
        ):
            lines.append(f'{major}:{minor} {name} {value}\n')
    return ''.join([*lines, 'Total 222\n']).encode()


def write_v2(devices, more='dbytes=5 dios=6'):
    return ''.join(
        '{}:{} rbytes={} wbytes={} rios={} wios={} {}\n'.format(
            *device, *counters, more
        )
        for device, counters in devices.items()
    ).encode()


class ParserTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter('error')

    def check(self, parser, texts, files, width=slice(None)):
        lines, values = parser.parse(texts)
        self.assertEqual(
            [
                (index, f'{major}:{minor}', *counters[width])
                for index, file in enumerate(files)
                for (major, minor), counters in file.items()
            ],
            [
                (*io_files.split(line), *row)
                for line, row in zip(
                    lines.tolist(), values.tolist(), strict=True
                )
            ],
        )

    @given(strategies.lists(strategies.lists(FILE, max_size=4), max_size=4))
    def test_version_2(self, reads):
        parser = io_files.Parser(io_files.FORMS[2][0])
        for files in reads:
            self.check(parser, list(map(write_v2, files)), files)

    @given(strategies.lists(strategies.lists(FILE, max_size=4), max_size=4))
    def test_version_1(self, reads):
        for place, form in zip((0, 2), io_files.FORMS[1], strict=True):
            parser = io_files.Parser(form)
            for files in reads:
                texts = [write_v1(file, place) for file in files]
                self.check(parser, texts, files, slice(place, place + 2))

    def test_what_other_kernels_write(self):
        devices = {(8, 0): (1, 2, 3, 4), (253, 7): (5, 6, 7, 8)}
        for text in (
            # no newline after a device without I/O, Linux 5.10
            b'7:1 7:0 ' + write_v2(devices),
            write_v2(devices, 'dbytes=0 dios=0 cost.vrate=100.00'),
            write_v2(devices, ''),
            write_v2(devices, 'x1y2=3 4z5 p99=6 _7_'),
        ):
            parser = io_files.Parser(io_files.FORMS[2][0])
            self.check(parser, [text], [devices])
        # before discards were counted
        text = write_v1(devices).replace(b'253:7 Discard 99\n', b'')
        parser = io_files.Parser(io_files.FORMS[1][0])
        self.check(parser, [text], [devices], slice(0, 2))

    def test_a_line_that_moves_to_another_file(self):
        parser = io_files.Parser(io_files.FORMS[2][0])
        one, two = {(8, 0): (1, 2, 3, 4)}, {(8, 16): (5, 6, 7, 8)}
        for files in ([one | two, {}], [one, two], [{}, one | two]):
            self.check(parser, list(map(write_v2, files)), files)

    def test_nothing_is_learned_twice(self):
        parser = io_files.Parser(io_files.FORMS[2][0])
        parser.parse([write_v2({(8, 0): (1, 2, 3, 4)})] * 3)
        places = parser._places
        parser.parse([write_v2({(8, 0): (11, 22, 33, 44)})] * 3)
        self.assertIs(places, parser._places)
        self.assertEqual(numpy.int64, places.dtype)
