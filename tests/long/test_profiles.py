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


"""From a profile on a flavor to the queues of the host's disks."""

import os
import signal

from nova_diskplacer.disks import identity
from nova_diskplacer.host import block_queue
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import queue_policy
from tests.e2e import base


class ProfilesTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.profiles = catalogue.load()

    def flavor(self, profile, vdisks):
        """Return the id of a new flavor that has a profile applied."""
        name = f'{profile}-{vdisks}'
        flavor = self.api.create_flavor(
            name, vdisks=vdisks, vdisk_gb=1, media='ssd'
        )
        self.addCleanup(self.api.delete, 'compute', f'/flavors/{flavor}')
        command = ('profile', 'apply', profile, name)
        shown = self.cloud.manage(self.host, *command)
        self.assertIn('Nothing is changed without --yes', shown)
        self.assertNotIn('diskplacer:profile', self.specs(flavor))
        self.cloud.manage(self.host, *command, '--yes')
        self.assertEqual(
            self.profiles[profile].name,
            self.specs(flavor)['diskplacer:profile'],
        )
        return flavor

    def specs(self, flavor):
        path = f'/flavors/{flavor}/os-extra_specs'
        return self.api.get('compute', path)['extra_specs']

    def boot_with(self, profile, vdisks):
        server = self.api.create_server(
            profile,
            self.flavor(profile, vdisks),
            self.cloud.image,
            host=self.host,
        )
        self.api.wait_server(server)
        return server

    def devices(self, server=None):
        """Return the devices of a server's disks, or of all of the host."""
        root = self.cloud.state.disk_root(self.host)
        uuids = (
            self.disks_of(server).values()
            if server
            else filter(identity.is_uuid, os.listdir(root))
        )
        numbers = [os.stat(root / uuid).st_dev for uuid in uuids]
        links = [
            f'/sys/dev/block/{os.major(number)}:{os.minor(number)}'
            for number in numbers
        ]
        return {os.path.basename(os.path.realpath(link)) for link in links}

    def settings(self, devices):
        return {
            device: dict(block_queue.read(device).values) for device in devices
        }

    def tuned(self, before, device, *profiles):
        """Return whether a device is as the profiles want, and what it is."""
        wanted = queue_policy.merge_profiles(
            [self.profiles[profile] for profile in profiles], 'ssd'
        )
        now = block_queue.read(device)
        target = queue_policy.target_settings(
            wanted, before[device], now.schedulers, now.depth
        )
        return target == dict(now.values)

    def test_tuned_and_restored(self):
        before = self.settings(self.devices())
        hadoop = self.boot_with('hadoop', 4)
        mine = self.devices(hadoop)
        self.assertEqual(4, len(mine))
        self.eventually(
            'disks tuned',
            lambda: all(
                self.tuned(before, device, 'hadoop') for device in mine
            ),
        )
        for device in mine:
            self.assertEqual(
                '1024', block_queue.read(device).values['read_ahead_kb']
            )
        others = before.keys() - mine
        self.assertEqual(4, len(others))
        # two profiles on one disk
        interactive = self.boot_with('interactive', 1)
        (shared,) = self.devices(interactive)
        self.eventually(
            'shared disk tuned',
            lambda: self.tuned(before, shared, 'hadoop', 'interactive'),
        )
        now = block_queue.read(shared).values
        self.assertEqual('mq-deadline', now['scheduler'])
        self.assertEqual('1024', now['read_ahead_kb'])
        for device in mine - {shared}:
            self.assertTrue(self.tuned(before, device, 'hadoop'))
        self.assertEqual(
            {device: before[device] for device in others},
            self.settings(others),
        )
        self.api.delete_server(interactive)
        self.eventually(
            'shared disk as the other server wants it',
            lambda: self.tuned(before, shared, 'hadoop'),
        )
        # the last one leaves while there is no agent
        agent = f'diskplacer-agent@{self.host}'
        os.kill(self.cloud.services[agent].pid(), signal.SIGKILL)
        self.api.delete_server(hadoop)
        self.assertTrue(self.tuned(before, shared, 'hadoop'))
        self.cloud.restart(agent)
        self.eventually(
            'queues restored',
            lambda: self.settings(before) == before,
        )
