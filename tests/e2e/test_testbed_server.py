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

"""A guest that boots as a server, with the config drive that Nova makes."""

import json
import pathlib
import subprocess
import sys

import fixtures
import testtools
from testtools import content

from tools.testbed import Disk
from tools.testbed import Server
from tools.testbed import Testbed

TOP = pathlib.Path(__file__).parents[2]
VDISKS = tuple(f'53d1f9d2-0c4e-4a52-{one}' for one in '012')
OTHER = '53d1f9d2-0c4e-4a52-3'


class TestServer(testtools.TestCase):
    def test_disks_without_user_data(self):
        drive = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'drive')
        subprocess.run(
            [
                sys.executable, '-m', 'tests.functional.nova.config_drive',
                str(drive), str(len(VDISKS)), '1', 'kafka',
            ],
            cwd=TOP,
            check=True,
        )  # fmt: skip
        server = Server(drive, TOP / 'tests' / 'e2e' / 'kafka.sh')
        disks = [Disk(gib=1, serial=serial) for serial in VDISKS]
        disks.append(Disk(gib=2, serial=OTHER))
        with Testbed(disks, server=server) as self.bed:
            # however it ends: some units of the image lack what they need
            self.say('systemctl', 'is-system-running', '--wait', check=False)
            self.attach('/var/log/cloud-init-output.log')
            self.check_cloud_init()
            self.check_mounts()
            self.check_kafka()

    def say(self, *command, **arguments):
        return self.bed.run(*command, **arguments).out.strip()

    def attach(self, path):
        text = self.say('cat', path)
        self.addDetail(path, content.text_content(text))

    def check_cloud_init(self):
        result = json.loads(self.say('cat', '/run/cloud-init/result.json'))
        self.assertEqual(
            'DataSourceConfigDrive [net,ver=2][source=/dev/sr0]',
            result['v1']['datasource'],
        )
        self.assertEqual([], result['v1']['errors'])

    def check_mounts(self):
        """Check that all vdisks are mounted, and nothing else was touched."""
        wanted = {
            f'/data/{serial}': self.say(
                'realpath', f'/dev/disk/by-id/virtio-{serial}'
            )
            for serial in VDISKS
        }
        mounts = json.loads(self.say('findmnt', '--json', '--type', 'xfs'))
        found = mounts['filesystems']
        self.assertEqual(
            wanted, {mount['target']: mount['source'] for mount in found}
        )
        for mount in found:
            self.assertIn('noatime', mount['options'])
        fstab = self.say('cat', '/etc/fstab')
        for serial in VDISKS:
            self.assertIn(f'/dev/disk/by-id/virtio-{serial} /data/', fstab)
        device = f'/dev/disk/by-id/virtio-{OTHER}'
        self.assertEqual('', self.say('wipefs', '--noheadings', device))

    def check_kafka(self):
        """Check that Kafka has found its directories when it started."""
        directories = [f'/data/{serial}/kafka' for serial in VDISKS]
        self.assertEqual(
            f'log.dirs={",".join(directories)}',
            self.say('cat', '/etc/kafka/conf/server.properties'),
        )
        self.assertEqual('active', self.say('systemctl', 'is-active', 'kafka'))
        for directory in directories:
            self.assertEqual(
                'kafka:kafka',
                self.say('stat', '--format=%U:%G', f'{directory}/started'),
            )
