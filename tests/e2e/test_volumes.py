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


"""Volumes attached to a running server."""

from tests.e2e import base
from tools.minicloud import checks


class VolumesTest(base.TestCase):
    def _local_volume(self, server):
        return self.api.create_volume(1, local_to_instance=server)

    def test_hot_plugged_vdisks_spread(self):
        server = self.boot('plain', self.cloud.libvirt_host)
        volumes = [self._local_volume(server) for _ in range(2)]
        self.assertEqual(
            {}, checks.by_files(self.cloud, self.cloud.libvirt_host)
        )
        for volume in volumes:
            self.api.attach(server, volume)
        disks = self.disks_of(server)
        self.assertEqual(set(volumes), set(disks))
        self.assertEqual(2, len(set(disks.values())))
        self.assertEqual(disks, checks.by_domain(self.cloud, server))
        self.eventually(
            'map', lambda: self.statuses(server) == ['unclaimed'] * 2
        )
        for disk in disks.values():
            self.eventually(
                f'{disk} is reserved',
                lambda disk=disk: self._reserved(disk) == 1,
            )
        for volume in volumes:
            self.api.detach(server, volume)
            self.api.delete_volume(volume)
        self.assertEqual({}, self.disks_of(server))
        for disk in disks.values():
            self.eventually(
                f'{disk} is free', lambda disk=disk: not self._reserved(disk)
            )

    def _reserved(self, disk):
        path = f'/resource_providers/{disk}/inventories'
        found = self.api.get('placement', path)['inventories']
        return found['CUSTOM_VDISK_GB']['reserved']

    def test_other_hosts_are_refused(self):
        here = self.boot('plain', 'compute2')
        elsewhere = self.boot('plain', 'compute3')
        volume = self._local_volume(here)
        self.assertIn('compute2@', self._host(volume))
        body = {'volumeAttachment': {'volumeId': volume}}
        path = f'/servers/{elsewhere}/os-volume_attachments'
        self.api.post('compute', path, body)
        log = self.cloud.services['cinder-volume@compute2'].log
        self.eventually(
            'refusal in the log',
            lambda: any(
                "can be attached there only, not on host 'compute3'" in line
                for line in log.read_text(errors='replace').splitlines()
            ),
        )
        self.api.wait_volume(volume, 'available')
        self.eventually(
            'nothing attached', lambda: not self.api.attachments(elsewhere)
        )
        self.api.attach(here, volume)
        self.assertEqual({volume}, set(self.disks_of(here)))

    def _host(self, volume):
        return self.api.volume(volume)['os-vol-host-attr:host']

    def test_extend(self):
        server = self.boot('plain', 'compute2')
        volume = self._local_volume(server)
        self.api.attach(server, volume)
        self.api.detach(server, volume)
        (disk,) = checks.by_files(self.cloud, 'compute2').values()
        self.api.post(
            'volumev3',
            f'/volumes/{volume}/action',
            {'os-extend': {'new_size': 2}},
        )
        self.api.wait_volume(volume, 'available')
        path = (
            self.cloud.state.disk_root('compute2')
            / disk
            / f'vdisks/volume-{volume}'
        )
        self.assertEqual(2 * base.GIB, path.stat().st_size)
        self.assertEqual(2 * base.GIB, path.stat().st_blocks * 512)
        self.eventually('reserved', lambda: self._reserved(disk) == 2)
