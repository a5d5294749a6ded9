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


"""Text of the last result of ``tools/clients.sh``, as reStructuredText."""

import collections.abc
import re
import typing

_AS_EXPECTED = 'as expected'
# What was found may be long, as it has what a client printed.
_LENGTH = 300

Content = collections.abc.Mapping[str, typing.Any]


def check_rows(content: Content) -> list[list[str]]:
    """Return the checks as the rows of a table, with its head."""
    rows = [['Client', 'What it does', 'Expected', 'Outcome']]
    for check in content['checks']:
        outcome = check['outcome']
        if outcome != _AS_EXPECTED:
            outcome = f'**{outcome}**: {escaped(check["found"])}'
        name, expected = escaped(check['name']), escaped(check['expected'])
        rows.append([check['client'], name, expected, outcome])
    return rows


def versions_text(content: Content) -> str:
    """Return the programs with their versions as a sentence."""
    programs = [
        f'{name} {version}' for name, version in content['versions'].items()
    ]
    return f'Versions: {", ".join(programs)}.'


def escaped(text: str) -> str:
    """Return text in one line that means itself in reStructuredText."""
    line = ' '.join(text.split())
    if len(line) > _LENGTH:
        line = f'{line[:_LENGTH]}…'
    return re.sub(r'([\\*`_|])', r'\\\1', line)
