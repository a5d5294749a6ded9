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

"""openstack vdisk host empty with the real Nova and Placement.

Cinder is a fixture, for whose REST API a stand-in answers.
"""

import argparse
import concurrent.futures
import io
import json
import re
import types

import fixtures
import openstack.connection
from keystoneauth1 import noauth
from keystoneauth1 import session as ks_session
from nova.api import auth
from requests_mock.contrib import fixture as requests_mock_fixture

from nova_diskplacer.client.osc import moves
from nova_diskplacer.client.server_moves import emptying
from tests.functional.nova import test_server_moves

CINDER = 'http://cinder.test/v3'
HOST = 'host0'


class HostTestCase(test_server_moves.ServerMovesTestCase):
    """Commands for the servers of a host.

    :ivar volumes_down: hosts whose cinder-volume is down.
    """

    def setUp(self):
        super().setUp()
        self.with_snapshots = []
        self.volumes_down = set()
        self.answer_as_cinder()
        self.keep_request_ids()

    def connect(self):
        return openstack.connection.Connection(
            session=ks_session.Session(
                auth=noauth.NoAuth(),
                additional_headers={
                    'X-Auth-User': 'admin',
                    'X-Auth-Project-Id': self.api.project_id,
                    'X-Roles': 'admin,member,reader',
                    'X-Auth-Token': 'admin',
                },
            ),
            region_name='here',
            compute_endpoint_override=self.api.base_url,
            placement_endpoint_override=self.placement.fixture.endpoint,
            block_storage_endpoint_override=CINDER,
            compute_api_version='2',
            block_storage_api_version='3',
            block_storage_default_microversion='3.60',
        )

    def keep_request_ids(self):
        """Give a request's ID to its context, as Nova does with Keystone."""
        create = auth.NovaKeystoneContext._create_context

        def with_request_id(env, **kwargs):
            context = create(env, **kwargs)
            context.request_id = env['openstack.request_id']
            return context

        self.useFixture(
            fixtures.MockPatchObject(
                auth.NovaKeystoneContext,
                '_create_context',
                staticmethod(with_request_id),
            )
        )

    def answer_as_cinder(self):
        requests = self.useFixture(
            requests_mock_fixture.Fixture(real_http=True)
        )
        url = re.escape(CINDER)
        requests.get(
            CINDER,
            json={
                'version': {
                    'id': 'v3.0',
                    'status': 'CURRENT',
                    'version': '3.71',
                    'min_version': '3.0',
                    'links': [{'rel': 'self', 'href': CINDER}],
                }
            },
        )
        requests.get(
            re.compile(url + r'/volumes/[-0-9a-f]{36}$'),
            json=lambda request, _: {
                'volume': self.shown(request.path.rsplit('/', 1)[1])
            },
        )
        requests.get(
            f'{CINDER}/os-services',
            json=lambda *_: {
                'services': [
                    {
                        'host': f'{host}@vdisk',
                        'state': 'down' if host in self.volumes_down else 'up',
                        'status': 'enabled',
                    }
                    for host in self.hosts
                ]
            },
        )
        requests.get(
            f'{CINDER}/volumes/detail',
            json=lambda *_: {
                'volumes': [self.shown(id_) for id_ in self.volumes.volumes]
            },
        )
        requests.get(
            f'{CINDER}/snapshots',
            json=lambda request, _: {
                'snapshots': [
                    {'id': id_, 'volume_id': id_}
                    for id_ in self.with_snapshots
                    if id_ in request.qs['volume_id']
                ]
            },
        )
        requests.get(
            f'{CINDER}/attachments/detail',
            json=lambda request, _: {
                'attachments': [
                    {
                        'id': attachment['id'],
                        'volume_id': id_,
                        'instance': attachment['instance_uuid'],
                        'connection_info': {
                            'driver_volume_type': 'local',
                            'vdisk': {'host': self.volumes.places[id_][0]},
                        },
                    }
                    for id_, attachment in self.attachments()
                    if attachment['instance_uuid']
                    in request.qs.get(
                        'instance_id', [attachment['instance_uuid']]
                    )
                    and id_ in request.qs.get('volume_id', [id_])
                ]
            },
        )

    def attachments(self):
        return [
            (id_, attachment)
            for id_, found in self.volumes.volume_to_attachment.items()
            for attachment in found.values()
            if id_ in self.volumes.places
        ]

    def shown(self, id_):
        """Return a volume as Cinder's API shows it."""
        host, disk = self.volumes.places.get(id_, ('', None))
        if id_ in self.volumes.targets:
            disk = f'192.0.2.1:3260,1 iqn.2010-10.org.openstack:{id_} 0'
        servers = {
            attachment['instance_uuid']
            for volume_id, attachment in self.attachments()
            if volume_id == id_ and attachment['connector']
        }
        return {
            'id': id_,
            'name': 'data',
            'size': self.volumes.volumes[id_]['size'],
            'provider_id': disk,
            'status': 'in-use' if servers else 'reserved',
            'os-vol-host-attr:host': f'{host}@vdisk#vdisk',
            'os-vol-tenant-attr:tenant_id': self.api.project_id,
            'attachments': [
                {'server_id': server, 'device': '/dev/vdb'}
                for server in servers
            ],
        }

    def boot_on(self, host, **kwargs):
        self.api.microversion = '2.74'
        return self.boot_bound(host=host, **kwargs)

    def disable_others(self, host):
        for name, compute in self.computes.items():
            if name != host:
                self.api.put_service(
                    compute.service_ref.uuid, {'status': 'disabled'}
                )

    def enable_all(self):
        for compute in self.computes.values():
            self.api.put_service(
                compute.service_ref.uuid, {'status': 'enabled'}
            )

    def run_command(self, kind, *arguments):
        """Return the exit status, and the row of each server."""
        app = types.SimpleNamespace(
            client_manager=types.SimpleNamespace(vdisk=self.connect()),
            stdout=io.StringIO(),
            stderr=io.StringIO(),
            options=argparse.Namespace(),
        )
        command = kind(app, argparse.Namespace())
        parser = command.get_parser('openstack')
        status = command.run(
            parser.parse_args(['-f', 'json', HOST, *arguments])
        )
        rows = json.loads(app.stdout.getvalue())
        return status, {row['Server ID']: row for row in rows}


