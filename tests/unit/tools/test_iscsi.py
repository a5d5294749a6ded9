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


"""What a killed cinder-volume has left of targets and sessions."""

import os
import pathlib
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg

from tools.minicloud import iscsi
from tools.minicloud import state as states

PORTAL = '127.0.0.1:3260'
IQN = 'iqn.2026-11.org.example:volume-1'
PROPERTIES = {
    'target_iqn': IQN,
    'target_portal': PORTAL,
    'auth_username': 'user',
    'auth_password': 'secret',
}


class Killed(BaseException):
    """The process is killed."""


class IscsiTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = states.State(self.top)
        self.state.save()
        self.targets = iscsi.Targets(self.state)
        self.targets._directory.mkdir()
        self.patch('tools.minicloud.iscsi._state', lambda: self.state)

    def patch(self, name, value):
        self.useFixture(fixtures.MonkeyPatch(name, value))


class TargetsTest(IscsiTestCase):
    def test_nothing_of_a_target_stays_whose_server_was_killed(self):
        self.targets.socket(IQN).touch()
        self.targets.remove(IQN)
        self.assertEqual([], os.listdir(self.top / 'targets'))


class SessionsTest(IscsiTestCase):
    def setUp(self):
        super().setUp()
        self.loops = {}
        self.patch('tools.minicloud.disks.attach', self.attach)
        self.patch('tools.minicloud.disks.attached', self.attached)
        self.patch('tools.minicloud.process.run', self.run_program)
        self.patch('tools.minicloud.fuse.mount', mock.Mock())
        self.device = self.top / 'by-path' / 'device'
        self.patch(
            'nova_diskplacer.disks.links.device_of',
            lambda *_: str(self.device),
        )
        conf = self.useFixture(fixtures.MockPatchObject(cfg, 'CONF')).mock
        conf.host = 'compute1'
        self.targets._write(IQN, iscsi.Target(PORTAL))
        self.targets.admit(IQN, 'fake', 'user', 'secret')
        self.connector = iscsi.Connector('sudo')

    def attach(self, file):
        path = self.top / f'loop{len(self.loops)}'
        path.touch()
        self.loops[str(path)] = file
        return str(path)

    def attached(self, file):
        return [path for path, one in self.loops.items() if one == file]

    def run_program(self, *argv):
        del self.loops[argv[-1]]
        return ''

    def killed_after(self, name):
        """Kill this process when it has called what has a name."""
        module, name = name.split('.')
        done = getattr(getattr(iscsi, module), name)

        def call(*args):
            done(*args)
            raise Killed

        return fixtures.MonkeyPatch(f'tools.minicloud.{module}.{name}', call)

    def connect(self):
        return self.connector.connect_volume(PROPERTIES)['path']

    def disconnect(self):
        self.connector.disconnect_volume(PROPERTIES, None)
        self.assertFalse(self.device.is_symlink())
        self.assertEqual([], os.listdir(self.top / 'sessions'))

    def test_a_login_is_gone_on_with(self):
        for name in ('fuse.mount', 'disks.attach'):
            with self.killed_after(name):
                self.assertRaises(Killed, self.connect)
            path = self.connect()
            self.assertEqual([path], [*self.loops])
            self.assertEqual(path, os.path.realpath(self.device))
            self.assertEqual(path, self.connect())
            self.disconnect()
            self.assertEqual({}, self.loops)

    def test_a_login_is_undone(self):
        for name in ('fuse.mount', 'disks.attach'):
            with self.killed_after(name):
                self.assertRaises(Killed, self.connect)
            self.disconnect()
            self.assertEqual({}, self.loops)

    def test_a_logout_is_gone_on_with(self):
        self.connect()
        with self.killed_after('process.run'):
            self.assertRaises(Killed, self.disconnect)
        other = self.attach(self.top / 'other')
        self.assertEqual(other, os.path.realpath(self.device))
        self.disconnect()
        self.assertEqual([other], [*self.loops])
