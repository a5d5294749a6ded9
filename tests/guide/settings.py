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

"""Configuration files, changed as an operator who edits them does."""

import re

_SECTION = re.compile(r'\[(.+)\]\s*$')
_OPTION = re.compile(r'([\w.-]+)\s*=')


def merge(text: str, change: str) -> str:
    """Return a file's text with the options of a page.

    An option of the page replaces the one that the file has in the section,
    with all its lines; what the file has besides stays.
    """
    lines = text.splitlines()
    for name, options in sections(change):
        start, end = _find(lines, name)
        keys = {_key(line) for line in options} - {''}
        kept = [one for one in lines[start:end] if _key(one) not in keys]
        lines[start:end] = kept + options
    return ''.join(f'{line}\n' for line in lines)


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the names of sections and their lines, but empty ones.

    What comes before the first section is left out.
    """
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _SECTION.match(line)
        if match:
            found.append((match[1], []))
        elif line.strip() and found:
            found[-1][1].append(line)
    return found


def _find(lines: list[str], name: str) -> tuple[int, int]:
    """Return where the lines of a section are; appends one that is not."""
    heads = [
        number for number, line in enumerate(lines) if _SECTION.match(line)
    ]
    for number in heads:
        if _SECTION.match(lines[number])[1] == name:
            later = [other for other in heads if other > number]
            return number + 1, later[0] if later else len(lines)
    lines.append(f'[{name}]')
    return len(lines), len(lines)


def _key(line: str) -> str:
    match = _OPTION.match(line)
    return match[1] if match else ''
