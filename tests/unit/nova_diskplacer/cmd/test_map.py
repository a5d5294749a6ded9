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

import collections
import contextlib
import dataclasses
import datetime
import io
import json
import types
from unittest import mock

import fixtures
import requests_mock
from hypothesis import given
from hypothesis import strategies as st
from keystoneauth1 import adapter
from keystoneauth1 import session as ks_session
from keystoneauth1 import token_endpoint
from oslotest import base
from requests_mock.contrib import fixture as requests_mock_fixture

from nova_diskplacer import exception
from nova_diskplacer.client import facts
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import match_claims

HOSTS = {'a1': 'host-a', 'a2': 'host-a', 'b1': 'host-b'}


def report(host, **disks):
    """Return a host's report of {disk: [(volume, server, GiB)]}."""
    return {
        'version': 1,
        'host': host,
        'compute_node': f'{host}.example.org',
        'provider': f'root-{host}',
        'disks': [
            {
                'uuid': uuid,
                'health': 'ok',
                'vdisks': [
                    {'volume_id': volume, 'server_id': server, 'size_gb': gb}
                    for volume, server, gb in vdisks
                ],
            }
            for uuid, vdisks in disks.items()
        ],
    }


def assemble(claims, heard, hosts, only=None):
    disks = {uuid: facts.Disk(uuid, host) for uuid, host in hosts.items()}
    found = map_.with_reports(disks, claims, heard)
    entries = vdisk_map.entries(found)
    return map_.by_server(vdisk_map.select(entries, only))


def rows(servers):
    return {
        (server['host'], server['server_id']): [
            (row.volume_id, row.claimed_disk, row.actual_disk, row.status)
            for row in server['vdisks']
        ]
        for server in servers
    }


class SnapshotTest(base.BaseTestCase):
    def test_a_snapshot_is_no_volume(self):
        heard = report('host-a', a1=[('v1', 's1', 10), ('v2', None, 5)])
        heard['disks'][0]['vdisks'][1]['is_snapshot'] = True
        servers = assemble({'a1': {'s1': 10}}, {'host-a': heard}, HOSTS)
        self.assertEqual(
            [
                match_claims.Row('v1', 'a1', 'a1', 10, 'ok'),
                match_claims.Row(None, None, 'a1', 5, 'unclaimed', 'v2'),
            ],
            [row for server in servers for row in server['vdisks']],
        )


class AssembleTest(base.BaseTestCase):
    claims = {'a1': {'s1': 10}, 'a2': {'s1': 10, 's2': 10}, 'b1': {'s3': 10}}
    heard = {
        'root-host-a': report(
            'host-a',
            a1=[('v1', 's1', 10), ('v9', None, 5)],
            a2=[('v2', 's1', 10), ('v3', 's2', 10)],
        ),
        'root-host-b': report('host-b', b1=[]),
    }

    def test_servers_host_by_host(self):
        self.assertEqual(
            {
                ('host-a', None): [('v9', None, 'a1', 'unclaimed')],
                ('host-a', 's1'): [
                    ('v1', 'a1', 'a1', 'ok'),
                    ('v2', 'a2', 'a2', 'ok'),
                ],
                ('host-a', 's2'): [('v3', 'a2', 'a2', 'ok')],
                ('host-b', 's3'): [(None, 'b1', None, 'pending')],
            },
            rows(assemble(self.claims, self.heard, HOSTS)),
        )

    def test_one_server(self):
        servers = assemble({'a2': {'s2': 10}}, self.heard, HOSTS, only='s2')
        self.assertEqual(
            {('host-a', 's2'): [('v3', 'a2', 'a2', 'ok')]}, rows(servers)
        )

    def test_a_host_that_did_not_answer(self):
        servers = assemble(
            self.claims, {'root-host-b': self.heard['root-host-b']}, HOSTS
        )
        self.assertEqual(
            [('host-a', 's1'), ('host-a', 's2'), ('host-b', 's3')],
            list(rows(servers)),
        )

    @given(
        st.dictionaries(
            st.sampled_from(sorted(HOSTS)),
            st.dictionaries(st.sampled_from(['s1', 's2']), st.integers(1, 30)),
        ),
        st.lists(
            st.tuples(
                st.sampled_from(sorted(HOSTS)),
                st.sampled_from(['s1', 's2', None]),
                st.integers(1, 15),
            ),
            max_size=8,
        ),
    )
    def test_nothing_is_lost_or_made_up(self, claims, places):
        vdisks = collections.defaultdict(list)
        for number, (disk, server, gb) in enumerate(places):
            vdisks[disk].append((f'v{number}', server, gb))
        heard = {
            host: report(
                host,
                **{d: vdisks[d] for d, its in HOSTS.items() if its == host},
            )
            for host in set(HOSTS.values())
        }
        shown = sorted(
            (row.volume_id, row.actual_disk, server['server_id'], row.size_gb)
            for server in assemble(claims, heard, HOSTS)
            for row in server['vdisks']
            if row.volume_id
        )
        self.assertEqual(
            sorted(
                (volume, disk, server, gb)
                for disk, its in vdisks.items()
                for volume, server, gb in its
            ),
            shown,
        )


class ShowTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        heard = report(
            'host-a',
            a1=[('v2', None, 5), ('v3', None, 5)],
            a2=[('v1', 's1', 10)],
        )
        heard['disks'][0]['vdisks'][1]['is_snapshot'] = True
        heard['disks'][1]['health'] = 'read-only'
        self.facts = map_.with_reports(
            {},
            {'a1': {'s1': 10}, 'b1': {'s2': 5}},
            {'root-host-a': heard},
            {'s1': facts.Server('s1', 'web')},
            {'v1': 'vdb'},
            ('host-b',),
        )
        self.rows = vdisk_map.entries(self.facts)

    def table(self, **fields):
        findings = vdisk_map.findings(
            self.facts, self.rows, datetime.datetime.now(datetime.UTC)
        )
        return map_._table(self.facts, self.rows, findings, **fields)

    def test_findings(self):
        text = self.table()
        self.assertRegex(text, r'\| host-a +\| web +\| vdb→a2 claim→a1 +\|')
        self.assertIn('host-a: a2: the disk is read-only', text)
        self.assertIn('No report from the agents of: host-b', text)
        self.assertIn('| snapshot v3 ', self.table(long=True))

    def test_idle_disks(self):
        self.assertNotIn('Idle', self.table())
        self.facts.disks['a1'] = dataclasses.replace(
            self.facts.disks['a1'], idle=True
        )
        self.assertIn('Idle disks: host-a a1.', self.table())

    def test_move(self):
        """The move of a striped vdisk is told once."""
        heard = report('host-a', a1=[('v1', 's1', 5)], a2=[('v1', 's1', 5)])
        for disk in heard['disks']:
            disk['vdisks'][0]['move'] = 'to 4 disks: pressure of 99%'
        disks = {uuid: facts.Disk(uuid, host) for uuid, host in HOSTS.items()}
        claims = {'a1': {'s1': 5}, 'a2': {'s1': 5}}
        self.facts = map_.with_reports(disks, claims, {'root-host-a': heard})
        self.rows = vdisk_map.entries(self.facts)
        move = 'Volume v1 is being moved to 4 disks: pressure of 99%.'
        self.assertEqual(1, self.table().count(move))


class UnseenTest(base.BaseTestCase):
    def test_vdisks_of_a_disk_that_is_away_are_not_known(self):
        heard = report('host-a', a1=[], a2=[])
        heard['disks'][0]['health'] = 'missing'
        heard['disks'][1]['health'] = 'read-only'
        found = map_.with_reports({}, {}, {'root-host-a': heard})
        self.assertEqual({'a1'}, found.unseen)


class PressureTest(base.BaseTestCase):
    def test_disks_of_reports(self):
        new, old = report('host-b', b1=[]), report('host-a', a1=[])
        new['disks'][0] |= {'pressure': 0, 'idle': True}
        old['disks'][0]['health'] = 'missing'
        self.assertEqual(
            {
                'unhealthy_disks': [
                    {'disk': 'a1', 'host': 'host-a', 'health': 'missing'}
                ],
                'disks': [
                    {
                        'disk': 'a1',
                        'host': 'host-a',
                        'pressure': None,
                        'idle': None,
                    },
                    {
                        'disk': 'b1',
                        'host': 'host-b',
                        'pressure': 0,
                        'idle': True,
                    },
                ],
            },
            map_.list_disks([new, old]),
        )


