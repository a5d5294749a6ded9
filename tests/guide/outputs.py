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

"""Whether a command prints what a page says that it prints."""

import re

#: stands for anything in a line of a page; alone, for any lines
ANYTHING = '…'

# An ID or its start: hexadecimal digits, of which some are letters.
_ID = re.compile(
    r'\b(?=[a-f-]*\d)(?=[\d-]*[a-f])[0-9a-f]{4,12}(?:-[0-9a-f]{4,12})*\b'
)
_BORDER = re.compile(r'[+-]{3,}')


def differs(expected: str, printed: str) -> str:
    """Return where a command prints something else, '' if nowhere.

    Widths of columns are of the machine at hand, and so are IDs: those of a
    line are distinct where they are on the page.
    """
    wanted = [_plain(line) for line in expected.splitlines()]
    lines = [_plain(line) for line in printed.splitlines()]
    if _match(wanted, lines):
        return ''
    for number, line in enumerate(wanted):
        found = lines[number] if number < len(lines) else ''
        if line == ANYTHING or not _is_like(line, found):
            return f'{found!r} is not like {line!r}, in:\n{printed}'
    return f'more than is expected, in:\n{printed}'


def _match(wanted: list[str], lines: list[str]) -> bool:
    if not wanted:
        return not lines
    first, *rest = wanted
    if first == ANYTHING:
        return any(
            _match(rest, lines[skipped:]) for skipped in range(len(lines) + 1)
        )
    return (
        bool(lines) and _is_like(first, lines[0]) and _match(rest, lines[1:])
    )


def _is_like(wanted: str, line: str) -> bool:
    """Return whether a line is one of the page, with other IDs."""
    pattern = '.*'.join(
        '([0-9a-f-]+)'.join(map(re.escape, _ID.split(part)))
        for part in wanted.split(ANYTHING)
    )
    match = re.fullmatch(pattern, line)
    if not match:
        return False
    pairs = set(zip(_ID.findall(wanted), match.groups(), strict=True))
    return all(
        len(pairs) == len({pair[side] for pair in pairs}) for side in (0, 1)
    )


def _plain(line: str) -> str:
    """Return a line without the widths of its columns."""
    if line.startswith('+') and _BORDER.search(line):
        return '+-+'
    return ' '.join(line.split())
