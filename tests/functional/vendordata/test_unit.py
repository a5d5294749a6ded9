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

"""The unit of the service, by a systemd of its own, asked by Nova's code.

Keystone and Nova's API are not real.
"""

import os
import pathlib
import sys
import time
import types
import uuid

import fixtures
import nova.conf
import testtools
from keystoneauth1 import loading
from nova.api.metadata import vendordata_dynamic
from oslo_config import fixture as config_fixture
from testtools import content

from tests import loopback
from tests import loops
from tests import systemd
from tests.functional.vendordata import cloud
from tests.functional.vendordata import sessions

UNIT = 'diskplacer-vendordata.service'
AUTH = 'vendordata_dynamic_auth'
STARTS = 300
SPECS = {
    'diskplacer:guest': 'kafka',
    'diskplacer:vdisks': '4',
    'diskplacer:vdisk_gb': '10',
}


def section(name, values):
    lines = [f'{key} = {value}' for key, value in values.items()]
    return '\n'.join([f'[{name}]', *lines, ''])


@loops.needs_root
@systemd.needed
class UnitTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(cloud.Cloud())
        self.instance = types.SimpleNamespace(
            uuid=str(uuid.uuid4()),
            project_id=uuid.uuid4().hex,
            image_ref=str(uuid.uuid4()),
            user_data=None,
            hostname='worker-1',
            metadata={},
            system_metadata={},
        )
        self.cloud.servers[self.instance.uuid] = {
            'id': self.instance.uuid,
            'tenant_id': self.instance.project_id,
            'flavor': {'extra_specs': SPECS},
        }
        self.address = loopback.address()
        self.configure_nova('service')
        self.start()

    def configure_nova(self, user):
        self.useFixture(sessions.Sessions())
        conf = nova.conf.CONF
        conf.register_opts(
            loading.get_auth_plugin_conf_options('v3password'), AUTH
        )
        fixture = self.useFixture(config_fixture.Config(conf))
        fixture.config(group=AUTH, **self.cloud.account(user))
        fixture.config(
            group='api',
            vendordata_dynamic_targets=[
                f'cloud-init@http://{self.address}:9749/'
            ],
        )
        self.patience = conf.api.vendordata_dynamic_read_timeout

    def start(self):
        """Start the unit, which only root can configure."""
        path = self.useFixture(fixtures.TempDir()).path
        config = pathlib.Path(path, 'vendordata.conf')
        config.write_text(
            section(
                'keystone_authtoken',
                {
                    'www_authenticate_uri': self.cloud.url,
                    **self.cloud.account('admin'),
                },
            )
            + section(
                'diskplacer_vendordata',
                {
                    'listen_address': self.address,
                    **self.cloud.account('admin'),
                },
            )
        )
        config.chmod(0o600)

        def change(name, value):
            if name == 'ExecStart':
                return f'{os.path.dirname(sys.executable)}/{value}'
            if name == 'LoadCredential':
                return f'{value.partition(":")[0]}:{config}'
            # the checkout may be below a home, which has it alone then
            return 'tmpfs' if name == 'ProtectHome' else value

        systemd.write_unit(path, UNIT, change, f'TimeoutStartSec={STARTS}')
        self.systemd = self.useFixture(systemd.Systemd(path, UNIT))
        self.addOnException(self.show_log)
        self.systemd.wait('active', STARTS)

    def show_log(self, _):
        log = content.text_content(self.systemd.log())
        self.addDetail('log', log)

    def ask(self):
        """Return what Nova gets of the service, and in how many seconds."""
        begun = time.monotonic()
        driver = vendordata_dynamic.DynamicVendorData(self.instance)
        found = driver.get()
        return found['cloud-init'], time.monotonic() - begun

    def test_answers(self):
        found, _ = self.ask()
        self.assertIn('/etc/kafka/conf/server.properties', found)
        pid = self.systemd.show('MainPID')
        # an account that exists while the service runs
        self.assertGreaterEqual(
            int(self.systemd.enter('stat', '--format=%u', f'/proc/{pid}')),
            61184,
        )
        self.configure_nova('member')
        self.assertEqual({}, self.ask()[0])

    def test_nova_hangs(self):
        """The service does not wait longer than Nova does for it."""
        self.cloud.hangs = True
        found, seconds = self.ask()
        self.assertEqual('', found)
        self.assertLess(seconds, self.patience)
        # nor does it wait again for the same config drive
        self.ask()
        self.assertEqual(1, len(self.cloud.asked))
        self.assertIn('Nova cannot be reached', self.systemd.log())
