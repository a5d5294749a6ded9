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

"""What is made of Nova's answers."""

from unittest import mock

import testtools
from keystoneauth1 import exceptions as ks_exc
from novaclient import exceptions as nova_exc
from requests import exceptions as requests_exc

from cinder_vdisk_mapper import nova_api
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import nova_server
from nova_diskplacer.profiles import catalogue
from tests import profile_cache

ANSWER = {
    'id': 'server',
    'tenant_id': 'project',
    'OS-EXT-SRV-ATTR:host': 'host',
    'OS-SRV-USG:launched_at': '2026-11-22T11:00:00',
    'flavor': {
        'extra_specs': {'diskplacer:vdisks': '2', 'diskplacer:vdisk_gb': '10'}
    },
}

SERVER = '6a0c5b1e-9d3f-4c27-8b14-2f7e90c3d5a8'


def migration(uuid, status, server='server'):
    return mock.Mock(uuid=uuid, status=status, instance_uuid=server)


def server_of(uuid, status, task):
    fields = {
        'status': status,
        'OS-EXT-STS:task_state': task,
        'OS-EXT-SRV-ATTR:host': 'there',
    }
    return mock.Mock(id=uuid, to_dict=lambda: fields)


def building(uuid, host, reservation, project='project'):
    fields = {
        'id': uuid,
        'tenant_id': project,
        'OS-EXT-SRV-ATTR:host': host,
        'OS-EXT-SRV-ATTR:reservation_id': reservation,
    }
    return mock.Mock(id=uuid, to_dict=lambda: fields)


