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

import datetime
import json
import os
import pathlib

import fixtures
import testtools

import _report


class WriteTest(testtools.TestCase):
    def written(self, *words):
        self.directory = self.useFixture(fixtures.TempDir())
        path = self.directory.join('figures.json')
        argv = ['/somewhere/benchmarks/one.py', *words]
        self.useFixture(fixtures.MonkeyPatch('sys.argv', argv))
        _report.write(
            path,
            'worker_race',
            {'seconds': 1.5, 'lost': None},
            [
                _report.Goal('seconds', '<=', 2),
                _report.Goal('lost', '==', 0),
            ],
        )
        return json.loads(pathlib.Path(path).read_text())

    def test_figures_and_goals(self):
        found = self.written()
        self.assertEqual('worker_race', found['benchmark'])
        self.assertEqual({'seconds': 1.5, 'lost': None}, found['figures'])
        self.assertEqual(
            [
                {'figure': 'seconds', 'op': '<=', 'value': 2, 'met': True},
                {'figure': 'lost', 'op': '==', 'value': 0, 'met': False},
            ],
            found['goals'],
        )

    def test_date_and_machine(self):
        before = datetime.date.today()
        found = self.written()
        date = datetime.date.fromisoformat(found['date'])
        self.assertTrue(before <= date <= datetime.date.today())
        machine = found['machine']
        self.assertEqual(os.uname().release, machine['kernel'])
        self.assertEqual(os.cpu_count(), machine['cores'])
        self.assertTrue(machine['cpu'])
        self.assertTrue(machine['load'] >= 0)

    def test_no_file_is_left_in_part(self):
        self.written()
        self.assertEqual(['figures.json'], os.listdir(self.directory.path))

    def test_command_without_the_file(self):
        for words in (
            ['--json', '/tmp/figures.json', '--runs', '3', 'a b'],
            ['--runs', '3', '--json=/tmp/figures.json', 'a b'],
        ):
            self.assertEqual(
                "tools/bench.sh worker_race --runs 3 'a b'",
                self.written(*words)['command'],
            )
