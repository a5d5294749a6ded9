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
        self.assertEqual({}, self._held(self.cloud.libvirt_host))
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

    def test_other_hosts(self):
        """A volume follows its server until somebody writes to it."""
        here = self.boot('plain', 'compute2')
        elsewhere = self.boot('plain', 'compute3')
        volume = self._local_volume(here)
        self.assertIn('compute2@', self._host(volume))
        # unbound, then bound and never written to
        for host, server in (('compute3', elsewhere), ('compute2', here)):
            self.api.attach(server, volume)
            self.assertIn(f'{host}@', self._host(volume))
            self.assertEqual([volume], list(self._held(host)))
            if server == elsewhere:
                self.api.detach(server, volume)
        self.assertEqual({}, self._held('compute3'))
        self._write('compute2', volume)
        self.api.detach(here, volume)
        self._refuse(elsewhere, volume, 'compute2')
        self.api.attach(here, volume)
        self.assertEqual({volume}, set(self.disks_of(here)))

    def _held(self, host):
        """Return the disk of each volume on a host."""
        return checks.by_files(self.cloud, host)

    def _path(self, host, volume):
        disk = self._held(host)[volume]
        root = self.cloud.state.disk_root(host)
        return root / disk / f'vdisks/volume-{volume}'

    def _write(self, host, volume):
        with self._path(host, volume).open('r+b') as stream:
            stream.write(b'content')

    def _refuse(self, server, volume, host):
        """See that a server of another host does not get a volume."""
        body = {'volumeAttachment': {'volumeId': volume}}
        path = f'/servers/{server}/os-volume_attachments'
        self.api.post('compute', path, body)
        log = self.cloud.services[f'cinder-volume@{host}'].log
        self.eventually(
            'refusal in the log',
            lambda: any(
                f'{volume} is on a local disk' in line
                and 'it has content' in line
                for line in log.read_text(errors='replace').splitlines()
            ),
        )
        self.api.wait_volume(volume, 'available')
        self.eventually(
            'nothing attached', lambda: not self.api.attachments(server)
        )

    def _host(self, volume):
        return self.api.volume(volume)['os-vol-host-attr:host']

    def _free_gb(self, host):
        """Return the GiB that cinder-scheduler has for a host's backend."""
        pools = self.api.get(
            'volumev3', '/scheduler-stats/get_pools?detail=true'
        )['pools']
        (free,) = (
            pool['capabilities']['free_capacity_gb']
            for pool in pools
            if pool['name'].startswith(f'{host}@vdisk#')
        )
        return free

    def test_extend(self):
        server = self.boot('plain', 'compute2')
        volume = self._local_volume(server)
        self.api.attach(server, volume)
        self.api.detach(server, volume)
        path = self._path('compute2', volume)
        disk = self._held('compute2')[volume]
        # in a new cloud, cinder-volume has reported before the agent
        self.eventually(
            'free space reported', lambda: self._free_gb('compute2') > 1
        )
        self.api.post(
            'volumev3',
            f'/volumes/{volume}/action',
            {'os-extend': {'new_size': 2}},
        )
        self.api.wait_volume(volume, 'available')
        self.assertEqual(2 * base.GIB, path.stat().st_size)
        self.assertEqual(2 * base.GIB, path.stat().st_blocks * 512)
        self.eventually('reserved', lambda: self._reserved(disk) == 2)
