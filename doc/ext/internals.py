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

"""Directive ``internals``: what of another program's code is relied on.

Generated from the tables that services check when they start.
"""

import importlib

from docutils import nodes
from docutils import statemachine
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

from nova_diskplacer import internals


def lines(names: internals.Names) -> list[str]:
    """Return a table as reStructuredText."""
    text = []
    for name in names:
        text += [f'``{name.name}``', f'    {name.use}']
        if name.parameters:
            listed = ', '.join(f'``{one}``' for one in name.parameters)
            text += ['', f'    Called with {listed}.']
        if name.source:
            listed = ', '.join(f'``{one}``' for one in name.source)
            text += ['', f'    Its source has {listed}.']
        if name.earlier:
            text += ['', f'    In earlier releases ``{name.earlier}``.']
        if name.since:
            text += ['', f'    Since release {name.since}.']
        text.append('')
    return text


class Internals(docutils.SphinxDirective):
    """Show a table, named as module and attribute."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        text = lines(getattr(module, self.arguments[1]))
        source = statemachine.StringList(text, source=module.__file__)
        node = nodes.section(document=self.state.document)
        sphinx_nodes.nested_parse_with_titles(self.state, source, node)
        self.env.note_dependency(module.__file__)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('internals', Internals)
    return {'parallel_read_safe': True}
