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
killed while servers move by ``tools/storm.sh --moves``, and hosts are emptied
and lost in ``tests.long``.
"""

from tests.e2e import moves_base
from tools.minicloud import checks
from tools.minicloud import moving
from tools.minicloud import process
from tools.storm import moved_server


class ServerMovesTest(moves_base.MovesTestCase):
    def boot(self, host):
        (server,) = self.boot_all(host, **{moving.NAME: self.flavor})
        return server

    def migrate_live(self, server, host):
        server.migrate_live()
        server.wait_migrated(host)

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

    def test_aborted(self):
        first, second = moved_server.REAL
        server = self.boot(first)
        server.limit_migration(1)
        server.migrate_live()
        server.abort_migration()
        # Nova 34 sets it so, although the guest runs on
        self.api.wait_server(server.uuid, 'ERROR')
        self.assertEqual(first, server.host())
        server.wait_settled(first)
        server.wait_verified()
        self.api.action(server.uuid, **{'os-resetState': {'state': 'active'}})
        server.limit_migration()
        self.migrate_live(server, second)
        server.wait_settled(second)
        server.wait_verified()

    def enable(self, host, status):
        """Have Nova's scheduler choose a host, or not."""
        path = f'/os-services/{self.compute_service(host)["id"]}'
        self.api.call('compute', 'PUT', path, json={'status': status})

    def test_resized_to_more_vdisks_elsewhere(self):
        first, second = moved_server.REAL
        larger = moving.create_flavor(
            self.cloud, 'larger', vdisks=moving.VDISKS + 1
        )
        server = self.boot(first)
        self.enable(first, 'disabled')
        self.addCleanup(self.enable, first, 'enabled')
        for end, host in (('revertResize', first), ('confirmResize', second)):
            told = server.told()
            self.api.action(server.uuid, resize={'flavorRef': larger})
            self.api.wait_server(server.uuid, 'VERIFY_RESIZE')
            self.assertEqual(second, server.host())
            self.assertEqual({first}, server.where())
            server.wait_restarted(told)
            server.wait_verified()
            told = server.told()
            self.api.action(server.uuid, **{end: None})
            server.wait_migrated(host)
            if host == first:
                server.wait_restarted(told)
                server.wait_settled(first)
        process.wait('settled', lambda: server.where() == {second})
        server.wait_verified()
        # the third disk is claimed, for the third vdisk
        self.assertEqual(
            moving.VDISKS + 1,
            sum(checks.claims(self.cloud, server.uuid).values()),
        )
        volume = self.api.create_volume(moving.VDISK_GB)
        self.api.attach(server.uuid, volume)
        self.addCleanup(self.api.delete_volume, volume)
        self.addCleanup(self.api.detach, server.uuid, volume)
        moved_server.Server(self.cloud, server.uuid).wait_settled(second)
