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

import subprocess
import sys

from oslotest import base

from tools import code_ways

LOCATION = (
    'tests.unit.nova_diskplacer.disks.test_location.LocationTestCase'
    '.test_errors'
)


class CodeWaysTest(base.BaseTestCase):
    def run_(self, *arguments):
        return subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'tools.code_ways']
            + [*arguments],
            cwd=code_ways.TOP,
            capture_output=True,
            text=True,
        )

    def test_a_way(self):
        done = self.run_(LOCATION, 'Location.narrowest')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(
            'Location.narrowest: 1 functions, 1 files, 0 returns', done.stdout
        )

    def test_what_is_not_called(self):
        done = self.run_(LOCATION, 'no.such.function')
        self.assertEqual(1, done.returncode)
        self.assertIn('no.such.function is not called', done.stderr)

    def test_usage(self):
        done = self.run_()
        self.assertEqual(2, done.returncode)
        self.assertIn('TEST FUNCTION', done.stderr)

    def test_returns(self):
        way = code_ways.Way('entry')
        for path, name in (('a', 'x'), ('b', 'y'), ('a', 'z'), ('a', 'x')):
            way._visit(path, name)
        self.assertEqual(3, len(way.functions))
        self.assertEqual({'a': 2, 'b': 1}, way.files)
        self.assertEqual(1, way.returns)
