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


"""Directives ``profiles``, ``profile-papers`` and ``profile-schema``.

The reference of profiles, from the files and the schema that the services
themselves read.
"""

import typing

import yaml
from docutils import nodes
from docutils import statemachine
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

from nova_diskplacer.cmd import profile as command
from nova_diskplacer.profiles import catalogue


def catalogue_lines() -> list[str]:
    """Return the shipped profiles as reStructuredText."""
    text = []
    for profile in catalogue.load().values():
        text += [
            f'.. _profile-{profile.name}:',
            '',
            profile.name,
            '-' * len(profile.name),
            '',
            f'{profile.title}. {profile.description}',
            '',
        ]
        if profile.aliases:
            aliases = ', '.join(f'``{alias}``' for alias in profile.aliases)
            text += [f'Aliases: {aliases}', '']
        text += _table(profile)
    return text


def _table(profile: catalogue.Profile) -> list[str]:
    text = [
        '.. list-table::',
        '   :header-rows: 1',
        '   :widths: 32 28 40',
        '',
        '   * - Setting',
        '     - Value',
        '     - Rests on',
    ]
    for path, value in catalogue.settings(profile).items():
        lines = command.text(path, value).splitlines()
        text += [f'   * - ``{path}``', f'     - {lines[0]}']
        for line in lines[1:]:
            text += ['', f'       {line}']
        text += [f'     - {profile.sources[path]}']
    return [*text, '']


def paper_lines() -> list[str]:
    """Return the papers as reStructuredText."""
    text = []
    for paper, title in catalogue.PAPERS.items():
        text += [paper, f'    {title}', '']
    return text


def schema_lines() -> list[str]:
    """Return what a profile's file may hold, as reStructuredText."""
    schema = yaml.safe_load(catalogue.SCHEMA.read_text())
    return _properties('', schema, schema['$defs'], {})


def _properties(
    prefix: str,
    schema: dict[str, typing.Any],
    defs: dict[str, typing.Any],
    told: dict[str, str],
) -> list[str]:
    """Return a field for each property.

    :param told: the paths where definitions are told of in full already.
    """
    text = []
    for name, described in schema.get('properties', {}).items():
        reference = described.get('$ref', '').rpartition('/')[2]
        full = {**defs.get(reference, {}), **described}
        path = f'{prefix}{name}'
        required = name in schema.get('required', ())
        first = path
        if 'properties' in full and reference:
            first = told.setdefault(reference, path)
        value = _value(full) if first == path else f'as ``{first}``'
        text += [
            f'``{path}``',
            f'    :Value: {value}{", required" if required else ""}',
            '',
        ]
        if 'description' in full:
            text += [f'    {full["description"]}', '']
        if first == path:
            text += _properties(f'{path}.', full, defs, told)
    return text


def _value(described: dict[str, typing.Any]) -> str:
    if 'enum' in described:
        values = ', '.join(f'``{value}``' for value in described['enum'])
        return f'one of {values}'
    kind = described['type']
    if kind == 'array':
        items = described['items']
        return 'list' + (f', each {_value(items)}' if 'enum' in items else '')
    if 'maximum' in described:
        return f'{kind} from {described["minimum"]} to {described["maximum"]}'
    if 'minimum' in described:
        return f'{kind}, {described["minimum"]} or more'
    return {'object': 'mapping', 'string': 'text'}.get(kind, str(kind))


class Generated(docutils.SphinxDirective):
    """Puts lines of reStructuredText where it stands."""

    lines: typing.ClassVar[typing.Callable[[], list[str]]]

    def run(self) -> list[nodes.Node]:
        source = statemachine.StringList(
            type(self).lines(), source=catalogue.__file__
        )
        node = nodes.section(document=self.state.document)
        sphinx_nodes.nested_parse_with_titles(self.state, source, node)
        for path in catalogue.SCHEMA.parent.iterdir():
            self.env.note_dependency(str(path))
        return node.children


def _directive(lines: typing.Callable[[], list[str]]) -> type[Generated]:
    return type('Generated', (Generated,), {'lines': staticmethod(lines)})


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive('profiles', _directive(catalogue_lines))
    app.add_directive('profile-papers', _directive(paper_lines))
    app.add_directive('profile-schema', _directive(schema_lines))
    return {'parallel_read_safe': True}
