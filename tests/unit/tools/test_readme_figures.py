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

import testtools

import _results
from tools import readme_figures

BEFORE = f'A\n=\n\n{readme_figures.BEGIN}\nold\n{readme_figures.END}\n\nEnd.\n'


class ReadmeTest(testtools.TestCase):
    def test_readme_has_the_figures_of_the_results(self):
        text = readme_figures.README.read_text()
        self.assertEqual(
            readme_figures.written(text, _results.read()),
            text,
            'run tools/readme_figures.py',
        )

    def test_only_what_is_between_the_comments_changes(self):
        text = readme_figures.written(BEFORE, {})
        self.assertTrue(text.startswith(f'A\n=\n\n{readme_figures.BEGIN}\n'))
        self.assertTrue(text.endswith(f'{readme_figures.END}\n\nEnd.\n'))
        self.assertNotIn('old', text)
        self.assertEqual(text, readme_figures.written(text, {}))

    def test_a_comment_is_missing(self):
        for name in (readme_figures.BEGIN, readme_figures.END):
            self.assertRaises(
                ValueError,
                readme_figures.written,
                BEFORE.replace(name, '.. other'),
                {},
            )

    def test_no_results(self):
        lines = readme_figures.block({})
        self.assertEqual(
            len(readme_figures.ROWS),
            sum('not measured' in line for line in lines),
        )

    def test_figures_exist(self):
        results = _results.read()
        for row in readme_figures.ROWS:
            for figure in row.figures if row.result in results else ():
                name = figure.rpartition(' ')[0] or figure
                self.assertIsNotNone(results[row.result].value(name), row)

    def test_it_says_whose_code_has_changed(self):
        results = _results.read()
        (name, *_) = (
            row.result for row in readme_figures.ROWS if row.result in results
        )
        for code, count in (({}, 2), (None, 1)):
            if code is None:
                code = _results.provenance.record(
                    _results._catalogue.measured(results[name].benchmark)
                )['code']
            one = dataclasses.replace(results[name], code=code)
            text = '\n'.join(readme_figures.block({name: one}))
            self.assertEqual(count, text.count(f'``{name}``'))
