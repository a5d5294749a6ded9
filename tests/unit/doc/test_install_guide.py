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

"""Each step of the installation guide has a check with its output."""

import testtools

from tests.guide import outputs
from tests.guide import pages
from tests.guide import settings

# 'page: first line': why the step has no check
UNCHECKED = {}

STEP = """
Title
=====

Text.

.. code-block:: ini

   # /etc/one.conf
   [DEFAULT]
   host = here

.. code-block:: console

   # systemctl restart \\
       one
"""
CHECK = """
*Check*: it runs:

.. code-block:: console

   # systemctl is-active one
   active
"""


class PagesTest(testtools.TestCase):
    def test_guide(self):
        problems = {
            step.name: problem
            for name in pages.PAGES
            for step in pages.read(name)
            if (problem := pages.problem(step))
        }
        self.assertEqual(UNCHECKED.keys(), problems.keys(), problems)
        for page in pages.PAGES:
            self.assertNotEqual([], pages.read(page), page)

    def problems(self, text):
        return [*map(pages.problem, pages.steps('a.rst', text))]

    def test_step(self):
        (step,) = pages.steps('a.rst', STEP + CHECK)
        self.assertEqual('', pages.problem(step))
        self.assertEqual('Title', step.section)
        self.assertEqual('a.rst: systemctl restart \\', step.name)
        self.assertEqual(
            [pages.File('/etc/one.conf', '[DEFAULT]\nhost = here\n')],
            step.files,
        )
        self.assertEqual(
            [pages.Command('#', 'systemctl restart \\\n    one')],
            step.commands,
        )
        self.assertEqual(
            [pages.Command('#', 'systemctl is-active one', 'active\n')],
            step.checks,
        )

    def test_unchecked(self):
        for text, problem in (
            (STEP, 'has no check'),
            (STEP + STEP + CHECK, 'has no check'),
            # that of another section does not count
            (
                STEP + CHECK.replace('*Check*', 'Next\n====\n\n*Check*'),
                'has no check',
            ),
            (STEP + CHECK.replace('active\n', '\n'), 'shows no output'),
            (STEP + CHECK.replace('*Check*', 'Or'), 'has no check'),
            (CHECK, 'without a step'),
            (STEP.replace('# /etc', '# etc') + CHECK, 'no comment names'),
        ):
            self.assertIn(problem, ' '.join(self.problems(text)), text)

    def test_several(self):
        self.assertEqual(
            ['', ''], self.problems(STEP + CHECK + STEP + CHECK + '\nText.\n')
        )


class OutputsTest(testtools.TestCase):
    def test_alike(self):
        for expected, printed in (
            ('active\n', 'active\n'),
            # of columns with other widths
            ('+---+---+\n| a | 1 |\n', '+--+-----+\n| a |   1 |\n'),
            ('| 3d36 | ok |\n', '| 9999 | ok |\n'),
            ('| 3d364750… | ok |\n', '| 12345678-1234-1… | ok |\n'),
            ('vdb→3d36 vdc→8c51\n', 'vdb→1111 vdc→2222\n'),
            ('a\n…\nb\n', 'a\nc\nd\nb\n'),
            ('a\n…\nb\n', 'a\nb\n'),
            ('up | … | up\n', 'up | 2026-11-27 | up\n'),
        ):
            self.assertEqual('', outputs.differs(expected, printed), printed)

    def test_different(self):
        for expected, printed in (
            ('active\n', 'inactive\n'),
            ('active\n', ''),
            ('active\n', 'active\nmore\n'),
            ('| a | 1 |\n', '| a | 2 |\n'),
            ('| 16384 |\n', '| 16385 |\n'),
            ('| 3d36 | ok |\n', '| 9999 | missing |\n'),
            # one disk for two vdisks, and the reverse
            ('vdb→3d36 vdc→8c51\n', 'vdb→1111 vdc→1111\n'),
            ('vdb→3d36 vdc→3d36\n', 'vdb→1111 vdc→2222\n'),
            ('a\n…\nb\n', 'a\nc\nd\n'),
        ):
            self.assertNotEqual(
                '', outputs.differs(expected, printed), printed
            )


class ReadmeTest(testtools.TestCase):
    def test_options(self):
        """README's options are the guide's, but for those of weights."""
        guide = {
            (section, line)
            for name in pages.PAGES
            for step in pages.read(name)
            for file in step.files
            for section, lines in settings.sections(file.text)
            for line in lines
        }
        readme = (pages.INSTALL / '../../../README.rst').read_text()
        found = {
            (section, line)
            for step in pages.steps('README.rst', readme)
            for file in step.files
            for section, lines in settings.sections(file.text)
            for line in lines
            if not line.startswith('#')
        }
        self.assertEqual({('diskplacer_weights', 'mode = on')}, found - guide)
        self.assertGreater(len(found), 10)


class SettingsTest(testtools.TestCase):
    def test_merge(self):
        self.assertEqual(
            '# kept\n[DEFAULT]\nb = 2\na = 3\na = 4\n[two]\nc = 1\n'
            '[three]\n# why\nd = 1\n',
            settings.merge(
                '# kept\n[DEFAULT]\na = 1\nb = 2\n[two]\nc = 1\n',
                '[DEFAULT]\na = 3\na = 4\n\n[three]\n# why\nd = 1\n',
            ),
        )

    def test_new_file(self):
        text = '[Unit]\nAfter=one.service\n'
        self.assertEqual(text, settings.merge('', text))
        self.assertEqual(text, settings.merge(text, text))
