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

"""``diskplacer-manage profile`` against Nova's API.

The whole way is real: openstacksdk reads the variables, python-novaclient
asks, Nova's API validates and keeps. Only who asks is not checked, as there
is no Keystone.
"""

import contextlib
import io
import json
import os
import sys

import fixtures
from nova import context
from nova import test
from nova.tests import fixtures as nova_fixtures

from nova_diskplacer import conf
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage


class ProfileTestCase(test.TestCase):
    def setUp(self):
        self.flags(
            api_paste_config=os.path.join(
                sys.prefix, 'etc', 'nova', 'api-paste.ini'
            ),
            group='wsgi',
        )
        super().setUp()
        self.useFixture(nova_fixtures.RealPolicyFixture())
        api = self.useFixture(nova_fixtures.OSAPIFixture('v2.1'))
        self.api = api.admin_api
        self.roles = ['reader', 'member', 'admin']
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.api.auth.NovaKeystoneContext._create_context',
                self._context,
            )
        )
        for name in list(os.environ):
            if name.startswith('OS_'):
                self.useFixture(fixtures.EnvironmentVariable(name))
        for name, value in (
            ('OS_AUTH_TYPE', 'none'),
            ('OS_ENDPOINT', api.base_url),
            ('OS_CLIENT_CONFIG_FILE', '/nonexistent'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        conf.register_opts(conf.CONF)
        self.profiles = self.useFixture(fixtures.TempDir()).path
        self.flags(profile_dirs=[self.profiles], group='diskplacer')
        self.useFixture(fixtures.MockPatchObject(common, 'configure'))

    def _context(self, env, **kwargs):
        return context.RequestContext(
            'operator',
            self.api.project_id,
            is_admin='admin' in self.roles,
            roles=self.roles,
            **kwargs,
        )

    def flavor(self, name, vcpus=4, ram=8192, public=True, **extra_specs):
        """Create a flavor and return its ID."""
        flavor = self.api.post_flavor(
            {
                'flavor': {
                    'name': name,
                    'vcpus': vcpus,
                    'ram': ram,
                    'disk': 1,
                    'os-flavor-access:is_public': public,
                }
            }
        )
        specs = {f'diskplacer:{k}': v for k, v in extra_specs.items()}
        if specs:
            self.api.post_extra_spec(flavor['id'], {'extra_specs': specs})
        return flavor['id']

    def specs(self, flavor):
        """Return a flavor's extra specs, as Nova has them."""
        return self.api.api_get(f'/flavors/{flavor}/os-extra_specs').body[
            'extra_specs'
        ]

    def manage(self, *arguments):
        """Return the exit status, the output and the errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = manage.main(['profile', *arguments])
        return status, out.getvalue(), err.getvalue()

    def test_apply_every_profile_in_turn(self):
        """Nova takes what each sets, and nothing of the last is left."""
        flavor = self.flavor('slim', vdisks='2', vdisk_gb='10')
        listed = json.loads(self.manage('list', '--format', 'json')[1])
        self.assertIn('neutral', [one['name'] for one in listed])
        for name in (one['name'] for one in listed):
            shown = json.loads(
                self.manage('show', name, '--format', 'json')[1]
            )
            before = self.specs(flavor)
            self.assertEqual(0, self.manage('apply', name, 'slim')[0])
            self.assertEqual(before, self.specs(flavor))
            status, _, errors = self.manage('apply', name, 'slim', '--yes')
            self.assertEqual((0, ''), (status, errors))
            self.assertEqual(
                {
                    'diskplacer:vdisks': '2',
                    'diskplacer:vdisk_gb': '10',
                    'diskplacer:profile': name,
                    'trait:CUSTOM_DISKPLACER_HOST': 'required',
                    **shown['hw'],
                },
                self.specs(flavor),
            )

    def test_private_flavors_by_id(self):
        flavor = self.flavor('private', public=False)
        status, out, errors = self.manage(
            'apply', 'sequential_sync', flavor, '--yes'
        )
        self.assertEqual((0, ''), (status, errors))
        self.assertIn('Flavor private has profile sequential_sync now', out)
        self.assertEqual(
            'sequential_sync', self.specs(flavor)['diskplacer:profile']
        )

    def test_check_every_page(self):
        self.flags(max_limit=2, group='api')
        names = [f'fat{number}' for number in range(5)]
        for name in names:
            self.flavor(name, vcpus=16, profile='spark')
        self.flavor('good', profile='spark')
        status, out, _ = self.manage('check', '--format', 'json')
        self.assertEqual(3, status)
        self.assertEqual(names, [one['flavor'] for one in json.loads(out)])
        self.assertEqual(0, self.manage('check', 'good')[0])

    def test_diff(self):
        self.flavor('slim')
        status, out, _ = self.manage('diff', 'sequential_sync', 'slim')
        self.assertEqual(3, status)
        self.assertIn('+hw:numa_nodes=1\n', out)
        self.manage('apply', 'sequential_sync', 'slim', '--yes')
        self.assertEqual(
            (0, '', ''), self.manage('diff', 'sequential_sync', 'slim')
        )

    def test_nova_refuses_an_extra_spec_of_the_operators(self):
        with open(os.path.join(self.profiles, 'own.yaml'), 'w') as stream:
            stream.write(
                '{name: own, title: Own, description: Our own,'
                ' hw: {hw:cpu_polcy: dedicated}}'
            )
        flavor = self.flavor('slim')
        status, _, errors = self.manage('apply', 'own', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn('flavor slim:', errors)
        self.assertIn('hw:cpu_polcy', errors)
        self.assertEqual({}, self.specs(flavor))

    def test_only_an_administrator_applies(self):
        flavor = self.flavor('slim')
        self.roles = ['reader', 'member']
        status, _, errors = self.manage('apply', 'hadoop', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn("Policy doesn't allow", errors)
        self.roles = ['reader', 'member', 'admin']
        self.assertEqual({}, self.specs(flavor))

    def test_unknown_flavor(self):
        status, _, errors = self.manage('apply', 'hadoop', 'slimm', '--yes')
        self.assertEqual(1, status)
        self.assertIn('no flavor slimm; there are: m1.large', errors)

    def test_wrong_keys_of_the_operators(self):
        path = os.path.join(self.profiles, 'own.yaml')
        with open(path, 'w') as stream:
            stream.write(
                '{name: own, title: Own, description: Our own,'
                ' queue: {hdd: {sheduler: bfq}}}'
            )
        flavor = self.flavor('slim')
        status, _, errors = self.manage('apply', 'own', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn(
            f'{path}: queue.hdd: sheduler is not one of: schedulers', errors
        )
        self.assertEqual({}, self.specs(flavor))