class CommandTest(base.BaseTestCase):
    """The command, with Placement and an agent replaced."""

    def run_map(self, *arguments, actual='a1'):
        client = mock.create_autospec(placement_client.PlacementClient)
        client.disks.return_value = [
            types.SimpleNamespace(uuid=uuid, root=f'root-{host}')
            for uuid, host in HOSTS.items()
        ]
        client.provider_by_name.return_value = None
        client.inventories.return_value = 1, {}
        client.disks_with_traits.return_value = {}
        client.provider_names.return_value = {'root-host-b': 'node-b'}
        client.provider_allocations.side_effect = {
            'a1': {'s1': {placement_client.GB: 10}}, 'a2': {}, 'b1': {},
        }.get  # fmt: skip
        heard = {
            'root-host-a': report('host-a', **{actual: [('v1', 's1', 10)]})
        }
        for target, name, value in (
            (placement_client.PlacementClient, 'from_conf', client),
            (map_, 'collect_reports', heard),
            (common, 'transport', None),
            (map_, '_read_names', ({}, {})),
        ):
            self.useFixture(
                fixtures.MockPatchObject(target, name, return_value=value)
            )
        args = manage.make_parser().parse_args(['map', *arguments])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = args.handler(None, args)
        return status, out.getvalue()

    def test_json(self):
        status, text = self.run_map('--format', 'json')
        self.assertEqual(0, status)
        self.assertEqual(
            {
                'servers': [
                    {
                        'server_id': 's1',
                        'name': '',
                        'host': 'host-a',
                        'vdisks': [
                            {
                                'volume_id': 'v1',
                                'claimed_disk': 'a1',
                                'actual_disk': 'a1',
                                'size_gb': 10,
                                'status': 'ok',
                                'snapshot_id': None,
                            }
                        ],
                    }
                ],
                'unhealthy_disks': [],
                'missing_hosts': ['node-b'],
                'moves': {},
                'disks': [
                    {
                        'disk': 'a1',
                        'host': 'host-a',
                        'pressure': None,
                        'idle': None,
                    }
                ],
                'findings': [
                    {
                        'kind': 'silent',
                        'host': 'node-b',
                        'subject': 'node-b',
                        'text': 'the agent of the host did not report',
                    }
                ],
            },
            json.loads(text),
        )

    def test_disagreement(self):
        status, text = self.run_map(actual='a2')
        self.assertEqual(0, status)
        self.assertIn('unclaimed', text)
        self.assertIn('pending', text)

    def test_host(self):
        status, text = self.run_map('--host', 'host-a')
        self.assertEqual(0, status)
        self.assertNotIn('node-b', text)
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_map, '--host', 'host-c'
        )
        self.assertIn('no compute node of that name', str(error))


class NamesTest(base.BaseTestCase):
    def test_without_nova(self):
        session = ks_session.Session(auth=token_endpoint.Token('http://p', ''))
        requests = self.useFixture(requests_mock_fixture.Fixture())
        requests.get(requests_mock.ANY, status_code=403)
        client = placement_client.PlacementClient(
            adapter.Adapter(session, service_type='placement')
        )
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(({}, {}), map_._read_names(client))
        self.assertIn('IDs instead of names', errors.getvalue())


class ParserTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.errors = self.useFixture(fixtures.StringStream('stderr')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', self.errors))

    def refused(self, *arguments):
        error = self.assertRaises(
            SystemExit, manage.make_parser().parse_args, ['map', *arguments]
        )
        self.assertEqual(2, error.code)

    def test_defaults(self):
        args = manage.make_parser().parse_args(['map'])
        self.assertIsNone(args.server)
        self.assertIsNone(args.host)
        self.assertEqual('table', args.format)

    def test_a_server_or_a_host(self):
        self.refused('--server', '1', '--host', 'a')

    def test_an_unknown_format(self):
        self.refused('--format', 'yaml')

    def test_a_bad_timeout(self):
        for timeout in ('soon', '-1', '0', 'nan', 'inf'):
            self.refused('--timeout', timeout)
