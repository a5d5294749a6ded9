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

import fixtures
from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from tests.unit.nova_diskplacer.client.osc import test_commands

NOVA = test_commands.NOVA
SERVER = test_commands.SERVER
OTHER, *VDISKS = test_commands.VOLUMES[:3]


class GuestConfigTest(test_commands.CommandTestCase):
    def setUp(self):
        super().setUp()
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([], default_config_files=[])
        self.useFixture(fixtures.MockPatchObject(conf, 'CONF', options))
        self.useFixture(fixtures.MockPatchObject(common, 'configure'))
        self.useFixture(
            fixtures.MockPatchObject(
                cloud, 'connection', return_value=self.connection
            )
        )
        self.answer_cinder(
            test_commands.volume(OTHER, None),
            *(
                test_commands.volume(volume, test_commands.HDD)
                for volume in VDISKS
            ),
        )
        self.answer_server()
        self.flavors(many={'diskplacer:profile': 'spark'}, bare={})

    def answer_server(self, *volumes, **fields):
        server = {
            **self.server,
            'os-extended-volumes:volumes_attached': [
                {'id': volume} for volume in volumes or (OTHER, *VDISKS)
            ],
            **fields,
        }
        url = f'{NOVA}/servers/{SERVER}'
        self.requests.get(url, json={'server': server})

    def flavors(self, **flavors):
        shown = [
            {'id': f'id-{name}', 'name': name, 'extra_specs': specs}
            for name, specs in flavors.items()
        ]
        self.requests.get(f'{NOVA}/flavors/detail', json={'flavors': shown})

    def manage(self, *arguments):
        """Return the exit status, the output and the errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = manage.main(['guest-config', *arguments])
        return status, out.getvalue(), err.getvalue()

    def settings(self, *arguments):
        """Return the settings that the script is given."""
        status, out, errors = self.manage(*arguments, '--format', 'script')
        self.assertEqual((0, ''), (status, errors))
        return ast.literal_eval(ast.parse(out).body[-1].value.args[0].args[0])

    def refused(self, *arguments):
        status, out, errors = self.manage(*arguments, '--for', 'plain')
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
        self.answer_server(VDISKS[0])
        self.assertIn(
            'layout stripe takes two vdisks or more, not 1',
            self.refused('--server', SERVER, '--layout', 'stripe'),
        )

    def test_user_data(self):
        status, out, _ = self.manage('--flavor=many', '--for=hadoop')
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
        self.answer_server(flavor={'extra_specs': {}})
        found = self.settings('--server', SERVER, '--for', 'cassandra')
        self.assertEqual('xfs', found['filesystem'])
        self.assertEqual({}, found['queue'])

    def test_server_that_will_not_do(self):
        words = ('--server', SERVER)
        self.answer_server(OTHER)
        self.assertIn('none of its 1 volumes is a vdisk', self.refused(*words))
        self.requests.get(f'{NOVA}/servers/{SERVER}', status_code=404)
        self.requests.get(f'{NOVA}/servers/detail', json={'servers': []})
        self.assertIn(f'server {SERVER}: ', self.refused(*words))

    def test_the_former_timeout(self):
        arguments = ('--flavor=many', '--for=hadoop')
        self.assertEqual(
            self.manage(*arguments),
            self.manage(*arguments, '--timeout', '60'),
        )

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
