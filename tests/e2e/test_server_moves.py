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


"""Servers that move between hosts, with the data of their vdisks.

Each of two hosts has real guests, which write to their vdisks and verify
them all the time. In place of iSCSI is ``tools.minicloud.iscsi``. Programs are
killed while servers move by ``tools/storm.sh --moves``. Moves that are
aborted, resizes to another host, and hosts that are emptied and lost are in
``tests.long``.
"""

from tests.e2e import moves_base
from tools.minicloud import checks
from tools.storm import moved_server


class ServerMovesTest(moves_base.MovesTestCase):
    def assert_claims(self, server, host):
        files = server.files(host)
        self.assertEqual(set(server.volumes), set(files))
        self.assertEqual(
            dict.fromkeys(files.values(), 1),
            checks.claims(self.cloud, server.uuid),
        )

    def test_live_and_back_and_elsewhere(self):
        first, second = moved_server.REAL
        server = self.boot(first)
        self.cloud.stop_service(f'{moved_server.SETTLER}@{second}')
        self.migrate_live(server, second)
        server.wait_verified()
        # both hosts have the vdisks, and the server claims disks of one
        self.assertEqual({first}, server.where())
        self.assert_claims(server, second)
        self.assertEqual(set(server.volumes), set(server.files(first)))
        # it starts from the disks of the first one
        told = server.told()
        self.api.action(server.uuid, reboot={'type': 'HARD'})
        self.api.wait_server(server.uuid)
        server.wait_restarted(told)
        self.cloud.start_service(f'{moved_server.SETTLER}@{second}')
        server.wait_settled(second)
        server.wait_verified()
        # QEMU opens what its data was copied to again
        self.migrate_live(server, first)
        server.wait_settled(first)
        server.wait_verified()
        told = server.told()
        self.api.action(server.uuid, shelve=None)
        self.api.wait_server(server.uuid, 'SHELVED_OFFLOADED')
        self.api.call(
            'compute',
            'POST',
            f'/servers/{server.uuid}/action',
            json={'unshelve': {'host': second}},
            headers={'OpenStack-API-Version': 'compute 2.91'},
        )
        self.api.wait_server(server.uuid)
        self.assertEqual(second, server.host())
        server.wait_restarted(told)
        server.wait_settled(second)
        server.wait_verified()
