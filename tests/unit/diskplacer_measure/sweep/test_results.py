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

import json
import os
import signal
import subprocess
import sys

import ddt
import fixtures
import testtools

from diskplacer_measure.sweep import results
from nova_diskplacer import exception
from tests.unit.diskplacer_measure.sweep import samples

CELLS = (samples.make_cell(), samples.make_cell(1))


class ResultsTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(directory, 'results')
        self.header = samples.make_header(CELLS)

    def write(self, *found):
        with results.Writer.create(self.path, self.header) as writer:
            for one in found:
                writer.append(one)

    def lines(self):
        with open(self.path) as stream:
            return stream.read().split('\n')

    def error(self):
        return str(
            self.assertRaises(
                exception.DiskPlacerError, results.read, self.path
            )
        )


@ddt.ddt
class ReadTest(ResultsTestCase):
    def test_what_was_written(self):
        found = (
            samples.make_result(CELLS[0]),
            samples.make_result(CELLS[1], 1, problem='late', rates=()),
        )
        self.write(*found)
        self.assertEqual(
            results.Run(self.header, found), results.read(self.path)
        )

    def test_a_later_result_replaces_an_earlier_one(self):
        self.write(
            samples.make_result(CELLS[0], problem='late'),
            samples.make_result(CELLS[1]),
            samples.make_result(CELLS[0]),
        )
        self.assertEqual(
            [(CELLS[1], ''), (CELLS[0], '')],
            [
                (one.cell, one.problem)
                for one in results.read(self.path).results
            ],
        )

    @ddt.data(
        ('', 'there is no header'),
        ('{"kind": "ru', 'there is no header'),
        ('{"kind": "result"}\n', 'line 1: kind=result is not run'),
        ('nonsense\n', 'line 1: not JSON'),
        ('{"kind": "run", "version": 1}\n', 'line 1: it lacks'),
    )
    @ddt.unpack
    def test_a_header(self, text, message):
        with open(self.path, 'w') as stream:
            stream.write(text)
        self.assertIn(f'{self.path}: ', self.error())
        self.assertIn(message, self.error())

    def test_another_version(self):
        self.header = samples.make_header(CELLS, version=2)
        self.write()
        self.assertIn('line 1: version=2 is not one of: 1', self.error())

    @ddt.data(
        ({'mbps': 'fast'}, "mbps='fast' is no float"),
        ({'repetition': 2}, 'repetition=2 is not from 0 to 1'),
        ({'cell': {'jobs': 1}}, 'cell lacks'),
    )
    @ddt.unpack
    def test_a_malformed_result(self, change, message):
        self.write(samples.make_result(CELLS[0]))
        fields = {**json.loads(self.lines()[1]), **change}
        with open(self.path, 'a') as stream:
            stream.write(json.dumps(fields) + '\n')
        self.assertIn(f'{self.path}: line 3: ', self.error())
        self.assertIn(message, self.error())

    @ddt.data(
        (
            {'scenario': 'cloud'},
            'scenario=cloud is not one of: bare, server, servers',
        ),
        ({'servers': 2}, 'servers=2 is not of the scenario server'),
        ({'jobs': 0}, 'jobs=0 is not at least 1'),
        ({'ram_mib': 0}, 'ram_mib=0 is not at least 1'),
    )
    @ddt.unpack
    def test_a_cell_that_cannot_be(self, values, message):
        self.header = samples.make_header(
            [
                samples.make_cell(
                    **{'servers': 1, 'scenario': 'server'} | values
                )
            ]
        )
        self.write()
        self.assertIn(f'line 1: plan.{message}', self.error())

    def test_a_run_of_nothing(self):
        self.header = samples.make_header(CELLS, data_mib=0)
        self.write()
        self.assertIn('line 1: data_mib=0 is not at least 1', self.error())

    def test_a_cell_that_is_not_planned(self):
        self.write(samples.make_result(samples.make_cell(3)))
        self.assertIn('line 2: the cell is not in the plan', self.error())

    def test_a_missing_file(self):
        self.assertIn('No such file', self.error())


class WriterTest(ResultsTestCase):
    def test_a_file_that_exists(self):
        self.write()
        error = self.assertRaises(
            exception.DiskPlacerError,
            results.Writer.create,
            self.path,
            self.header,
        )
        self.assertEqual(f'{self.path} exists already', str(error))

    def test_a_killed_process(self):
        # each result that append has returned for is in the file
        self.write()
        script = (
            'import os, signal\n'
            'from diskplacer_measure.sweep import results\n'
            'from tests.unit.diskplacer_measure.sweep import samples\n'
            f'with results.Writer({self.path!r}) as writer:\n'
            '    writer.append(samples.make_result(samples.make_cell()))\n'
            f'    os.kill(os.getpid(), {int(signal.SIGKILL)})\n'
        )
        done = subprocess.run([sys.executable, '-c', script])
        self.assertEqual(-signal.SIGKILL, done.returncode)
        self.assertEqual(1, len(results.read(self.path).results))
