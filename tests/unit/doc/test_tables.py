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

"""The simple tables of the documentation."""

import pathlib
import re

import testtools

PAGES = pathlib.Path(__file__).parents[3] / 'doc' / 'source'

_BORDER = re.compile(r'( *=+ +)=+$')


def torn_rows(text):
    """Return the first cells of rows that have no second one.

    A text in the first column always begins a row, so a cell of two lines
    there becomes two rows. Only tables of two columns are looked at.
    """
    found = []
    border = ''
    for line in text.splitlines():
        match = _BORDER.match(line)
        if match and not border:
            border, width = line, len(match[1])
        elif not line.strip():
            border = ''
        elif border and line != border and not line[width:].strip():
            found.append(line.strip())
    return found


class TablesTest(testtools.TestCase):
    def test_pages(self):
        for page in PAGES.rglob('*.rst'):
            self.assertEqual([], torn_rows(page.read_text()), page.name)

    def test_torn(self):
        table = (
            '=====  =====\nfirst  cell\nline\n       more\n=====  =====\n'
            '\nA title\n=======\n'
        )
        self.assertEqual(['line'], torn_rows(table))
