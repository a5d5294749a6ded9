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


"""Directive ``extra-specs``: the reference of the ``diskplacer:`` keys.

Generated from what Nova's API and the scheduler themselves check, so that it
cannot say anything else.
"""

from docutils import nodes
from docutils import statemachine
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

from nova_diskplacer import flavor


def lines() -> list[str]:
    """Return the reference as reStructuredText."""
    text = []
    for name, spec in flavor.SPECS.items():
        if spec.choices:
            allowed = 'One of ' + ', '.join(f'``{c}``' for c in spec.choices)
        elif spec.pattern:
            allowed = f'Name, as ``{spec.pattern}``'
        else:
            allowed = f'Integer from {spec.minimum} to {spec.maximum}'
        text += [
            f'``{flavor.NAMESPACE}{name}``',
            f'    :Value: {allowed}',
            '',
            f'    {spec.description}',
            '',
        ]
    return text


class ExtraSpecs(docutils.SphinxDirective):
    def run(self) -> list[nodes.Node]:
        source = statemachine.StringList(lines(), source=flavor.__file__)
        node = nodes.section(document=self.state.document)
        sphinx_nodes.nested_parse_with_titles(self.state, source, node)
        self.env.note_dependency(flavor.__file__)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('extra-specs', ExtraSpecs)
    return {'parallel_read_safe': True}
