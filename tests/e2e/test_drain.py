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

"""A disk is emptied under a server that writes and verifies, on the cloud."""

import json
import pathlib
import re

from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import guest
from tools.minicloud import hypervisor

# MiB that a guest with fio needs.
RAM = 512
INIT = pathlib.Path(__file__).with_name('verifying-init')


class DrainTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.libvirt_host
        kernel, initramfs = guest.build_with_user_data(
            files={
                'init': INIT.read_bytes(),
                **guest.program_files(pathlib.Path('/usr/bin/fio')),
            }
        )
        self.image = self.cloud.create_guest_image(
            'verifying', kernel, initramfs, **guest.DRIVE_PROPERTIES
        )
        medium = self.cloud.hosts[0].media[0]
        self.flavor = self.api.create_flavor(
            'drained',
            ram=RAM,
            vdisks=1,
            vdisk_gb=1,
            mapping='round_robin',
            media=medium,
        )
        self.addCleanup(self.api.delete, 'compute', f'/flavors/{self.flavor}')

    def drain(self, disk, *options, status=0):
        """Run the command and return what it prints as JSON."""
        printed = self.cloud.manage(
            self.host,
            'disk',
            'drain',
            disk,
            '--format=json',
            f'--libvirt-uri={hypervisor.uri(self.cloud.state, self.host)}',
            self.conf(),
            *options,
            allowed=(status,),
        )
        return json.loads(printed)

    def conf(self):
        path = self.cloud.state.host_dir(self.host) / 'cinder.conf'
        return f'--cinder-config-file={path}'

    def numbers(self, word):
        """Return the numbers that the guest has told of something."""
        console = self.api.console(self.server)
        self.assertNotIn('guest: WRONG', console)
        return [
            int(one) for one in re.findall(f'guest: {word} ([0-9]+)', console)
        ]

    def assert_verifies(self):
        """Wait until the guest has verified what it writes from now on.

        That is the round after the one that it is in.
        """
        before = max(self.numbers('checked'), default=0)
        self.eventually(
            'verified',
            lambda: max(self.numbers('checked'), default=0) > before + 1,
            base.GUEST_TIMEOUT,
        )

    def assert_restarted(self, **action):
        """Restart the server: it finds all that it has been told of."""
        told = max(self.numbers('checked'))
        for name, argument in action.items():
            self.api.action(self.server, **{name: argument})
            self.api.wait_server(
                self.server, 'SHUTOFF' if name == 'os-stop' else 'ACTIVE'
            )
            if name == 'os-stop':
                self.cold()
        self.eventually(
            'restarted', lambda: self.numbers('was at'), base.GUEST_TIMEOUT
        )
        self.assertLessEqual(told, self.numbers('was at')[-1])
        self.assert_verifies()

    def cold(self):
        """Empty the disk while the server is stopped."""
        disk = self.disk()
        self.drain(disk)
        self.assert_moved(disk)
        self.drain(disk, '--cancel')

    def disk(self):
        (disk,) = self.disks_of(self.server).values()
        return disk

    def assert_moved(self, disk):
        """Check that the vdisk is on one other disk alone, with its claim."""
        root = self.cloud.state.disk_root(self.host)
        (path,) = root.glob(f'*/vdisks/volume-{self.volume}')
        self.assertNotEqual(disk, checks.disk_of(path))
        link = root / f'by-volume/volume-{self.volume}'
        self.assertEqual(path.resolve(), link.resolve())
        self.assertLessEqual(base.GIB, path.stat().st_blocks * 512)
        self.assertEqual(
            {checks.disk_of(path): 1}, checks.claims(self.cloud, self.server)
        )
        self.assertNotIn(disk, checks.claims(self.cloud, self.server))

    def snapshot(self):
        body = {'snapshot': {'volume_id': self.volume, 'force': True}}
        made = self.api.post('volumev3', '/snapshots', body)['snapshot']['id']
        path = f'/snapshots/{made}'
        self.eventually(
            'snapshot',
            lambda: (
                self.api.get('volumev3', path)['snapshot']['status']
                == 'available'
            ),
        )
        return path

    def test_server_on_a_disk_that_is_emptied(self):
        self.server = self.api.create_server(
            'drained', self.flavor, self.image, host=self.host
        )
        self.api.wait_server(self.server)
        (self.volume,) = self.api.attachments(self.server)
        self.assert_verifies()
        disk = self.disk()
        planned = self.drain(disk, '--plan')
        self.assertEqual([f'volume-{self.volume}'], list(planned['moves']))
        self.assertEqual({disk: 1}, checks.claims(self.cloud, self.server))
        self.drain(disk)
        self.assert_moved(disk)
        self.assert_verifies()
        # the path that Nova has stored is true
        self.assert_restarted(reboot={'type': 'HARD'})
        self.drain(disk, '--cancel')
        # and stays so where the vdisk moves while the server is stopped
        self.assert_restarted(**{'os-stop': None, 'os-start': None})
        snapshot = self.snapshot()
        stays = self.drain(self.disk(), status=3)['stays']
        self.assertIn('snapshot', stays[f'volume-{self.volume}'])
        self.drain(self.disk(), '--cancel')
        self.api.delete('volumev3', snapshot)
        self.assert_verifies()
        self.api.delete_server(self.server)
        self.eventually('volume gone', lambda: not self.api.volumes())
        root = self.cloud.state.disk_root(self.host)
        for left in ('*/vdisks/*', 'by-volume/*', 'moves/*', '*.draining'):
            self.assertEqual([], [*root.glob(left)])
        audited = self.cloud.manage(
            self.host, 'disk', 'audit', '--format=json', self.conf()
        )
        self.assertEqual([], json.loads(audited)['findings'])
