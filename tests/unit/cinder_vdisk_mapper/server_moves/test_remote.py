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
import time
from unittest import mock

import fixtures
import testtools
from cinder.volume import volume_utils
from os_brick import exception as brick_exc
from os_brick import privileged
from os_brick.initiator.connectors import iscsi
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.server_moves import remote
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import test_driver

IQN = 'iqn.2010-10.org.openstack:volume-1'
LOCATION = f'192.0.2.1:3260;192.0.2.9:3260,{IQN} {IQN} 0'


class RemoteTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.devices = self.useFixture(fixtures.TempDir()).path
        root = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.links._BY_PATH', self.devices
            )
        )
        self.useFixture(fixtures.MonkeyPatch('time.sleep', lambda _: None))
        self.backend = filesystem.FilesystemBackend(root)
        self.backend.configuration = mock.Mock(num_volume_device_scan_tries=3)
        self.in_use = False
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.remote.in_use',
                lambda device: self.in_use,
            )
        )
        self.connector = mock.Mock()
        patch = mock.patch.object(
            volume_utils, 'brick_get_connector', return_value=self.connector
        )
        patch.start()
        self.addCleanup(patch.stop)
        self.target = remote.target_of(
            test_driver.volume(
                provider_id=LOCATION, provider_auth='CHAP user secret'
            )
        )

    def test_target(self):
        self.assertEqual(
            remote.Target('192.0.2.1:3260', IQN, 0, 'user', 'secret'),
            self.target,
        )
        self.assertNotIn('secret', repr(self.target))

    @property
    def target_fields(self):
        return self.target.portal, self.target.iqn, self.target.lun

    def test_no_target(self):
        for location, auth in (
            ('disk', 'CHAP user secret'),
            ('begun', 'CHAP user secret'),
            (LOCATION, None),
            (LOCATION, 'secret'),
            (None, None),
        ):
            error = self.assertRaises(
                exception.DiskError,
                remote.target_of,
                test_driver.volume(provider_id=location, provider_auth=auth),
            )
            self.assertNotIn('secret', str(error))
            self.assertIsNone(error.__cause__)

    def connect(self, properties):
        """Do as os-brick; the link to the device is there already."""
        self.assertIsNotNone(self.backend.remote_device('volume-1'))
        os.symlink('/dev/null', self.target.device)
        return {'path': '/dev/null'}

    def test_in_and_out(self):
        self.connector.connect_volume.side_effect = self.connect
        remote.log_in(self.backend, 'volume-1', self.target)
        (properties,) = self.connector.connect_volume.call_args.args
        self.assertEqual(
            ('CHAP', 'user', 'secret'),
            tuple(
                properties[f'auth_{name}']
                for name in ('method', 'username', 'password')
            ),
        )
        self.connector.disconnect_volume.side_effect = (
            brick_exc.BrickException('busy')
        )
        self.assertRaises(
            exception.DiskError, remote.log_out, self.backend, 'volume-1'
        )
        # it is still known
        self.assertIsNotNone(self.backend.remote_device('volume-1'))
        self.connector.disconnect_volume.side_effect = None
        for _ in range(2):
            remote.log_out(self.backend, 'volume-1')
            self.assertIsNone(self.backend.remote_device('volume-1'))
        self.assertEqual(2, self.connector.disconnect_volume.call_count)
        properties, _ = self.connector.disconnect_volume.call_args.args
        self.assertEqual(
            ('192.0.2.1:3260', IQN, 0),
            tuple(
                properties[f'target_{name}']
                for name in ('portal', 'iqn', 'lun')
            ),
        )

    def test_open(self):
        """A QEMU that runs on keeps its disk, unless that is lost."""
        self.backend.add_remote('volume-1', *self.target_fields)
        self.in_use = True
        error = self.assertRaises(
            remote.InUse, remote.log_out, self.backend, 'volume-1'
        )
        self.assertIn(self.target.device, str(error))
        self.connector.disconnect_volume.assert_not_called()
        self.assertIsNotNone(self.backend.remote_device('volume-1'))
        remote.log_out(self.backend, 'volume-1', is_lost=True)
        self.connector.disconnect_volume.assert_called_once()
        self.assertIsNone(self.backend.remote_device('volume-1'))

    def test_refused(self):
        self.connector.connect_volume.side_effect = brick_exc.BrickException(
            'node.session.auth.password secret'
        )
        error = self.assertRaises(
            exception.DiskError,
            remote.log_in,
            self.backend,
            'volume-1',
            self.target,
        )
        self.assertNotIn('secret', str(error))
        self.assertTrue(error.__suppress_context__)

    def test_another_device(self):
        """udev has not named it, or the session is not that of the link."""
        self.connector.connect_volume.return_value = {'path': '/dev/zero'}
        with mock.patch.object(remote, '_PATIENCE', 0.0):
            self.assertRaises(
                exception.DiskError,
                remote.log_in,
                self.backend,
                'volume-1',
                self.target,
            )


_ISCSIADM = """#!/bin/sh
case "$*" in
    '-m session') echo "tcp: [1] 192.0.2.1:3260,1 $IQN (non-flash)";;
    '-m node') echo "192.0.2.1:3260,1 $IQN";;
    *--logout*) exec sleep 60;;
esac
"""


class HangingTestCase(testtools.TestCase):
    """os-brick itself, and an iscsiadm whose session does not end."""

    def setUp(self):
        super().setUp()
        parent = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(parent, 'iscsiadm')
        with open(path, 'w') as stream:
            stream.write(_ISCSIADM.replace('$IQN', IQN))
        os.chmod(path, 0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{parent}:{os.environ["PATH"]}'
            )
        )
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        conf.config(lock_path=parent, group='oslo_concurrency')
        self.backend = filesystem.FilesystemBackend(
            self.useFixture(fixtures.TempDir()).path
        )
        self.backend.configuration = mock.Mock(num_volume_device_scan_tries=3)
        # commands run in this process
        self.addCleanup(
            privileged.default.set_client_mode, privileged.default.client_mode
        )
        privileged.default.set_client_mode(False)
        patch = mock.patch.object(
            volume_utils,
            'brick_get_connector',
            lambda protocol, **options: iscsi.ISCSIConnector(
                'sudo', **options
            ),
        )
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_logout_ends(self):
        """Who waits for it gets an error, and what is left is known."""
        self.backend.add_remote('volume-1', '192.0.2.1:3260', IQN, 0)
        began = time.monotonic()
        with mock.patch.object(remote, '_LONGEST', 0.5):
            error = self.assertRaises(
                exception.DiskError, remote.log_out, self.backend, 'volume-1'
            )
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn('volume-1: no logout', str(error))
        self.assertIsNotNone(self.backend.remote_device('volume-1'))
