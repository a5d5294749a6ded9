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

Two hosts have real guests, and a guest writes to its vdisk and verifies it all
the time. Two have fake guests, for cold migration: Nova copies the root disk
of a real one by SSH. In place of iSCSI there is ``tools.minicloud.iscsi``.
Programs are killed while servers move by ``tools/storm.sh --moves``.
"""

import atexit
import datetime
import pathlib
import tempfile
import typing

import testtools

from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import moved_server


class ServerMovesTest(testtools.TestCase):
    cloud: typing.ClassVar[Cloud]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.mkdtemp(
            prefix='diskplacer-moves-', dir='/var/tmp'
        )
        cls.cloud = Cloud(
            pathlib.Path(directory), moved_server.HOSTS, say=base.say
        )
        base.end_at_sigterm()
        atexit.register(cls.cloud.stop)
        cls.addClassCleanup(atexit.unregister, cls.cloud.stop)
        cls.addClassCleanup(cls.cloud.stop)
        cls.cloud.start()
        cls.image = moving.create_image(cls.cloud)
        cls.flavor = moving.create_flavor(cls.cloud)

    def setUp(self):
        super().setUp()
        self.api = self.cloud.api
        begun = str(datetime.datetime.now())
        self.addOnException(lambda _: base.say(self.cloud.errors(begun)))

    def boot(self, host):
        uuid = self.api.create_server(
            moving.NAME, self.flavor, self.image, host=host
        )
        self.addCleanup(self.api.delete_server, uuid)
        self.api.wait_server(uuid)
        return moved_server.Server(self.cloud, uuid)

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
        server.wait_verified()
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
        server.wait_verified()
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

    def test_cold_reverted_and_confirmed(self):
        first, second = moved_server.FAKE
        server = self.boot(first)
        root = self.cloud.state.disk_root(first)
        contents = {}
        for volume in server.volumes:
            (path,) = root.glob(f'*/vdisks/volume-{volume}')
            contents[volume] = f'content of {volume}'.encode()
            with path.open('r+b') as file:
                file.write(contents[volume])
        for end, host in (('revertResize', first), ('confirmResize', second)):
            self.api.action(server.uuid, migrate={'host': second})
            self.api.wait_server(server.uuid, 'VERIFY_RESIZE')
            self.assertEqual({first}, server.where())
            self.assert_contents(second, contents)
            self.api.action(server.uuid, **{end: None})
            process.wait(
                end,
                lambda: (
                    server.is_idle()
                    and self.api.server(server.uuid)['status'] == 'ACTIVE'
                ),
            )
            self.assertEqual(host, server.host())
            server.wait_settled(host)
            self.assert_contents(host, contents)

    def assert_contents(self, host, contents):
        root = self.cloud.state.disk_root(host)
        for volume, content in contents.items():
            link = root / f'by-volume/volume-{volume}'
            with link.open('rb') as file:
                self.assertEqual(content, file.read(len(content)))
