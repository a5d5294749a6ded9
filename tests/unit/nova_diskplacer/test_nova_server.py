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

import datetime

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


class WhyNotLostTest(testtools.TestCase):
    def why(self, seconds, is_forced_down=True):
        """Nova's clock is years from the one here."""
        now = datetime.datetime(2031, 1, 1)
        updates = [
            (now - datetime.timedelta(seconds=age)).strftime(
                '%Y-%m-%dT%H:%M:%S.000000'
            )
            for age in (seconds, 0, 7)
        ]
        return nova_server.why_not_lost(
            'host1', is_forced_down, updates[0], [*updates, None]
        )

    def test_a_host_is_lost_if_somebody_says_so_and_it_is_silent(self):
        self.assertEqual('', self.why(3600))
        # nova-compute was never heard of
        self.assertEqual(
            '', nova_server.why_not_lost('host1', True, None, [None])
        )
        self.assertIn('heard of, or forced down, 30 s ago', self.why(30))
        self.assertIn('was heard of', self.why(0))
        for said in (False, None):
            self.assertIn('is not forced down', self.why(3600, said))
