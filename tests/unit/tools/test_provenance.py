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
import pathlib
import subprocess

import fixtures
import testtools

from tools import provenance


class ProvenanceTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.top / 'package' / '__pycache__').mkdir(parents=True)
        (self.top / 'package' / 'a.py').write_text('a = 1\n')
        (self.top / 'b.py').write_text('b = 1\n')
        self.code = {
            path: provenance.content(path, self.top)
            for path in ('package', 'b.py')
        }

    def changed(self, *paths):
        return provenance.changed(paths, self.code, self.top)

    def test_nothing_has_changed(self):
        (self.top / 'package' / '__pycache__' / 'a.pyc').write_bytes(b'1')
        self.assertEqual([], self.changed('package', 'b.py'))

    def test_a_file_has_changed(self):
        (self.top / 'package' / 'a.py').write_text('a = 2\n')
        self.assertEqual(['package'], self.changed('package', 'b.py'))
        (self.top / 'b.py').write_text('b = 2\n')
        self.assertEqual(['package', 'b.py'], self.changed('package', 'b.py'))

    def test_what_has_no_effect_may_change(self):
        path = self.top / 'b.py'
        path.write_text('\n"No text → none."\n\nb = 1  # of a\n')
        self.assertEqual([], self.changed('b.py'))
        path.write_text('"Two.\x0clines."\nb = 1\n')
        self.assertEqual([], self.changed('b.py'))
        path.write_text('b = 1\n"""Not a docstring."""\n')
        self.assertEqual(['b.py'], self.changed('b.py'))

    def test_a_file_has_another_name(self):
        path = self.top / 'package' / 'a.py'
        path.rename(path.with_name('c.py'))
        self.assertEqual(['package'], self.changed('package'))

    def test_a_path_that_was_not_recorded(self):
        (self.top / 'c.py').write_text('c = 1\n')
        self.assertEqual(['c.py'], self.changed('b.py', 'c.py'))

    def test_a_path_that_is_gone(self):
        (self.top / 'b.py').unlink()
        self.assertEqual(['b.py'], self.changed('b.py'))

    def test_record(self):
        found = provenance.record(['tools/provenance.py'])
        self.assertEqual(
            {'tools/provenance.py': provenance.content('tools/provenance.py')},
            found['code'],
        )
        self.assertTrue(found['seconds'] >= 0)

    def test_code_that_changes_during_a_run_is_not_recorded(self):
        self.patch(provenance, '_BEGAN', 0.0)
        self.assertEqual(
            {}, provenance.record(['tools/provenance.py'])['code']
        )


class StatementsTest(testtools.TestCase):
    def test_what_has_an_effect(self):
        source = '''
"""A module."""

a = '# no comment'  # one


class A:
    """A class:

    of two lines.
    """

    def run(self):
        """An é."""
        'more'
        return f(1, help='é' + (
            'x'), other=2)  # é


def empty():
    """Do nothing."""
'''
        self.assertEqual(
            [
                "a = '# no comment'",
                'class A:',
                'def run(self):',
                "'more'",
                'return f(1, help=',
                ', other=2)',
                'def empty():',
            ],
            [
                line.strip()
                for line in provenance.statements(source).splitlines()
            ],
        )

    def test_modules_of_the_project(self):
        for name in ('nova_diskplacer/conf', 'tools', 'benchmarks'):
            for path in (provenance.TOP / name).rglob('*.py'):
                source = path.read_text()
                found = provenance.statements(source)
                self.assertNotIn('Licensed under', found, path)
                self.assertEqual('import ' in source, 'import ' in found, path)


class RevisionTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.patch(provenance, 'TOP', self.top)

    def git(self, *words):
        return subprocess.run(
            ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words],
            cwd=self.top,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def test_without_git(self):
        self.assertIsNone(provenance.record([])['revision'])

    def test_with_changes(self):
        results = self.top / 'benchmarks' / 'results'
        results.mkdir(parents=True)
        for path in (self.top / 'a.py', results / 'one.json'):
            path.write_text('1')
        self.git('init', '--quiet')
        self.git('add', '.')
        self.git('commit', '--quiet', '--message=a')
        commit = self.git('rev-parse', '--short=12', 'HEAD')
        (results / 'one.json').write_text('2')
        self.assertEqual(commit, provenance.record([])['revision'])
        (self.top / 'a.py').write_text('2')
        self.assertEqual(f'{commit}-dirty', provenance.record([])['revision'])
