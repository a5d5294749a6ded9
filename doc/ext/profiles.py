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


"""Directives of the reference of profiles: ``profiles`` and ``profile…``.

It is made from the files and the schema that the services themselves read.
``.. profile:: NAME`` is the content of a page; ``.. profiles::`` links the
pages ``profiles/NAME`` of all profiles, and Sphinx warns of a missing one.
"""

import typing

import yaml
from docutils import nodes
from docutils import statemachine
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

from nova_diskplacer.client import flavors as command
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import profile_files

# The tables of a profile's page, by the beginnings of their settings' paths.
_TABLES = {
    'Extra specs of the flavor': ('specs.', 'hw.'),
    'Shape of the flavor': ('shape.',),
    'Disks of the host': ('queue.', 'cache_mode', 'priority', 'weight'),
    'Inside the server': ('guest.',),
}


def list_lines() -> list[str]:
    """Return the shipped profiles as a table."""
    text = [
        '.. list-table::',
        '   :header-rows: 1',
        '   :widths: 24 18 26 32',
        '',
        '   * - Profile',
        '     - Aliases',
        '     - Vdisks by default',
        '     - Workload',
    ]
    for profile in catalogue.load().values():
        text += [
            f'   * - :doc:`profiles/{profile.name}`',
            f'     - {", ".join(profile.aliases) or "none"}',
            f'     - {_vdisks(profile.specs)}',
            f'     - {profile.title}',
        ]
    names = [f'   profiles/{name}' for name in catalogue.load()]
    return [*text, '', '.. toctree::', '   :hidden:', '', *names, '']


def _vdisks(specs: definitions.Specs) -> str:
    keys = ('vdisks', 'vdisk_gb', 'mapping')
    number, size, mapping = (specs.get(f'diskplacer:{key}') for key in keys)
    if number is None:
        return 'as the flavor says'
    return f'{number} × {size} GiB, ``{mapping}``'


def profile_lines(name: str) -> list[str]:
    """Return a shipped profile as reStructuredText."""
    profile = catalogue.load()[name]
    aliases = ', '.join(f'``{alias}``' for alias in profile.aliases)
    text = [
        f'{profile.title}. {profile.description}',
        '',
        f'Aliases: {aliases or "none"}',
        '',
        '.. code-block:: console',
        '',
        f'   $ diskplacer-manage profile apply {name} FLAVOR',
        '',
    ]
    settings = definitions.settings(profile)
    for title, prefixes in _TABLES.items():
        of_table = {
            path: value
            for path, value in settings.items()
            if path.startswith(prefixes)
        }
        if of_table:
            text += [title, '=' * len(title), '']
            text += _table(of_table, profile.sources)
    return text


def _table(
    settings: dict[str, typing.Any], sources: definitions.Specs
) -> list[str]:
    text = [
        '.. list-table::',
        '   :header-rows: 1',
        '   :widths: 32 28 40',
        '',
        '   * - Setting',
        '     - Value',
        '     - Rests on',
    ]
    for path, value in settings.items():
        lines = command.text(path, value).splitlines()
        text += [f'   * - ``{path}``', f'     - {lines[0]}']
        for line in lines[1:]:
            text += ['', f'       {line}']
        text += [f'     - {sources[path]}']
    return [*text, '']


def paper_lines() -> list[str]:
    """Return the papers as reStructuredText."""
    text = []
    for paper, title in catalogue.PAPERS.items():
        text += [paper, f'    {title}', '']
    return text


def schema_lines() -> list[str]:
    """Return what a profile's file may hold, as reStructuredText."""
    schema = yaml.safe_load(profile_files.SCHEMA.read_text())
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

    lines: typing.ClassVar[typing.Callable[..., list[str]]]

    def run(self) -> list[nodes.Node]:
        source = statemachine.StringList(
            type(self).lines(*self.arguments), source=catalogue.__file__
        )
        node = nodes.section(document=self.state.document)
        sphinx_nodes.nested_parse_with_titles(self.state, source, node)
        for path in profile_files.SCHEMA.parent.iterdir():
            self.env.note_dependency(str(path))
        return node.children


def _directive(
    lines: typing.Callable[..., list[str]], arguments: int = 0
) -> type[Generated]:
    return type(
        'Generated',
        (Generated,),
        {'lines': staticmethod(lines), 'required_arguments': arguments},
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive('profiles', _directive(list_lines))
    app.add_directive('profile', _directive(profile_lines, 1))
    app.add_directive('profile-papers', _directive(paper_lines))
    app.add_directive('profile-schema', _directive(schema_lines))
    return {'parallel_read_safe': True}
