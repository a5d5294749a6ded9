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

"""Many servers with vdisks are booted at once."""

import concurrent.futures
import threading

from tests.functional.nova import base

SERVERS = 32
VDISKS = 4


class RaceTestCase(base.CloudTestCase):
    """Separate requests, real threads, and just enough disks for all.

    Nova runs in its native threading mode with its databases and Placement's
    in SQLite files (WAL), so API, conductor, scheduler and Placement serve
    requests in parallel; only writes to one database take turns, as they do
    in Nova's own functional tests.
    """

    hosts_count = 4
    disks_count = 8
    disk = {'total_gb': 400}

    def setUp(self):
        super().setUp()
        # 4 hosts x 8 disks x 4 vdisks of a disk / 4 vdisks of a server = 32
        self.servers_flavor = self.flavor(vdisks=VDISKS, vdisk_gb=100)

    def boot_at_once(self, number):
        """Boot servers from one thread each; {server: status}."""
        barrier = threading.Barrier(number)
        requests = [self.request(self.servers_flavor) for _ in range(number)]

        def boot(request):
            barrier.wait()
            return self.api.post_server(request)

        with concurrent.futures.ThreadPoolExecutor(number) as pool:
            created = list(pool.map(boot, requests))
        return {server['id']: self.settled(server) for server in created}

    def check(self, servers):
        """Check claims of all servers; the failed ones and why."""
        claimed = {}
        failed = []
        for server_id, server in servers.items():
            if server['status'] == 'ACTIVE':
                claims = self.claims(server_id)
                self.assertEqual(
                    [server['OS-EXT-SRV-ATTR:host']], list(claims)
                )
                (disks,) = claims.values()
                self.assertEqual(VDISKS, len(disks))
                for disk, resources in disks.items():
                    self.assertEqual({base.GB: 100}, resources)
                    claimed[disk] = claimed.get(disk, 0) + 100
            else:
                self.assertEqual('ERROR', server['status'])
                self.assertIn('No valid host', server['fault']['message'])
                self.assertEqual({}, self.allocations(server_id))
                failed.append(server_id)
        for host in self.hosts.values():
            for disk in host.disks.values():
                self.assertEqual(
                    claimed.get(disk.uuid, 0), host.used(disk)[base.GB]
                )
        self.assert_not_oversold()
        return failed

    def test_boots_at_once(self):
        self.report()
        servers = self.boot_at_once(SERVERS)
        failed = self.check(servers)
        print(
            f'{SERVERS - len(failed)} of {SERVERS} concurrent boots '
            'succeeded at the first try',
            flush=True,
        )
        rounds = 0
        while failed:
            rounds += 1
            self.assertLess(rounds, 10, 'retries do not succeed')
            for server_id in failed:
                self.api.delete_server(server_id)
                del servers[server_id]
            servers.update(self.boot_at_once(len(failed)))
            failed = self.check(servers)
        self.assertEqual(SERVERS, len(servers))
        self.refuse(self.servers_flavor)
        self.check(servers)
