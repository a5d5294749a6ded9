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

"""Tables that commands print, and those of the documentation."""

import itertools
import pathlib
import re

_DOC = pathlib.Path(__file__).parents[2] / 'doc' / 'source'
# The start of an ID that a page shortens.
_ID = re.compile(r'\b[0-9a-f]{4}…')

Row = dict[str, str]


def tables(text: str) -> list[list[Row]]:
    """Return the rows of each table, {header: cell}.

    A line whose first cell is empty goes on with the row before it.
    """
    found = []
    lines = map(str.strip, text.splitlines())
    for is_table, part in itertools.groupby(
        lines, lambda line: line[:1] in ('|', '+') and line[-1] == line[0]
    ):
        rows: list[list[str]] = []
        for line in part if is_table else ():
            cells = [cell.strip() for cell in line[1:-1].split('|')]
            if line[0] == '|' and cells[0]:
                rows.append(cells)
            elif line[0] == '|':
                rows[-1] = [
                    f'{before} {cell}'.strip()
                    for before, cell in zip(rows[-1], cells, strict=True)
                ]
        if rows:
            header, *others = rows
            found.append(
                [dict(zip(header, row, strict=True)) for row in others]
            )
    return found


def tables_of_page(name: str, headers: list[str]) -> list[list[Row]]:
    """Return the tables of a page with these headers.

    :param name: of its file below doc/source.
    """
    found = tables((_DOC / name).read_text())
    return [rows for rows in found if rows and [*rows[0]] == headers]


def is_like(row: Row, documented: Row) -> bool:
    """Return whether a row is as a page has it.

    … stands for anything there.
    """
    return all(
        re.fullmatch(
            '.*'.join(map(re.escape, _ID.sub('…', text).split('…'))),
            row[header],
        )
        for header, text in documented.items()
    )