class HostEmptyTest(HostTestCase):
    def setUp(self):
        super().setUp()
        for name in ('_INTERVAL', '_SETTLE_INTERVAL'):
            self.useFixture(fixtures.MockPatchObject(emptying, name, 0.2))

    def empty(self, *arguments):
        """Return the exit status, and move, result, reason by server."""
        status, rows = self.run_command(moves.EmptyHost, *arguments)
        return status, {
            id_: (row['Move'], row.get('Result', ''), row['Reason'])
            for id_, row in rows.items()
        }

    def test_servers_leave(self):
        """One that runs, one that is off, and two that have to stay."""
        self.disable_others(HOST)
        booted = [self.boot_bound() for _ in range(4)]
        (runs, _), (off, _), (stays, ids), (locked, _) = booted
        self.enable_all()
        self._stop_server(off)
        self.with_snapshots = ids
        self.api.post_server_action(locked['id'], {'lock': None})

        status, rows = self.empty('--plan')
        self.assertEqual(3, status)
        self.assertEqual(
            {
                runs['id']: 'live',
                off['id']: 'cold',
                stays['id']: 'no',
                locked['id']: 'no',
            },
            {id_: row[0] for id_, row in rows.items()},
        )
        status, rows = self.empty('--parallel', '2')
        self.assertEqual(3, status)
        for server, kind, state in (
            (runs, 'live', 'ACTIVE'),
            (off, 'cold', 'SHUTOFF'),
        ):
            self.assertEqual((kind, 'left'), rows[server['id']][:2])
            self.assertIn('data of 2 of its vdisks', rows[server['id']][2])
            now = self.api.get_server(server['id'])
            self.assertEqual(state, now['status'])
            self.assertNotEqual(HOST, now['OS-EXT-SRV-ATTR:host'])
            self.assert_claims(server, [100] * 2)
            self.assertEqual({}, self.migration_claims(server))
        self.assertIn('which has snapshots', rows[stays['id']][2])
        self.assertIn('is locked', rows[locked['id']][2])
        self.assertEqual(HOST, self.host_of(stays).name)

        # what held them is gone, and the data of the others has arrived
        self.with_snapshots = []
        self.api.post_server_action(locked['id'], {'unlock': None})
        self.volumes.settle(*booted[0][1], *booted[1][1])
        self.reconcile()
        self.assertEqual('live', self.empty()[1][stays['id']][0])
        self.volumes.settle(*booted[2][1], *booted[3][1])
        self.reconcile()
        self.assertEqual((0, {}), self.empty('--wait'))
        service = self.api.get_services(binary='nova-compute', host=HOST)
        self.assertEqual(
            ('disabled', True),
            (
                service[0]['status'],
                'set --enable host0' in service[0]['disabled_reason'],
            ),
        )

    def test_no_host_has_room(self):
        """Nova finds no valid host, and its reason is in the table."""
        self.disable_others(HOST)
        server, _ = self.boot_bound(self.flavor(**self.asked))
        self.enable_all()
        self.flags(moves=False, group='diskplacer_scheduler')
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows[server['id']][1]))
        self.assertIn('No valid host', rows[server['id']][2])
        self.assertEqual('ACTIVE', self.api.get_server(server['id'])['status'])

    def test_user_migration_is_not_confirmed(self):
        self.disable_others(HOST)
        server, _ = self.boot_bound()
        self.enable_all()
        self._migrate_server(server)
        # as nova-compute does by itself, and undoes again
        self.api.put_service(
            self.computes[HOST].service_ref.uuid,
            {'status': 'disabled', 'disabled_reason': 'AUTO: no libvirt'},
        )
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows[server['id']][1]))
        self.assertIn('resize confirm', rows[server['id']][2])
        self.assertEqual(
            'VERIFY_RESIZE', self.api.get_server(server['id'])['status']
        )
        (service,) = self.api.get_services(binary='nova-compute', host=HOST)
        self.assertNotIn('AUTO', service['disabled_reason'])

    def test_two_operators(self):
        """They empty the host at the same time."""
        self.disable_others(HOST)
        bare = self.flavor()
        servers = [self.boot(bare) for _ in range(3)]
        self._stop_server(servers[2])
        self.enable_all()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [
                pool.submit(self.empty, '--wait', '--parallel', '2')
                for _ in range(2)
            ]
            for run in runs:
                self.assertIn(run.result()[0], (0, 3))
        self.assertEqual((0, {}), self.empty())
        for server in servers:
            now = self.api.get_server(server['id'])
            self.assertNotEqual(HOST, now['OS-EXT-SRV-ATTR:host'])
            expected = 'SHUTOFF' if server is servers[2] else 'ACTIVE'
            self.assertEqual(expected, now['status'])
        # each moved once
        self.assertEqual(
            sorted(server['id'] for server in servers),
            sorted(one['instance_uuid'] for one in self.api.get_migrations()),
        )
