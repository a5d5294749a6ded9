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


import os

import fixtures
import testtools

from nova_diskplacer.disks import remote


class SessionTestCase(testtools.TestCase):
    """A device of an iSCSI session, as sysfs shows it."""

    def setUp(self):
        super().setUp()
        root = self.useFixture(fixtures.TempDir()).path
        self.sys = os.path.join(root, 'sys')
        self.node = os.path.join(root, 'sdz')
        with open(self.node, 'w'):
            pass
        self.device = os.path.join(root, 'by-path')
        os.symlink(self.node, self.device)
        scsi = 'devices/platform/host3/session1/target3:0:0/3:0:0:0'
        self.disk = f'{self.sys}/{scsi}/block/sdz'
        for directory in (
            self.disk,
            f'{self.sys}/class/block',
            f'{self.sys}/class/iscsi_session/session1',
        ):
            os.makedirs(directory)
        os.symlink(self.disk, f'{self.sys}/class/block/sdz')
        os.symlink(f'{self.sys}/{scsi}', f'{self.disk}/device')
        self.put('device/state', 'running')
        self.limit = f'{self.sys}/class/iscsi_session/session1/recovery_tmo'
        with open(self.limit, 'w') as stream:
            stream.write('120\n')

    def put(self, name, text):
        with open(f'{self.disk}/{name}', 'w') as stream:
            stream.write(text + '\n')

    def read(self):
        with open(self.limit) as stream:
            return stream.read().strip()

    def test_there_or_away(self):
        for state, there in (
            ('running', True),
            ('blocked', False),
            ('transport-offline', False),
            ('offline', False),
        ):
            self.put('device/state', state)
            if there:
                remote.check_there(self.device, self.sys)
            else:
                error = self.assertRaises(
                    remote.Away, remote.check_there, self.device, self.sys
                )
                self.assertIn(state, str(error))
        os.unlink(self.device)
        for call in (
            remote.check_there,
            remote.size_bytes,
            remote.writes,
        ):
            self.assertRaises(remote.Away, call, self.device, self.sys)

    def test_requests_wait_without_a_limit(self):
        remote.keep_waiting(self.device, self.sys)
        self.assertEqual('off', self.read()[:3])
        # what is so is not written again
        for text in ('off', '-1'):
            with open(self.limit, 'w') as stream:
                stream.write(text)
            os.chmod(self.limit, 0o400)
            remote.keep_waiting(self.device, self.sys)
            self.assertEqual(text, self.read())
            os.chmod(self.limit, 0o600)
        # a session that ends
        os.unlink(self.device)
        remote.keep_waiting(self.device, self.sys)

    def test_a_holder_uses_it(self):
        os.makedirs(f'{self.disk}/holders/dm-0')
        self.assertTrue(remote.in_use(self.device, self.sys))

    def test_size(self):
        self.put('size', '2048')
        self.assertEqual(1 << 20, remote.size_bytes(self.device, self.sys))
