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


import ast
import contextlib
import io
import os
import types
from unittest import mock

import fixtures
import requests_mock
from oslo_config import cfg
from oslotest import base
from requests_mock.contrib import fixture as requests_mock_fixture

from nova_diskplacer import conf
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.placement import client as placement_client

NOVA = 'http://nova.test/v2.1'
SERVER = '6e0a4c1c-3c0f-4d0e-9a33-0f6a4dd0c1f3'
VDISKS = (
    '53d1f9d2-0c4e-4a52-9a4f-3f0f6f1f7a10',
    '0b1f7c64-5a0e-4f0c-8e0d-9b7f6a3d2c51',
)
OTHER = 'c1f7a5be-5a0e-4f0c-8e0d-9b7f6a3d2c51'


class GuestConfigTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.requests = self.useFixture(requests_mock_fixture.Fixture())
        self.requests.get(requests_mock.ANY, status_code=404)
        for name in list(os.environ):
            if name.startswith('OS_'):
                self.useFixture(fixtures.EnvironmentVariable(name))
        for name, value in (
            ('OS_AUTH_TYPE', 'none'),
            ('OS_ENDPOINT', NOVA),
            ('OS_CLIENT_CONFIG_FILE', '/nonexistent'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([], default_config_files=[])
        self.useFixture(fixtures.MockPatchObject(conf, 'CONF', options))
        for name in ('configure', 'transport'):
            self.useFixture(fixtures.MockPatchObject(common, name))
        client = mock.create_autospec(placement_client.PlacementClient)
        client.provider_by_name.side_effect = {
            'compute-1': types.SimpleNamespace(uuid='root')
        }.get
        self.useFixture(
            fixtures.MockPatchObject(
                placement_client.PlacementClient,
                'from_conf',
                return_value=client,
            )
        )
        self.collect_reports = self.useFixture(
            fixtures.MockPatchObject(map_, 'collect_reports')
        ).mock
        self.collect_reports.return_value = {
            'root': {
                'disks': [
                    {'vdisks': [{'volume_id': volume}]} for volume in VDISKS
                ]
            }
        }
        self.server()
        self.flavors(many={'diskplacer:profile': 'spark'}, bare={})

    def server(self, **fields):
        server = {
            'id': SERVER,
            'flavor': {'extra_specs': {'diskplacer:profile': 'spark'}},
            'OS-EXT-SRV-ATTR:hypervisor_hostname': 'compute-1',
            **fields,
        }
        url = f'{NOVA}/servers/{SERVER}'
        self.requests.get(url, json={'server': server})
        self.attached(OTHER, *VDISKS)

    def attached(self, *volumes):
        self.requests.get(
            f'{NOVA}/servers/{SERVER}/os-volume_attachments',
            json={'volumeAttachments': [{'volumeId': v} for v in volumes]},
        )

    def flavors(self, **flavors):
        shown = [
            {'id': f'id-{name}', 'name': name, 'extra_specs': specs}
            for name, specs in flavors.items()
        ]
        self.requests.get(
            f'{NOVA}/flavors/detail',
            json=lambda request, _: {
                'flavors': [] if 'marker' in request.qs else shown
            },
        )

    def run_(self, *arguments):
        """Return the exit status, the output and the errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = manage.main(['guest-config', *arguments])
        return status, out.getvalue(), err.getvalue()

    def settings(self, *arguments):
        """Return the settings that the script is given."""
        status, out, errors = self.run_(*arguments, '--format', 'script')
        self.assertEqual((0, ''), (status, errors))
        return ast.literal_eval(ast.parse(out).body[-1].value.args[0].args[0])

    def refused(self, *arguments):
        status, out, errors = self.run_(*arguments, '--for', 'plain')
        self.assertEqual((1, ''), (status, out))
        return errors

    def test_flavor(self):
        for name in ('many', 'id-many'):
            found = self.settings('--flavor', name, '--for', 'spark')
            self.assertIsNone(found['volumes'])
            self.assertEqual('ext4', found['filesystem'])
            self.assertEqual('none', found['queue']['scheduler'])
            self.assertGreater(found['count'], 1)
            self.assertGreater(found['bytes'], 0)
        found = self.settings(
            '--flavor=many', '--for=kafka', '--filesystem=xfs',
            '--mount-root=/srv', '--conf-dir=/opt/kafka', '--owner=me',
        )  # fmt: skip
        self.assertEqual(('xfs', '/srv'), (found['filesystem'], found['root']))
        (one,) = found['directories']
        self.assertEqual('/opt/kafka/server.properties', one['file'])
        self.assertEqual('me', one['owner'])

    def test_layout(self):
        found = self.settings('--flavor=many', '--for=plain')
        self.assertEqual('separate', found['layout'])
        found = self.settings(
            '--server', SERVER, '--for', 'plain', '--layout', 'stripe'
        )
        self.assertEqual('stripe', found['layout'])
        self.attached(VDISKS[0])
        self.assertIn(
            'layout stripe takes two vdisks or more, not 1',
            self.refused('--server', SERVER, '--layout', 'stripe'),
        )

    def test_user_data(self):
        status, out, _ = self.run_('--flavor=many', '--for=hadoop')
        self.assertEqual(0, status)
        self.assertTrue(out.startswith('#cloud-config\n'))

    def test_flavor_that_will_not_do(self):
        errors = self.refused('--flavor=bare')
        self.assertIn('flavor bare has no vdisks: diskplacer:vdisks', errors)
        self.assertIn(
            'no flavor none; there are: bare, many',
            self.refused('--flavor=none'),
        )
        self.flavors(wrong={'diskplacer:vdisks': '4'})
        self.assertIn(
            'flavor wrong: diskplacer:vdisk_gb is required',
            self.refused('--flavor=wrong'),
        )
        self.flavors(wrong={'diskplacer:profile': 'sprak'})
        self.assertIn('sprak', self.refused('--flavor=wrong'))

    def test_server(self):
        found = self.settings('--server', SERVER, '--for', 'cassandra')
        self.assertEqual(
            sorted(volume[:20] for volume in VDISKS), found['volumes']
        )
        self.assertEqual('ext4', found['filesystem'])
        self.server(flavor={})
        found = self.settings('--server', SERVER, '--for', 'cassandra')
        self.assertEqual('xfs', found['filesystem'])
        self.assertEqual({}, found['queue'])

    def test_server_that_will_not_do(self):
        words = ('--server', SERVER)
        self.attached(OTHER)
        self.assertIn('none of its 1 volumes is a vdisk', self.refused(*words))
        self.collect_reports.return_value = {}
        self.assertIn(
            'the agent of its compute node compute-1 did not answer within '
            '10 s, see --timeout',
            self.refused(*words),
        )
        node = 'OS-EXT-SRV-ATTR:hypervisor_hostname'
        self.server(**{node: 'compute-2'})
        self.assertIn('compute-2 is not in Placement', self.refused(*words))
        self.server(**{node: None})
        self.assertIn('does not show its compute node', self.refused(*words))
        self.requests.get(f'{NOVA}/servers/{SERVER}', status_code=404)
        self.assertIn(f'server {SERVER}: ', self.refused(*words))

    def test_wrong_arguments(self):
        for arguments in (
            (),
            ('--flavor=many',),
            ('--flavor=many', '--for=hbase'),
            ('--flavor=many', '--server=1', '--for=hadoop'),
            ('--flavor=many', '--for=hadoop', '--filesystem=btrfs'),
        ):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertRaises(
                    SystemExit, manage.main, ['guest-config', *arguments]
                )
        self.assertIn(
            "mount root 'x' is not an absolute path",
            self.refused('--flavor=many', '--mount-root=x'),
        )
