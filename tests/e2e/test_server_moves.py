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
"""

import atexit
import datetime
import pathlib
import re
import tempfile
import typing

import testtools

from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import moving

REAL = moving.REAL
FAKE = moving.FAKE
HOSTS = moving.HOSTS
SETTLER = moving.SETTLER


class ServerMovesTest(testtools.TestCase):
    cloud: typing.ClassVar[Cloud]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.mkdtemp(
            prefix='diskplacer-moves-', dir='/var/tmp'
        )
        cls.cloud = Cloud(pathlib.Path(directory), HOSTS, say=base.say)
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
        self.server = self.api.create_server(
            'moving', self.flavor, self.image, host=host
        )
        self.addCleanup(self.api.delete_server, self.server)
        self.api.wait_server(self.server)
        self.volumes = self.api.attachments(self.server)

    def eventually(self, what, ready, timeout=300):
        process.wait(what, ready, timeout, 1)

    def numbers(self, word):
        """Return the numbers that the guest has told of something."""
        console = self.api.console(self.server)
        self.assertNotIn('guest: WRONG', console)
        return [
            int(one) for one in re.findall(f'guest: {word} ([0-9]+)', console)
        ]

    def assert_verifies(self):
        """Wait until the guest has verified what it writes from now on."""
        before = max(self.numbers('checked'), default=0)
        self.eventually(
            'verified',
            lambda: max(self.numbers('checked'), default=0) > before + 1,
            base.GUEST_TIMEOUT,
        )

    def host(self):
        return self.api.server(self.server)['OS-EXT-SRV-ATTR:host']

    def is_idle(self):
        return self.api.server(self.server)['OS-EXT-STS:task_state'] is None

    def migrate_live(self, host):
        self.api.action(
            self.server,
            **{'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )
        self.eventually(
            f'server on {host}',
            lambda: self.host() == host and self.is_idle(),
            base.GUEST_TIMEOUT,
        )
        self.api.wait_server(self.server)

    def restart(self):
        """Reboot the server hard: it finds all that it has told of."""
        told = max(self.numbers('checked'))
        self.api.action(self.server, reboot={'type': 'HARD'})
        self.api.wait_server(self.server)
        self.assert_restarted(told)

    def assert_restarted(self, told):
        """Wait until the guest has started from what it told of, or later."""
        self.eventually(
            'restarted',
            lambda: max(self.numbers('was at'), default=-1) >= told,
            base.GUEST_TIMEOUT,
        )

    def where(self):
        """Return the hosts that Cinder has the volumes on."""
        return {
            self.api.volume(volume)['os-vol-host-attr:host'].partition('@')[0]
            for volume in self.volumes
        }

    def files(self, host):
        """Return {volume: disk} of the server's vdisks on a host's disks."""
        return {
            volume: disk
            for volume, disk in checks.by_files(self.cloud, host).items()
            if volume in self.volumes
        }

    def assert_settles(self, host):
        """Wait until the vdisks are on a host alone, where it claims them."""
        self.eventually(
            'settled', lambda: self.where() == {host}, base.GUEST_TIMEOUT
        )
        others = [one.name for one in HOSTS if one.name != host]
        self.eventually(
            'released',
            lambda: not any(self.files(other) for other in others),
        )
        self.assert_claims(host)

    def assert_claims(self, host):
        files = self.files(host)
        self.assertEqual(set(self.volumes), set(files))
        self.assertEqual(
            dict.fromkeys(files.values(), 1),
            checks.claims(self.cloud, self.server),
        )

    def assert_nothing_left(self):
        """Check that no export, session, target and record is left."""
        state = self.cloud.state
        left = [
            *(state.path / 'targets').glob('*'),
            *(state.path / 'sessions').glob('*'),
        ]
        for host in HOSTS:
            root = state.disk_root(host.name)
            left += root.glob('remote/*')
        self.assertEqual([], left)

    def test_live_and_back_and_elsewhere(self):
        first, second = REAL
        self.boot(first)
        self.assert_verifies()
        self.cloud.stop_service(f'{SETTLER}@{second}')
        self.migrate_live(second)
        self.assert_verifies()
        # both hosts have the vdisks, and the server claims disks of one
        self.assertEqual({first}, self.where())
        self.assert_claims(second)
        self.assertEqual(set(self.volumes), set(self.files(first)))
        # it starts from the disks of the first one
        self.restart()
        self.cloud.start_service(f'{SETTLER}@{second}')
        self.assert_settles(second)
        self.assert_verifies()
        self.assert_nothing_left()
        # QEMU opens what its data was copied to again
        self.migrate_live(first)
        self.assert_settles(first)
        self.assert_verifies()
        self.assert_nothing_left()
        told = max(self.numbers('checked'))
        self.api.action(self.server, shelve=None)
        self.api.wait_server(self.server, 'SHELVED_OFFLOADED')
        self.api.call(
            'compute',
            'POST',
            f'/servers/{self.server}/action',
            json={'unshelve': {'host': second}},
            headers={'OpenStack-API-Version': 'compute 2.91'},
        )
        self.api.wait_server(self.server)
        self.assertEqual(second, self.host())
        self.assert_restarted(told)
        self.assert_settles(second)
        self.assert_verifies()
        self.assert_nothing_left()

    def test_aborted(self):
        first, second = REAL
        self.boot(first)
        server = moving.Server(self.cloud, self.server)
        server.wait_verified()
        server.limit_migration(1)
        server.migrate_live()
        server.abort_migration()
        # Nova 34 sets it so, although the guest runs on
        self.api.wait_server(self.server, 'ERROR')
        self.assertEqual(first, server.host())
        server.wait_settled(first)
        server.wait_verified()
        self.api.action(self.server, **{'os-resetState': {'state': 'active'}})
        server.limit_migration()
        self.migrate_live(second)
        server.wait_settled(second)
        server.wait_verified()

    def test_cold_reverted_and_confirmed(self):
        first, second = FAKE
        self.boot(first)
        root = self.cloud.state.disk_root(first)
        contents = {}
        for volume in self.volumes:
            (path,) = root.glob(f'*/vdisks/volume-{volume}')
            contents[volume] = f'content of {volume}'.encode()
            with path.open('r+b') as file:
                file.write(contents[volume])
        for end, host in (('revertResize', first), ('confirmResize', second)):
            self.api.action(self.server, migrate={'host': second})
            self.api.wait_server(self.server, 'VERIFY_RESIZE')
            self.assertEqual({first}, self.where())
            self.assert_contents(second, contents)
            self.api.action(self.server, **{end: None})
            self.eventually(
                end,
                lambda: (
                    self.is_idle()
                    and self.api.server(self.server)['status'] == 'ACTIVE'
                ),
            )
            self.assertEqual(host, self.host())
            self.assert_settles(host)
            self.assert_contents(host, contents)
            self.assert_nothing_left()

    def assert_contents(self, host, contents):
        root = self.cloud.state.disk_root(host)
        for volume, content in contents.items():
            link = root / f'by-volume/volume-{volume}'
            with link.open('rb') as file:
                self.assertEqual(content, file.read(len(content)))
