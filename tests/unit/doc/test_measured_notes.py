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
import io
import pathlib

import fixtures
import testtools

import _catalogue
import _results
from tools import provenance

try:
    from sphinx import application
    from sphinx.util import docutils
except ImportError:
    # the environments of earlier releases do not build the documentation
    application = None

TOP = pathlib.Path(__file__).parents[3]
CHANGED = 'the code it measures has changed since'


@testtools.skipIf(application is None, 'needs Sphinx')
class NoteTest(testtools.TestCase):
    """Builds a page that shows figures."""

    def build(self, page, results):
        self.patch(_results, 'read', lambda: results)
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (path / 'conf.py').write_text(
            'import sys\n'
            f'sys.path.insert(0, {str(TOP / "doc" / "ext")!r})\n'
            "extensions = ['fidelity', 'placement_quality_tables']\n"
        )
        (path / 'index.rst').write_text(page)
        warning = io.StringIO()
        with docutils.patch_docutils(), docutils.docutils_namespace():
            application.Sphinx(
                path,
                path,
                path / 'out',
                path / 'trees',
                'text',
                status=None,
                warning=warning,
            ).build()
        self.assertEqual('', warning.getvalue())
        text = (path / 'out' / 'index.txt').read_text()
        return ' '.join(text.split())

    def result(self, **fields):
        one = _results.read()['contention']
        code = provenance.record(_catalogue.measured('contention'))
        return {
            'contention': dataclasses.replace(
                one, **{'code': code['code'], 'revision': 'ab12'} | fields
            )
        }

    page = 'T\n=\n\n:measured:`contention bfq_task3_s_change %`\n'

    def test_code_is_that_of_now(self):
        text = self.build(self.page, self.result())
        self.assertIn('revision ab12, with the code as it is here', text)
        self.assertNotIn(CHANGED, text)

    def test_code_has_changed(self):
        code = self.result()['contention'].code
        code['nova_diskplacer/monitor'] = 'other'
        text = self.build(self.page, self.result(code=code))
        self.assertIn(f'revision ab12; {CHANGED}', text)
        self.assertIn('"nova_diskplacer/monitor"', text)
        self.assertNotIn('"nova_diskplacer/io_weights"', text)

    def test_a_path_was_not_recorded(self):
        code = self.result()['contention'].code
        del code['benchmarks/contention.py']
        text = self.build(self.page, self.result(code=code))
        self.assertNotIn(CHANGED, text)
        self.assertIn(
            'may have changed, as no hash is recorded: '
            '"benchmarks/contention.py".',
            text,
        )

    def test_code_is_not_known(self):
        text = self.build(self.page, self.result(code={}))
        self.assertIn('may have changed since', text)

    def test_there_is_no_result(self):
        text = self.build(self.page, {})
        self.assertIn('"contention": not measured yet.', text)

    def test_generated_tables(self):
        results = _results.read()
        for line in ('.. placement-others::', '.. goals:: placement_quality'):
            text = self.build(f'T\n=\n\n{line}\n', results)
            self.assertIn('"placement_quality", 2026', text)

    def test_a_page_without_figures_has_no_note(self):
        text = self.build('T\n=\n\nText.\n', self.result())
        self.assertEqual('T * Text.', text)
