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

"""The filter and its report listener in a process patched by eventlet."""

from eventlet import patcher

from tests.functional.nova import base


class SchedulerTestCase(base.CloudTestCase):
    hosts_count = 2
    disks_count = 4

    def setUp(self):
        super().setUp()
        self.assertTrue(patcher.is_monkey_patched('thread'))
        self.vdisks = self.flavor(vdisks=2, vdisk_gb=600)

    def test_requests_at_once_take_distinct_disks(self):
        servers = [
            self.api.post_server(self.request(self.vdisks)) for _ in range(4)
        ]
        self.assert_distinct_disks(servers, [600] * 2)
        for server in servers:
            self._delete_server(server)
        self.assert_unused()

    def test_reports_are_heard_between_requests(self):
        self.assert_claims(self.boot(self.vdisks), [600] * 2)
        for disk in self.hosts['host0'].disks.values():
            disk.health = 'read-only'
            self.hosts['host0'].publish(disk)
        self.report()
        small = self.flavor(vdisks=1, vdisk_gb=10)
        for _ in range(2):
            server = self.boot(small)
            self.assert_claims(server, [10])
            self.assertEqual('host1', self.host_of(server).name)

    def test_others_are_served_while_a_request_waits_for_reports(self):
        for host in self.hosts.values():
            host.reporting = False
        waiting = self.api.post_server(self.request(self.vdisks))
        plain = self._create_flavor(memory_mb=512, vcpu=1, disk=1, ephemeral=0)
        self.assertEqual({}, self.claims(self.boot(plain)['id']))
        self.assertEqual('BUILD', self.api.get_server(waiting['id'])['status'])
        for host in self.hosts.values():
            host.reporting = True
        self.agents.send()
        self.assert_claims(self.settled(waiting), [600] * 2)
