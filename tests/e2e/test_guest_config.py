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


"""User data for guests, from a real server and a real flavor."""

import ast
import subprocess
import xml.etree.ElementTree

from nova_diskplacer.guest import config as guest_config
from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import config
from tools.minicloud import ini
from tools.minicloud import process


class GuestConfigTestCase(base.TestCase):
    def settings(self, *arguments):
        """Return the settings in the script that the command prints."""
        state = self.cloud.state
        login = dict(
            line.removeprefix('export ').split('=', 1)
            for line in config.openrc(state).splitlines()
        )
        conf = state.host_dir(self.cloud.libvirt_host) / 'diskplacer.conf'
        done = subprocess.run(
            [
                f'{ini.BIN}/diskplacer-manage',
                f'--config-file={conf}',
                'guest-config',
                '--format=script',
                *arguments,
            ],
            env=process.environment(**login),
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        call = ast.parse(done.stdout).body[-1].value.args[0]
        return ast.literal_eval(call.args[0])

    def test_server(self):
        server = self.boot('round-robin', self.cloud.libvirt_host)
        self.eventually(
            'map', lambda: self.statuses(server) == ['ok'] * base.VDISKS
        )
        text = checks.domain_xml(self.cloud, server)
        serials = [
            disk.findtext('serial')[: guest_config.SERIAL_LENGTH]
            for disk in xml.etree.ElementTree.fromstring(text).iter('disk')
            if disk.findtext('serial')
        ]
        self.assertEqual(base.VDISKS, len(serials))
        found = self.settings('--server', server, '--for', 'hadoop')
        self.assertEqual(sorted(serials), found['volumes'])

    def test_flavor(self):
        for flavor in (
            f'round-robin-{base.VDISKS}',
            self.cloud.flavors[f'round-robin-{base.VDISKS}'],
        ):
            found = self.settings('--flavor', flavor, '--for', 'kafka')
            self.assertEqual(
                (None, base.VDISKS, base.GIB),
                (found['volumes'], found['count'], found['bytes']),
            )
