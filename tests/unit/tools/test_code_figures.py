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

import fixtures
import testtools

from tools import code_figures

MODULE = '''# a licence

"""What it is."""

LOG = None


def read(found):
    """Read it."""
    # because
    LOG.debug('read')

    return found


def empty():
    """Do nothing."""
'''


class FiguresTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.top / 'inner').mkdir()
        for name in ('a.py', 'inner/b.py'):
            (self.top / name).write_text(MODULE)

    def test_figures(self):
        found = code_figures.packages(self.top)
        self.assertEqual([str(self.top), f'{self.top}/inner'], list(found))
        inner = found[f'{self.top}/inner']
        self.assertEqual([10], inner.lines)
        self.assertEqual([3, 0], inner.functions)
        self.assertEqual(2, inner.vague)
        self.assertEqual(
            (1, 1, 1), (inner.questions, inner.comments, inner.debug)
        )
        self.assertEqual([10, 10], found[str(self.top)].lines)

    def test_table(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(0, code_figures.main([str(self.top)]))
        head, *rows = printed.getvalue().splitlines()
        self.assertEqual(2, len(rows))
        self.assertEqual(len(head), len(rows[0]))

    def test_wrong_directory(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            error = self.assertRaises(
                SystemExit, code_figures.main, ['absent']
            )
        self.assertEqual(2, error.code)
        self.assertIn('absent: no directory', printed.getvalue())
