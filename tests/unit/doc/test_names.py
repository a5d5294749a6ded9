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

"""The names of code in the contributor guide."""

import ast
import pathlib
import re

import testtools

ROOT = pathlib.Path(__file__).parents[3]
PACKAGES = ('nova_diskplacer', 'cinder_vdisk_mapper', 'diskplacer_measure')
PAGES = ROOT / 'doc' / 'source' / 'contributor'

_NAME = re.compile(r'``([a-z_]+(?:\.\w+)+)``')


def find_module(parts):
    """Return the file of a module or package, None if there is none."""
    path = ROOT.joinpath(*parts)
    for file in (path.with_suffix('.py'), path / '__init__.py'):
        if file.is_file():
            return file
    return None


def has_name(body, parts):
    """Tell whether a module or class defines a name, and that the next."""
    if not parts:
        return True
    for node in body:
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and node.name == parts[0]
        ):
            return has_name(node.body, parts[1:])
        targets = getattr(node, 'targets', [getattr(node, 'target', None)])
        if any(getattr(one, 'id', None) == parts[0] for one in targets):
            return True
    return False


def is_defined(parts):
    """Tell whether a dotted name below the root is a module or in one."""
    for length in range(len(parts), 0, -1):
        file = find_module(parts[:length])
        if file is not None:
            return has_name(ast.parse(file.read_text()).body, parts[length:])
    return False


def candidates(name):
    """Return the full names that a name in a page may stand for."""
    parts = name.split('.')
    if parts[0] in PACKAGES:
        return [parts]
    return [
        [package, *parts]
        for package in PACKAGES
        if find_module([package, parts[0]])
    ]


def undefined(text):
    """Return the names of a text that the code does not have."""
    return [
        name
        for name in _NAME.findall(text)
        if (meant := candidates(name)) and not any(map(is_defined, meant))
    ]


class NamesTest(testtools.TestCase):
    def test_pages(self):
        pages = [
            PAGES / 'architecture.rst',
            PAGES / 'call-paths.rst',
            *PAGES.glob('design/*.rst'),
        ]
        self.assertGreater(len(pages), 5)
        found = 0
        for page in pages:
            text = page.read_text()
            self.assertEqual([], undefined(text), page.name)
            found += sum(bool(candidates(one)) for one in _NAME.findall(text))
        self.assertGreater(found, 30)

    def test_what_is_undefined(self):
        text = (
            '``scheduler.filter.DiskPlacementFilter.filter_all`` and '
            '``scheduler.filter.NoFilter``, ``scheduler.no_module``, '
            '``nova_diskplacer.flavor.parse``, ``nova_diskplacer.absent``, '
            '``io.stat``'
        )
        self.assertEqual(
            [
                'scheduler.filter.NoFilter',
                'scheduler.no_module',
                'nova_diskplacer.absent',
            ],
            undefined(text),
        )
