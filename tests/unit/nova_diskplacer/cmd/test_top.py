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

import io
import json

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslotest import base

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example


class TopTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.conf = cfg.ConfigOpts()
        # takes back what is overridden: groups of options share it
        overridden = self.useFixture(config_fixture.Config(self.conf))
        options.register_opts(self.conf)
        self.conf([], project='nova', default_config_files=[])
        overridden.config(group='diskplacer_agent', state_dir=self.dir)
        for name in ('stdout', 'stderr'):
            setattr(self, name, io.StringIO())
            self.useFixture(
                fixtures.MonkeyPatch(f'sys.{name}', getattr(self, name))
            )

    def serve(self, take):
        server = status_socket.serve(self.dir, take)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def top(self, *words):
        args = manage.make_parser().parse_args(['top', *words])
        return args.handler(self.conf, args)

    def test_once(self):
        self.serve(example.status_provider())
        self.assertEqual(0, self.top('--once'))
        self.assertEqual(1, self.stdout.getvalue().count('CLASS'))

    def test_json_has_all_that_the_agent_knows(self):
        self.serve(example.status_provider())
        self.assertEqual(0, self.top('--once', '--format', 'json'))
        self.assertEqual(
            example.status_provider()(),
            status.from_json(self.stdout.getvalue()),
        )
        self.assertEqual(7, json.loads(self.stdout.getvalue())['version'])

    def test_no_agent(self):
        error = self.assertRaises(exception.AgentError, self.top)
        self.assertIn('start diskplacer-agent', str(error))

    def test_an_interval_that_is_none(self):
        for value in ('0', '-1', 'soon', 'nan', '1e9'):
            self.assertRaises(SystemExit, self.top, '--interval', value)
            self.assertIn(value, self.stderr.getvalue())
