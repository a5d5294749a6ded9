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

import testtools

from nova_diskplacer import nova_server

SPECS = {'diskplacer:vdisks': '2'}
FIELDS = {'id': 's', 'tenant_id': 'p', 'flavor': {'extra_specs': SPECS}}


class ParseTest(testtools.TestCase):
    def test_server(self):
        self.assertEqual(
            nova_server.Server('s', 'p', SPECS), nova_server.parse(FIELDS)
        )

    def test_what_an_account_may_not_see(self):
        for fields in ({**FIELDS, 'flavor': {'vcpus': 1}}, {'id': 's'}, None):
            error = self.assertRaises(
                nova_server.NovaError, self.parse_checked, fields
            )
            self.assertIn('account in [group] needs', str(error))

    def parse_checked(self, fields):
        with nova_server.checked('[group]'):
            return nova_server.parse(fields)
