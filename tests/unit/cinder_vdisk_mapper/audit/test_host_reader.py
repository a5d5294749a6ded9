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

"""The servers in Nova that an audit compares."""

from unittest import mock

import testtools

from cinder_vdisk_mapper.audit import host_reader
from cinder_vdisk_mapper.audit import state
from nova_diskplacer import flavor
from nova_diskplacer import nova_server

MIGRATION = state.Migration('s1', 'error', True)


class NovaTestCase(testtools.TestCase):
    def ask(self, of_hosts, living=None, is_known=True):
        has_compute = mock.Mock(return_value=is_known)
        with (
            mock.patch.object(
                host_reader.nova_api, 'has_compute', has_compute
            ),
            mock.patch.object(host_reader.nova_api, 'of_hosts', of_hosts),
            mock.patch.object(host_reader.nova_api, 'consumers', living),
        ):
            return host_reader.ask_nova(
                None, ['host'], ['s1', 's2', 's3', 'gone', 'away']
            )

    def test_servers_and_gone(self):
        request = flavor.VDiskRequest(vdisks=1, vdisk_gb=2)
        server = host_reader.nova_api.Server('s1', 'p', 'host', request)
        plain = host_reader.nova_api.Server('s2', 'p', 'host', None)
        said = self.ask(
            mock.Mock(return_value={'s1': server, 's2': plain, 's4': None}),
            mock.Mock(
                return_value=(
                    {
                        'else': ('ACTIVE', None),
                        's1': ('ACTIVE', None),
                        's2': ('ACTIVE', None),
                        'away': ('ACTIVE', None),
                    },
                    {'s3': ('s1', 'error')},
                    {
                        'else': 'other',
                        's1': 'host',
                        's2': 'host',
                        'away': 'other',
                    },
                )
            ),
        )
        self.assertEqual(
            state.Nova(
                (('s1', request),),
                frozenset(['gone']),
                {'s3': MIGRATION},
                # what claims nothing here does not matter
                {'away': 'other'},
            ),
            said,
        )

    def test_nova_has_another_name_for_the_host(self):
        """All servers seem to be elsewhere."""
        said = self.ask(
            mock.Mock(return_value={}),
            mock.Mock(
                return_value=(
                    {'s1': ('ACTIVE', None)},
                    {},
                    {'s1': 'host.example.org'},
                )
            ),
            is_known=False,
        )
        self.assertEqual({}, said.elsewhere)

    def test_all_are_here(self):
        known = dict.fromkeys(['s1', 's2', 's3', 'gone', 'away'])
        self.assertEqual(state.Nova(), self.ask(mock.Mock(return_value=known)))

    def test_nova_is_away(self):
        away = mock.Mock(side_effect=nova_server.NovaError('away'))
        self.assertEqual(state.Nova(), self.ask(away))
