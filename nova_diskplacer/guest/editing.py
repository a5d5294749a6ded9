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
Latin-1, so that bytes in any encoding stay unchanged. A file of a form that is
not known to stay right raises an error, and so stays as it is.
"""

import re
import typing
import xml.dom.minidom

try:
    import yaml
except ImportError:
    # cloud-init needs it, but another python3 may come first
    yaml = None  # type: ignore[assignment]

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
# The end of a YAML document with what follows, lines that mean nothing there,
# and lines of a mapping at the top level.
END = re.compile(r'^\.\.\.\s*$.*', re.MULTILINE | re.DOTALL)
IGNORED = re.compile(r'\s*(#|$)|\.\.\.\s*$')
LINE = re.compile(r'\s|-\s|\]|([\'"]?)[\w.-]+\1[ \t]*:(\s|$)')


def set_xml(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a property of a Hadoop configuration file.

    :raises ValueError: it is another XML file.
    :raises ExpatError: it is none.
    """
    value = ','.join(values)
    document = xml.dom.minidom.parseString(  # noqa: S318 root's own file
        (text.strip() or '<configuration/>').encode('latin-1')
    )
    root = document.documentElement  # type: typing.Any
    if root.tagName != 'configuration':
        raise ValueError('<%s> instead of <configuration>' % root.tagName)
    is_set = False
    for element in root.getElementsByTagName('property'):
        names = element.getElementsByTagName('name')
        if not names or _content(names[0]).strip() != name:
            continue
        is_set = True
        old = element.getElementsByTagName('value')
        if old:
            while old[0].firstChild:
                old[0].removeChild(old[0].firstChild)
            old[0].appendChild(document.createTextNode(value))
        else:
            _append(document, element, 'value', value)
    if not is_set:
        element = document.createElement('property')
        _append(document, element, 'name', name)
        _append(document, element, 'value', value)
        for node in (document.createTextNode('  '), element):
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
    """Set a property of a Java properties file.

    :raises ValueError: its last line continues on the next one.
    """
    setting = '%s=%s\n' % (name, ','.join(values))
    key = r'[ \t\f]*%s[ \t\f]*([=:\s]|$)' % re.escape(name)
    new = _replace(PROPERTY.findall(text), key, setting)
    if setting not in PROPERTY.findall(new):
        raise ValueError('its last line ends with a backslash')
    return new


def set_yaml(text: str, name: str, values: typing.Sequence[str]) -> str:
    """Set a list at the top level of a YAML file.

    :raises ValueError: it is not one document with keys at the beginning of
        lines.
    """
    setting = '%s:\n%s' % (
        name,
        ''.join('    - %s\n' % item for item in values),
    )
    key = '([\'"]?)%s\\1[ \t]*:(\\s|$)' % re.escape(name)
    old = END.sub('', text)
    end = text[len(old) :]
    new = _replace(ENTRY.findall(old), key, setting)
    if not all(map(IGNORED.match, end.split('\n'))) or not _is_changed(
        old, new, name, list(values)
    ):
        raise ValueError(
            'it is not one YAML document with keys at the beginning of lines'
        )
    return new + end


def _is_changed(
    old: str, new: str, name: str, values: typing.List[str]
) -> bool:
    """Tell whether a YAML file has new values of a key, and nothing else."""
    if yaml is None:
        lines = [line for line in old.split('\n') if not IGNORED.match(line)]
        if lines and lines[0].rstrip() == '---':
            lines.pop(0)
        indented = bool(lines) and lines[0][0].isspace()
        return not indented and all(map(LINE.match, lines))
    # the text is Latin-1, which can have characters that YAML forbids
    old, new = (re.sub('[^\0-\x7f]', 'x', line) for line in (old, new))
    try:
        before, after = yaml.safe_load(old), yaml.safe_load(new)
    except yaml.YAMLError:
        return False
    before = {} if before is None else before
    return isinstance(before, dict) and after == dict(before, **{name: values})


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
