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

"""Directive ``log-line``: a message that the code logs or returns.

Its content is the message, with ``…`` for each value. It is an error if the
source code has no string with the text between the values. ``|`` marks where
the code joins two strings, and is not shown.
"""

import ast
import collections.abc
import functools
import pathlib
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils

import cinder_vdisk_mapper
import diskplacer_measure
import nova_diskplacer

_VALUES = re.compile(r'%[sdr]|%\(\w+\)[sd]')
_BETWEEN = '\0'


def _texts(tree: ast.AST) -> collections.abc.Iterator[str]:
    """Yield the strings of a module, with ``_BETWEEN`` for each value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _VALUES.sub(_BETWEEN, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield ''.join(
                str(part.value) if isinstance(part, ast.Constant) else _BETWEEN
                for part in node.values
            )


@functools.cache
def _source() -> str:
    """Return all strings of the packages."""
    found = []
    for package in (
        nova_diskplacer,
        cinder_vdisk_mapper,
        diskplacer_measure,
    ):
        for path in pathlib.Path(package.__path__[0]).rglob('*.py'):
            found += _texts(ast.parse(path.read_text()))
    return '\n'.join(found)


def unknown(message: str) -> list[str]:
    """Return the parts of a message that no string of the source has."""
    parts = [part.strip() for part in re.split(r'[…|]', message)]
    return [part for part in parts if part not in _source()]


class LogLine(docutils.SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        lines = [line.strip() for line in self.content]
        absent = unknown(' '.join(lines))
        if absent:
            raise self.error(f'the source code has no string {absent}')
        text = '\n'.join(lines).replace('|', '')
        node = nodes.literal_block(text, text, language='text')
        node['classes'].append('log-line')
        return [node]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('log-line', LogLine)
    return {'parallel_read_safe': True}
