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

"""Sets properties in frameworks' configuration files and keeps the rest.

Runs in the guest as a part of ``script``. Files are read and written as
Latin-1, so that bytes in any encoding stay unchanged.
"""

import re
import typing
import xml.dom.minidom

# A comment, or a line with those that continue it after a backslash.
PROPERTY = re.compile(r'[ \t\f]*[#!][^\n]*\n?|(?:\\\r?\n|\\.|[^\n])+\n?|\n')
# A key at the top level with its value, which may contain comments and empty
# lines, but does not end with them; or any other line.
ENTRY = re.compile(
    r"""
    [^\s#][^\n]*\n?
    (?:
        (?:[^\S\n]*(?:\#[^\n]*)?\n)*
        (?=[ \t]+[^\s#]|-\s|\])[^\n]+\n?
    )*
    |[^\n]*\n|[^\n]+
    """,
    re.VERBOSE,
)


def set_xml(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a property of a Hadoop configuration file."""
    value = ','.join(values)
    document = xml.dom.minidom.parseString(  # noqa: S318 root's own file
        (text.strip() or '<configuration/>').encode('latin-1')
    )
    root = document.documentElement  # type: typing.Any
    found = False
    for one in root.getElementsByTagName('property'):
        names = one.getElementsByTagName('name')
        if not names or _content(names[0]).strip() != name:
            continue
        found = True
        old = one.getElementsByTagName('value')
        if old:
            while old[0].firstChild:
                old[0].removeChild(old[0].firstChild)
            old[0].appendChild(document.createTextNode(value))
        else:
            _append(document, one, 'value', value)
    if not found:
        one = document.createElement('property')
        _append(document, one, 'name', name)
        _append(document, one, 'value', value)
        for node in (document.createTextNode('  '), one):
            root.appendChild(node)
        root.appendChild(document.createTextNode('\n'))
    parts = ['<?xml version="1.0" encoding="UTF-8"?>']
    parts += [node.toxml() for node in document.childNodes]
    return '\n'.join(parts).encode().decode('latin-1') + '\n'


def _content(element: typing.Any) -> str:
    return ''.join(node.data for node in element.childNodes)


def _append(
    document: typing.Any, parent: typing.Any, tag: str, content: str
) -> None:
    element = document.createElement(tag)
    element.appendChild(document.createTextNode(content))
    parent.appendChild(element)


def set_properties(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a property of a Java properties file."""
    setting = '%s=%s\n' % (name, ','.join(values))
    key = r'[ \t\f]*%s[ \t\f]*([=:\s]|$)' % re.escape(name)
    return _replace(PROPERTY.findall(text), key, setting)


def set_yaml(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a list at the top level of a YAML file."""
    setting = '%s:\n%s' % (name, ''.join('    - %s\n' % one for one in values))
    key = '([\'"]?)%s\\1[ \t]*:(\\s|$)' % re.escape(name)
    return _replace(ENTRY.findall(text), key, setting)


def _replace(parts: typing.List[str], key: str, setting: str) -> str:
    """Put a setting in the place of the first part with its key, or last."""
    kept = [part for part in parts if not re.match(key, part)]
    place = 0
    while place < len(kept) and parts[place] == kept[place]:
        place += 1
    if len(kept) == len(parts) and kept and not kept[-1].endswith('\n'):
        setting = '\n' + setting
    return ''.join(kept[:place] + [setting] + kept[place:])


EDITORS = {'xml': set_xml, 'properties': set_properties, 'yaml': set_yaml}
