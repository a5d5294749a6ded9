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


"""Services and disks that go away and come back."""

import datetime
import json

from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import disks
from tools.minicloud import process
from tools.minicloud.api import ApiError

HOST = 'compute2'
AGENT = f'diskplacer-agent@{HOST}'


class RestartTest(base.TestCase):
    def _boots(self, host=HOST):
        """Check that a server with vdisks can be had; delete it again."""
        server = self.boot('round-robin', host)
        self.assert_mapped(server, 'round-robin')
        self.api.delete_server(server)

    def test_agent_survives_placement_and_rabbitmq(self):
        agent = self.cloud.services[AGENT]
        pid = agent.pid()
        for first, last in (
            ('placement', 'rabbitmq'),
            ('rabbitmq', 'placement'),
        ):
            self.cloud.stop_service(first)
            self.cloud.stop_service(last)
            self.cloud.start_service(first)
            self.cloud.start_service(last)
        begun = datetime.datetime.now(datetime.UTC)
        self.assertEqual(pid, agent.pid())
        # until then Nova may still come to think that a host is down
        self.eventually(
            'reports', lambda: self.cloud.reported_since(begun), 600
        )
        self.eventually('hosts', self.cloud.hosts_ready)
        self._boots()

    def test_agent_starts_before_placement(self):
        self.cloud.stop_service('placement')
        self.addCleanup(self.cloud.start_service, 'placement')
        self.cloud.restart(AGENT)
        pid = self.cloud.services[AGENT].pid()
        self.cloud.start_service('placement')
        self.eventually('report', self._no_host_missing)
        self.assertEqual(pid, self.cloud.services[AGENT].pid())
        self._boots()

    def _no_host_missing(self):
        return self.cloud.map()['missing_hosts'] == []

    def test_nova_compute_leaves_the_disks(self):
        before = self.cloud.disk_providers()
        self.cloud.restart(f'nova-compute@{HOST}')
        self.eventually('hosts', self.cloud.hosts_ready)
        self.assertEqual(before, self.cloud.disk_providers())
        self._boots()

    def test_cinder_volume_with_a_running_server(self):
        host = self.cloud.libvirt_host
        server = self.boot('round-robin', host)
        before = self.disks_of(server)
        self.cloud.restart(f'cinder-volume@{host}')
        self.eventually('hosts', self.cloud.hosts_ready)
        self.api.action(server, reboot={'type': 'HARD'})
        self.api.wait_server(server)
        self.assertEqual(before, self.disks_of(server))
        self.assertEqual(before, checks.by_domain(self.cloud, server))
        self.assert_mapped(server, 'round-robin')


class DiskTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.cloud.state.disk_root(HOST)
        self.disk = sorted(self.root.iterdir())[0]

    def _health(self):
        listed = self.cloud.manage(HOST, 'disk', 'list', '--format', 'json')
        return next(
            disk['health']
            for disk in json.loads(listed)
            if disk['uuid'] == self.disk.name
        )

    def _free_gb(self):
        path = f'/resource_providers/{self.disk.name}/inventories'
        found = self.api.get('placement', path)['inventories']
        inventory = found['CUSTOM_VDISK_GB']
        return inventory['total'] - inventory['reserved']

    def _eventually_unhealthy(self, health):
        def told():
            found = self.cloud.map()['unhealthy_disks']
            return {one['disk']: one['health'] for one in found} == health

        self.eventually(f'unhealthy disks {health}', told)

    def _check_not_offered(self, health):
        self.assertEqual(health, self._health())
        self.eventually('not offered', lambda: self._free_gb() == 0)
        self._eventually_unhealthy({self.disk.name: health})
        # round robin needs all the disks of the host
        server = self.request('round-robin', HOST)
        error = self.assertRaises(ApiError, self.api.wait_server, server)
        self.assertIn('No valid host', str(error))
        self.api.delete_server(server)

    def _check_offered(self):
        self.assertEqual('ok', self._health())
        self.eventually('offered', lambda: self._free_gb() > 0)
        self._eventually_unhealthy({})

    def test_disk_that_disappears_or_goes_read_only(self):
        device = process.run(
            'findmnt', '-no', 'SOURCE', str(self.disk)
        ).strip()
        self._when_idle('umount')
        self.addCleanup(self._mount, device)
        self._check_not_offered('missing')
        self._mount(device)
        self._check_offered()
        self._when_idle('mount', '-o', 'remount,ro')
        self._check_not_offered('read-only')
        process.run('mount', '-o', 'remount,rw', str(self.disk))
        self._check_offered()
        server = self.boot('round-robin', HOST)
        self.assert_mapped(server, 'round-robin')

    def _when_idle(self, *command):
        """Do to the disk what is refused while a file is open there."""

        def done():
            try:
                process.run(*command, str(self.disk))
            except process.ProcessError as error:
                if 'busy' in str(error):
                    return False
                raise
            return True

        self.eventually(' '.join(command), done)

    def _mount(self, device):
        if str(self.disk) not in disks.mount_points(self.cloud.state):
            process.run('mount', '-o', 'noatime', device, str(self.disk))
        else:
            process.run('mount', '-o', 'remount,rw', str(self.disk))
