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

"""The last result of tools/clients.sh as a table."""

import testtools

import client_text

CONTENT = {
    'versions': {'one': '1.2', 'two': '3'},
    'checks': [
        {
            'client': 'One',
            'name': 'create, 2.1',
            'expected': 'ACTIVE',
            'outcome': 'as expected',
            'found': 'ACTIVE',
        },
        {
            'client': 'Two',
            'name': 'create',
            'expected': 'ACTIVE',
            'outcome': 'not run',
            'found': 'no `go`\nin *PATH*',
        },
    ],
}


class ClientTextTest(testtools.TestCase):
    def test_rows(self):
        head, first, second = client_text.check_rows(CONTENT)
        self.assertEqual(4, len(head))
        self.assertEqual(
            ['One', 'create, 2.1', 'ACTIVE', 'as expected'], first
        )
        self.assertEqual(r'**not run**: no \`go\` in \*PATH\*', second[3])

    def test_long_text_is_cut(self):
        text = client_text.escaped('x' * 1000)
        self.assertEqual('x' * 300 + '…', text)

    def test_versions(self):
        self.assertEqual(
            'Versions: one 1.2, two 3.', client_text.versions_text(CONTENT)
        )
