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


"""Server moves that are aborted, and resizes to another host."""

from tests.e2e import moves_base
from tools.minicloud import checks
from tools.minicloud import moving
from tools.minicloud import process
from tools.storm import moved_server


class OtherMovesTest(moves_base.MovesTestCase):
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
