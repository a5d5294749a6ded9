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

import contextlib
import io
import pathlib
import sys

import fixtures
import testtools

from tools import generated


class GeneratedTest(testtools.TestCase):
    def run_(self, *arguments):
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'a')
        self.path.write_text('old')
        self.patch(sys, 'argv', ['script', *arguments])
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = generated.main(
                '', self.path, 'tools/script.py', lambda text: f'{text} new'
            )
        return status, self.path.read_text(), errors.getvalue()

    def test_written(self):
        self.assertEqual((0, 'old new', ''), self.run_())

    def test_check(self):
        self.assertEqual(
            (1, 'old', 'a: run tools/script.py\n'), self.run_('--check')
        )

    def test_nothing_has_changed(self):
        self.run_()
        with contextlib.redirect_stderr(io.StringIO()):
            self.patch(sys, 'argv', ['script', '--check'])
            self.assertEqual(
                0, generated.main('', self.path, '', lambda text: text)
            )