class ServersTestCase(testtools.TestCase):
    def test_parse(self):
        request = flavor.VDiskRequest(vdisks=2, vdisk_gb=10)
        self.assertEqual(
            nova_api.Server('server', 'project', 'host', request),
            nova_api.parse(ANSWER),
        )
        self.assertEqual(
            nova_api.Server('server', 'project', None, None),
            nova_api.parse(
                {
                    **ANSWER,
                    'OS-EXT-SRV-ATTR:host': None,
                    'flavor': {'extra_specs': {'hw:mem_page_size': 'any'}},
                }
            ),
        )

    def test_launched(self):
        for when, launched in ((None, False), ('2026-11-22', True)):
            found = nova_api.parse({**ANSWER, 'OS-SRV-USG:launched_at': when})
            self.assertEqual(launched, found.launched)

    def test_profile(self):
        found = nova_api.parse(
            {
                **ANSWER,
                'flavor': {'extra_specs': {'diskplacer:profile': 'batch'}},
            }
        )
        self.assertEqual(
            ('batch', 'consolidated', 1),
            (
                found.request.profile,
                found.request.mapping,
                found.request.vdisks,
            ),
        )

    def test_profiles_that_cannot_be_read(self):
        profile_cache.clear()
        self.addCleanup(profile_cache.clear)
        load = mock.patch.object(
            catalogue,
            'load',
            side_effect=exception.ProfileError('own.yaml: bad'),
        )
        tagged = {'extra_specs': {'diskplacer:profile': 'batch'}}
        with load:
            error = self.assertRaises(
                nova_server.NovaError,
                nova_api.parse,
                {**ANSWER, 'flavor': tagged},
            )
        self.assertIn('own.yaml: bad', str(error))

    def test_answers_that_lack_something(self):
        hidden = {**ANSWER, 'flavor': {'original_name': 'm1'}}
        for answer, what in (
            (hidden, "'extra_specs'"),
            (
                {
                    key: value
                    for key, value in ANSWER.items()
                    if not key.startswith('OS-')
                },
                "'OS-EXT-SRV-ATTR:host'",
            ),
        ):
            error = self.assertRaises(
                nova_server.NovaError, nova_api.parse, answer
            )
            self.assertIn(f'does not show {what}', str(error))

    def test_flavor_that_cannot_be_understood(self):
        bad = {'extra_specs': {'diskplacer:vdisks': 'many'}}
        error = self.assertRaises(
            nova_server.NovaError, nova_api.parse, {**ANSWER, 'flavor': bad}
        )
        self.assertIn('the flavor of server server', str(error))

    @mock.patch('cinder.compute.nova.novaclient')
    def test_get(self, client):
        get = client.return_value.servers.get
        get.return_value.to_dict.return_value = ANSWER
        self.assertEqual('project', nova_api.get(None, SERVER).project_id)
        get.assert_called_once_with(SERVER)
        self.assertEqual('2.47', client.call_args.kwargs['api_version'])
        self.assertIs(True, client.call_args.kwargs['privileged_user'])
        get.side_effect = nova_exc.NotFound(404)
        self.assertIsNone(nova_api.get(None, SERVER))
        for error in (
            nova_exc.Unauthorized(401),
            nova_exc.ClientException(503),
            ks_exc.ConnectFailure(),
            ks_exc.EndpointNotFound(),
            requests_exc.Timeout(),
        ):
            get.side_effect = error
            self.assertRaises(
                nova_server.NovaError, nova_api.get, None, SERVER
            )

    @mock.patch('cinder.compute.nova.novaclient')
    def test_what_is_no_uuid_is_no_server(self, client):
        for name in (
            '',
            '..',
            'detail',
            f'../flavors/{SERVER}',
            f'{SERVER}/action',
            f'{SERVER}?all_tenants=1',
            f'{SERVER}\n',
            None,
            {'id': SERVER},
        ):
            self.assertIsNone(nova_api.get(None, name), name)
        client.assert_not_called()

    def test_servers_at_rest(self):
        for status, task, at_rest in (
            ('ACTIVE', None, True),
            ('SHUTOFF', None, True),
            ('ERROR', None, True),
            ('ACTIVE', 'migrating', False),
            ('VERIFY_RESIZE', None, False),
            ('SHELVED_OFFLOADED', None, False),
            ('', None, False),
        ):
            server = nova_api.parse(
                {**ANSWER, 'status': status, 'OS-EXT-STS:task_state': task}
            )
            self.assertEqual(at_rest, server.is_at_rest, (status, task))

    @mock.patch('cinder.compute.nova.novaclient')
    def test_of_hosts(self, client):
        settled = {**ANSWER, 'status': 'ACTIVE'}
        bad = {'extra_specs': {'diskplacer:vdisks': 'many'}}
        rows = [
            settled,
            {**settled, 'id': 'moving', 'OS-EXT-STS:task_state': 'migrating'},
            {**settled, 'id': 'resized', 'status': 'VERIFY_RESIZE'},
            {**settled, 'id': 'odd', 'flavor': bad},
        ]
        client.return_value.servers.list.return_value = [
            mock.Mock(**{'to_dict.return_value': row}) for row in rows
        ]
        found = nova_api.of_hosts(None, ['host'])
        self.assertEqual(
            {
                'server': nova_api.parse(settled),
                'moving': None,
                'resized': None,
                'odd': None,
            },
            found,
        )
        client.return_value.servers.list.assert_called_once_with(
            search_opts={'all_tenants': 1, 'host': 'host'}, limit=-1
        )
        client.return_value.servers.list.side_effect = nova_exc.NotFound(404)
        self.assertRaises(
            nova_server.NovaError, nova_api.of_hosts, None, ['host']
        )

    @mock.patch('cinder.compute.nova.novaclient')
    def test_consumers(self, client):
        listed = client.return_value.servers.list
        listed.return_value = [server_of('server', 'ACTIVE', 'spawning')]
        migrations = client.return_value.migrations.list
        pages = {
            None: [migration('m1', 'error'), migration('m2', 'error', 'gone')],
            'm2': [migration('m3', 'migrating', 'other')],
        }
        migrations.side_effect = lambda host, marker: pages.get(marker, [])
        servers, found, places = nova_api.consumers(None, ['host'])
        self.assertEqual({'server': ('ACTIVE', 'spawning')}, servers)
        self.assertEqual({'server': 'there'}, places)
        self.assertEqual(
            {
                'm1': ('server', 'error'),
                'm2': ('gone', 'error'),
                'm3': ('other', 'migrating'),
            },
            found,
        )
        # its own UUID is shown by later microversions only
        self.assertEqual('2.59', client.call_args.kwargs['api_version'])
        # one request each, however many servers there are
        self.assertEqual(1, listed.call_count)
        migrations.side_effect = ks_exc.ConnectFailure()
        self.assertRaises(
            nova_server.NovaError, nova_api.consumers, None, ['host']
        )
        client.side_effect = ks_exc.EndpointNotFound()
        self.assertRaises(nova_server.NovaError, nova_api.consumers, None, [])

    @mock.patch('cinder.compute.nova.novaclient')
    def test_evacuated_to(self, client):
        listed = client.return_value.migrations.list
        listed.return_value = []
        self.assertIsNone(nova_api.evacuated_to(None, 'server'))
        listed.return_value = [
            mock.Mock(id=number, dest_compute=f'host{number}')
            for number in (1, 10, 9)
        ]
        self.assertEqual('host10', nova_api.evacuated_to(None, 'server'))
        listed.assert_called_with(
            instance_uuid='server',
            migration_type='evacuation',
            status='pre-migrating',
        )
        listed.side_effect = ks_exc.ConnectFailure()
        self.assertRaises(
            nova_server.NovaError, nova_api.evacuated_to, None, 'server'
        )

    @mock.patch('cinder.compute.nova.novaclient')
    def test_why_not_lost(self, client):
        listed = client.return_value.services.list
        service = mock.Mock(
            host='host',
            binary='nova-compute',
            forced_down=True,
            updated_at='2026-01-01T00:00:00.0',
        )
        conductor = mock.Mock(
            host='other',
            binary='nova-conductor',
            updated_at='2026-01-01T00:01:00.0',
        )
        listed.return_value = [conductor, service]
        self.assertEqual('', nova_api.why_not_lost(None, 'host'))
        conductor.updated_at = '2026-01-01T00:00:59.0'
        self.assertIn('59 s ago', nova_api.why_not_lost(None, 'host'))
        for host in ('hos', 'other'):
            self.assertIn('no nova-compute', nova_api.why_not_lost(None, host))
        service.forced_down = False
        self.assertIn('forced down', nova_api.why_not_lost(None, 'host'))
        self.assertTrue(nova_api.has_compute(None, ['host', 'other']))
        self.assertFalse(nova_api.has_compute(None, ['hos', 'other']))

    @mock.patch('cinder.compute.nova.novaclient')
    def test_hosts_of_request(self, client):
        """The server that was last to begin is asked first, and no other."""
        rows = [
            building('s1', 'host1', 'r1'),
            building('s2', 'host2', 'r2'),
            building('s3', 'host3', 'r2'),
            building('s4', None, 'r2'),
            building('s5', 'host5', 'r2', project='other'),
            building('s6', 'host6', 'r3'),
        ]
        listed = client.return_value.servers.list
        listed.return_value = rows
        actions = client.return_value.instance_action.list
        actions.side_effect = lambda server: [
            mock.Mock(request_id=f'req-{server}')
        ]
        for request_id, hosts, asked in (
            ('req-s1', {'host1'}, ['s1']),
            ('req-s2', {'host2', 'host3'}, ['s1', 's2']),
            # of another project
            ('req-s5', set(), ['s1', 's2', 's3', 's4', 's6']),
        ):
            actions.reset_mock()
            self.assertEqual(
                hosts,
                nova_api.hosts_of_request(
                    mock.Mock(project_id='project'), request_id
                ),
            )
            self.assertEqual(
                [mock.call(server) for server in asked], actions.mock_calls
            )
        listed.assert_called_with(
            search_opts={
                'all_tenants': 1,
                'project_id': 'project',
                'task_state': 'block_device_mapping',
            },
            limit=100,
            sort_keys=['updated_at'],
            sort_dirs=['desc'],
        )
        for error in (nova_exc.Forbidden(403), ks_exc.ConnectFailure()):
            actions.side_effect = error
            self.assertRaises(
                nova_server.NovaError,
                nova_api.hosts_of_request,
                mock.Mock(project_id='project'),
                'req-s1',
            )

    @mock.patch('cinder.compute.nova.novaclient')
    def test_an_account_that_sees_no_hosts(self, client):
        row = mock.Mock()
        row.to_dict.return_value = {'id': 's1', 'tenant_id': 'project'}
        client.return_value.servers.list.return_value = [row]
        client.return_value.instance_action.list.return_value = [
            mock.Mock(request_id='req-s1')
        ]
        self.assertEqual(
            set(),
            nova_api.hosts_of_request(
                mock.Mock(project_id='project'), 'req-s1'
            ),
        )
