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

import contextlib
import io
import json
import os
import re
import socket

import fixtures
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import manage
from nova_diskplacer.profiles import catalogue
from tests.unit.nova_diskplacer.cmd import fake_nova

CLOUDS = """
clouds:
  here:
    region_name: RegionOne
    auth:
      auth_url: http://127.0.0.1:{port}/v3
      username: admin
      password: secret
      project_name: admin
      user_domain_id: default
      project_domain_id: default
"""


class TestCase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.profiles = os.path.join(self.dir, 'profiles.d')
        os.mkdir(self.profiles)
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([], default_config_files=[])
        options.set_override(
            'profile_dirs', [self.profiles], group='diskplacer'
        )
        self.useFixture(fixtures.MockPatchObject(conf, 'CONF', options))
        self.useFixture(fixtures.MockPatchObject(common, 'configure'))

    def run_(self, *arguments):
        """Return the exit status, the output and the errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = manage.main(['profile', *arguments])
        return status, out.getvalue(), err.getvalue()

    def json(self, *arguments):
        return json.loads(self.run_(*arguments, '--format', 'json')[1])

    def write(self, text):
        path = os.path.join(self.profiles, 'own.yaml')
        with open(path, 'w') as stream:
            stream.write(text)


class CatalogueTest(TestCase):
    def test_list(self):
        self.write('{name: own, title: Our own, description: It is ours.}')
        status, out, _ = self.run_('list')
        self.assertEqual(0, status)
        for word in ('sequential_sync', 'yarn, hadoop, hdfs', 'Our own'):
            self.assertIn(word, out)
        self.assertIn(
            {'name': 'own', 'aliases': [], 'title': 'Our own'},
            self.json('list'),
        )

    def test_show(self):
        status, out, _ = self.run_('show', 'spark')
        self.assertEqual(0, status)
        for word in (
            'sequential_async, spark: ',
            'queue.hdd.schedulers',
            'kyber, bfq, mq-deadline',
            'P0 §V-B, Fig. 4: 4 vCPUs are best',
            'P0: Ha, Venzano',
        ):
            self.assertIn(word, out)
        self.assertNotIn('P1: Lim', out)

    def test_show_json(self):
        shown = self.json('show', 'spark')
        self.assertEqual('sequential_async', shown['name'])
        self.assertEqual(256, shown['queue']['hdd']['nr_requests'])

    def test_unknown(self):
        status, _, err = self.run_('show', 'hadop')
        self.assertEqual(1, status)
        self.assertIn('no profile hadop; there are: batch', err)

    def test_bad_profile_of_the_operators(self):
        self.write('{name: own, title: Our own, description: x, weight: 0}')
        status, _, err = self.run_('list')
        self.assertEqual(1, status)
        self.assertIn('own.yaml: weight: 0 is less than the minimum of 1', err)


class FlavorsTest(TestCase):
    def setUp(self):
        super().setUp()
        self.slim = fake_nova.Flavor('slim', 4, 8192, {})
        self.fat = fake_nova.Flavor(
            'fat', 16, 16384, {'diskplacer:profile': 'sequential_sync'}
        )
        self.plain = fake_nova.Flavor(
            'plain', 1, 512, {'hw_rng:allowed': 'True'}
        )
        self.nova = self.useFixture(
            fake_nova.FakeNova(self.slim, self.fat, self.plain)
        )

    def test_apply_shows_and_changes_nothing(self):
        status, out, _ = self.run_('apply', 'sequential_sync', 'slim')
        self.assertEqual(0, status)
        self.assertEqual(
            '--- flavor slim\n'
            '+++ with profile sequential_sync\n'
            '@@ -0,0 +1,5 @@\n'
            '+diskplacer:profile=sequential_sync\n'
            '+diskplacer:vdisk_gb=256\n'
            '+diskplacer:vdisks=4\n'
            '+hw:numa_nodes=1\n'
            '+trait:CUSTOM_DISKPLACER_HOST=required\n'
            'Nothing is changed without --yes.\n',
            out,
        )
        self.assertEqual([], self.slim.calls)

    def test_apply(self):
        status, out, _ = self.run_(
            'apply', 'sequential_sync', 'slim', 'id-fat', '--yes'
        )
        self.assertEqual(0, status)
        self.assertIn('Flavor slim has profile sequential_sync now.', out)
        wanted = {
            'diskplacer:profile': 'sequential_sync',
            'diskplacer:vdisks': '4',
            'diskplacer:vdisk_gb': '256',
            'hw:numa_nodes': '1',
            'trait:CUSTOM_DISKPLACER_HOST': 'required',
        }
        self.assertEqual(wanted, self.slim.specs)
        self.assertEqual(wanted, self.fat.specs)
        self.assertIn('# 16 vCPUs, 8 or fewer advised (P0 §V-A', out)

    def test_apply_tells_which_weights_are_left_out(self):
        self.write(
            '{name: own, title: Our own, description: It is ours, '
            'queue: {hdd: {schedulers: [none]}}}'
        )
        told = '# on hosts with [diskplacer_weights] mode=on: queue.hdd.'
        for media, expected in (('hdd', 1), ('any', 1), ('ssd', 0)):
            self.slim.specs['diskplacer:media'] = media
            status, out, _ = self.run_('apply', 'own', 'slim')
            self.assertEqual((0, expected), (status, out.count(told)), out)
        _, out, _ = self.run_('apply', 'sequential_sync', 'fat')
        self.assertNotIn(told, out)

    def test_apply_writes_the_volume_type(self):
        self.run_(
            'apply',
            'sequential_sync',
            'slim',
            '--yes',
            '--volume-type',
            'vdisk',
        )
        self.assertEqual('vdisk', self.slim.specs['diskplacer:volume_type'])
        self.assertEqual(
            (0, '', ''), self.run_('diff', 'sequential_sync', 'slim')
        )
        conf.CONF.set_override('volume_type', 'fast', 'diskplacer_api')
        self.addCleanup(
            conf.CONF.clear_override, 'volume_type', 'diskplacer_api'
        )
        self.run_('apply', 'sequential_sync', 'slim', 'fat', '--yes')
        self.assertEqual('fast', self.fat.specs['diskplacer:volume_type'])
        # it has its own
        self.assertEqual('vdisk', self.slim.specs['diskplacer:volume_type'])

    def test_apply_twice(self):
        self.run_('apply', 'spark', 'slim', '--yes')
        calls = list(self.slim.calls)
        status, out, _ = self.run_(
            'apply', 'sequential_async', 'slim', '--yes'
        )
        self.assertEqual((0, 'Nothing to change.\n'), (status, out))
        self.assertEqual(calls, self.slim.calls)

    def test_flavor_named_twice(self):
        self.run_('apply', 'sequential_sync', 'slim', 'id-slim', '--yes')
        self.assertEqual(['set'], [call for call, _ in self.slim.calls])

    def test_apply_another(self):
        self.run_('apply', 'cassandra', 'slim', '--yes')
        self.assertEqual('dedicated', self.slim.specs['hw:cpu_policy'])
        status, out, _ = self.run_('apply', 'neutral', 'slim', '--yes')
        self.assertEqual(0, status)
        self.assertIn('-hw:cpu_policy=dedicated\n', out)
        self.assertEqual(
            {
                'diskplacer:profile': 'neutral',
                'trait:CUSTOM_DISKPLACER_HOST': 'required',
            },
            self.slim.specs,
        )

    def _answer_removals(self, *answers):
        self.nova.requests.delete(
            re.compile(f'{fake_nova.URL}/flavors/id-slim/os-extra_specs/.+'),
            [*answers, {'text': self.slim.unset}],
        )

    def test_apply_after_a_removal_that_failed(self):
        self.run_('apply', 'cassandra', 'slim', '--yes')
        profiles = catalogue.load([])
        vdisks = flavor.parse(self.slim.specs, profiles)
        self._answer_removals(
            {'text': self.slim.unset}, *[{'status_code': 504}] * 2
        )
        for _ in range(2):
            status, _, err = self.run_('apply', 'neutral', 'slim', '--yes')
            self.assertEqual(1, status)
            self.assertIn('flavor slim: ', err)
            # a server that boots now gets the same
            self.assertEqual(vdisks, flavor.parse(self.slim.specs, profiles))
        for _ in range(2):
            status, out, _ = self.run_('apply', 'neutral', 'slim', '--yes')
            self.assertEqual(0, status)
            self.assertEqual(
                {
                    'diskplacer:profile': 'neutral',
                    'trait:CUSTOM_DISKPLACER_HOST': 'required',
                },
                self.slim.specs,
            )
        self.assertEqual('Nothing to change.\n', out)

    def test_apply_that_makes_a_flavor_invalid(self):
        self.slim.specs['diskplacer:vdisks'] = '8'
        status, out, _ = self.run_('apply', 'neutral', 'plain', 'slim')
        self.assertEqual(0, status)
        self.assertIn('# diskplacer:vdisk_gb is required', out)
        status, _, err = self.run_(
            'apply', 'neutral', 'plain', 'slim', '--yes'
        )
        self.assertEqual(1, status)
        self.assertIn('flavor slim: diskplacer:vdisk_gb is required', err)
        self.assertIn('nothing is changed', err)
        self.assertEqual([], self.plain.calls + self.slim.calls)
        self.slim.specs['diskplacer:vdisk_gb'] = '10'
        status, _, err = self.run_(
            'apply', 'neutral', 'plain', 'slim', '--yes'
        )
        self.assertEqual((0, ''), (status, err))

    def test_apply_what_nova_refuses(self):
        """Nova checks the extra specs of other namespaces."""
        self.run_('apply', 'cassandra', 'slim', '--yes')
        before = dict(self.slim.specs)
        self.nova.requests.post(
            f'{fake_nova.URL}/flavors/id-slim/os-extra_specs',
            [{'status_code': 400}, {'json': self.slim.set}],
        )
        status, _, err = self.run_('apply', 'neutral', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn('flavor slim: ', err)
        self.assertEqual(before, self.slim.specs)
        status, _, err = self.run_('apply', 'neutral', 'slim', '--yes')
        self.assertEqual((0, ''), (status, err))
        self.assertNotIn('diskplacer:vdisks', self.slim.specs)

    def test_apply_at_the_same_time(self):
        self.run_('apply', 'cassandra', 'slim', '--yes')

        def unset(request, context):
            # what another operator does in the meantime
            self.slim.unset(request, context)
            return self.slim.unset(request, context)

        self._answer_removals({'text': unset})
        status, _, err = self.run_('apply', 'neutral', 'slim', '--yes')
        self.assertEqual((0, ''), (status, err))
        self.assertEqual('neutral', self.slim.specs['diskplacer:profile'])

    def test_unknown_profile(self):
        status, _, err = self.run_('apply', 'hadop', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn('no profile hadop', err)

    def test_unknown_flavor_changes_none(self):
        for command in (('apply', 'spark', '--yes'), ('diff', 'spark')):
            status, _, err = self.run_(*command, 'slim', 'slimm')
            self.assertEqual(1, status)
            self.assertIn('no flavor slimm; there are: fat, plain, slim', err)
        self.assertEqual([], self.slim.calls)

    def test_nova_refuses(self):
        self.nova.requests.post(
            f'{fake_nova.URL}/flavors/id-slim/os-extra_specs',
            status_code=403,
            json={'forbidden': {'message': 'Policy does not allow it'}},
        )
        status, _, err = self.run_('apply', 'spark', 'slim', '--yes')
        self.assertEqual(1, status)
        self.assertIn('flavor slim: Policy does not allow it', err)

    def test_nova_away(self):
        self.nova.requests.get(
            f'{fake_nova.URL}/flavors/detail',
            exc=ks_exc.ConnectFailure('no route to host'),
        )
        status, _, err = self.run_('check')
        self.assertEqual(1, status)
        self.assertIn('no route to host', err)

    def test_extra_specs_not_shown(self):
        self.slim.specs = None
        status, _, err = self.run_('check', 'slim')
        self.assertEqual(1, status)
        self.assertIn('extra specs of flavor slim', err)

    def test_check(self):
        status, out, _ = self.run_('check')
        self.assertEqual(3, status)
        self.assertIn('16 vCPUs, 8 or fewer advised', out)
        (finding,) = self.json('check')
        self.assertEqual(
            ('fat', 'sequential_sync'), (finding['flavor'], finding['profile'])
        )
        self.assertIn('P0 §V-A', finding['source'])

    def test_check_of_some(self):
        status, out, _ = self.run_('check', 'slim', 'plain')
        self.assertEqual(0, status)
        self.assertEqual('Nothing contradicts a profile in 2 flavors.\n', out)

    def test_diff(self):
        status, out, _ = self.run_('diff', 'spark', 'plain')
        self.assertEqual(3, status)
        self.assertIn('+diskplacer:profile=sequential_async\n', out)
        self.assertIn('+diskplacer:vdisks=4\n', out)
        self.assertNotIn('hw_rng', out)

    def test_diff_of_what_is_applied(self):
        self.run_('apply', 'spark', 'plain', '--yes')
        status, out, _ = self.run_('diff', 'spark', 'plain')
        self.assertEqual((0, ''), (status, out))

    def test_diff_of_an_override(self):
        self.fat.specs['diskplacer:vdisks'] = '1'
        self.fat.specs['hw:numa_nodes'] = '1'
        status, out, _ = self.run_('diff', 'sequential_sync', 'fat')
        self.assertEqual(3, status)
        self.assertIn('-diskplacer:vdisks=1\n+diskplacer:vdisks=4\n', out)


class CloudTest(TestCase):
    """Which cloud is meant; nothing of the SDK is faked."""

    def setUp(self):
        super().setUp()
        for name in list(os.environ):
            if name.startswith('OS_'):
                self.useFixture(fixtures.EnvironmentVariable(name))
        path = os.path.join(self.dir, 'clouds.yaml')
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', path)
        )
        # nobody listens there while it is bound
        unused = socket.socket()
        self.addCleanup(unused.close)
        unused.bind(('127.0.0.1', 0))
        self.port = unused.getsockname()[1]
        with open(path, 'w') as stream:
            stream.write(CLOUDS.format(port=self.port))

    def test_no_cloud(self):
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', self.dir)
        )
        status, _, err = self.run_('check')
        self.assertEqual(1, status)
        self.assertIn('OS_* variables', err)
        self.assertIn('auth_url', err)

    def test_unknown_cloud(self):
        status, _, err = self.run_('check', '--os-cloud', 'there')
        self.assertEqual(1, status)
        self.assertIn('cloud there: Cloud there was not found', err)

    def test_unreachable_cloud(self):
        status, _, err = self.run_('check', '--os-cloud', 'here')
        self.assertEqual(1, status)
        self.assertIn(f'127.0.0.1:{self.port}', err)

    def test_unreachable_cloud_of_variables(self):
        for name, value in (
            ('AUTH_URL', f'http://127.0.0.1:{self.port}/v3'),
            ('USERNAME', 'admin'),
            ('PASSWORD', 'secret'),
            ('PROJECT_NAME', 'admin'),
            ('USER_DOMAIN_ID', 'default'),
            ('PROJECT_DOMAIN_ID', 'default'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))
        status, _, err = self.run_('diff', 'spark', 'slim')
        self.assertEqual(1, status)
        self.assertIn(f'127.0.0.1:{self.port}', err)
