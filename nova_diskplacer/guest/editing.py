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

# str.splitlines() would also split at other characters than a newline.
LINE = re.compile('[^\n]*\n|[^\n]+')
# A comment, or a line with those that continue it after a backslash.
PROPERTY = re.compile(r'[ \t\f]*[#!][^\n]*\n?|(?:\\\r?\n|\\.|[^\n])+\n?|\n')


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
    key = re.compile(r'[ \t\f]*%s[ \t\f]*([=:\s]|$)' % re.escape(name))
    kept = []  # type: typing.List[str]
    place = None
    for line in PROPERTY.findall(text):
        if not key.match(line):
            kept.append(line)
        elif place is None:
            place = len(kept)
    return _insert(kept, place, setting)


def set_yaml(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a list at the top level of a YAML file."""
    setting = '%s:\n%s' % (name, ''.join('    - %s\n' % one for one in values))
    key = re.compile('([\'"]?)%s\\1[ \t]*:(\\s|$)' % re.escape(name))
    kept = []  # type: typing.List[str]
    place = None
    lines = LINE.findall(text)
    while lines:
        line = lines.pop(0)
        if not key.match(line):
            kept.append(line)
            continue
        place = len(kept) if place is None else place
        # delete all up to the next key and the comments before it
        end = 0
        for index, after in enumerate(lines, 1):
            if re.match(r'[ \t]+[^\s#]|-\s|[\]]', after):
                end = index
            elif not re.match(r'\s*(#|$)', after):
                break
        del lines[:end]
    return _insert(kept, place, setting)


def _insert(
    lines: typing.List[str], place: typing.Optional[int], setting: str
) -> str:
    if place is None:
        place = len(lines)
        if lines and not lines[-1].endswith('\n'):
            lines.append('\n')
            place += 1
    return ''.join(lines[:place] + [setting] + lines[place:])


EDITORS = {'xml': set_xml, 'properties': set_properties, 'yaml': set_yaml}
