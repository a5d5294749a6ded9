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

"""A migration between hosts copies over iSCSI, by Cinder's own target."""

import os
import pathlib
import subprocess
import time
import uuid

import fixtures
import os_brick.privileged
import testtools
from cinder import context
from cinder import objects
from cinder import privsep as cinder_privsep
from cinder.volume import configuration
from cinder.volume import volume_types
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import driver
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.placement import client as placement_client
from tests import shell
from tests.testbed.lvm import base
from tests.testbed.server_moves import database
from tests.testbed.server_moves import iscsi
from tools.testbed import udev

objects.register_all()

MIB = 1 << 20
INCLUDES = pathlib.Path('/etc/tgt/conf.d/diskplacer-test.conf')


class ExportTestCase(testtools.TestCase):
    """Vdisks in files; whoever inherits from it has logical volumes."""

    lvm_options = None

    def setUp(self):
        super().setUp()
        self.context = context.get_admin_context()
        self.path = self.useFixture(fixtures.TempDir(rootdir='/root')).path
        for one in (
            os_brick.privileged.default,
            cinder_privsep.sys_admin_pctxt,
        ):
            one.set_client_mode(False)
            self.addCleanup(one.set_client_mode, True)
        self._start_target()
        iscsi.start_initiator(
            'iqn.2016-04.com.example:source', self.addCleanup
        )
        targets = os.path.join(self.path, 'targets')
        INCLUDES.parent.mkdir(parents=True, exist_ok=True)
        INCLUDES.write_text(f'include {targets}/*\n')
        self.addCleanup(INCLUDES.unlink)
        self.driver = self._driver(targets)
        self.disk = self._disk()
        self.volume = self._volume()
        # there is no Placement here
        for where, name in (
            (placement_client.PlacementClient, 'from_conf'),
            (operations.VDiskOperations, 'reserve'),
        ):
            self.useFixture(fixtures.MockPatchObject(where, name))

    def _start_target(self):
        daemon = subprocess.Popen(['tgtd', '-f'])
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        deadline = time.monotonic() + 180
        while not self._target_listens():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)

    def _target_listens(self):
        command = ['tgtadm', '--lld', 'iscsi', '--mode', 'target']
        done = subprocess.run([*command, '--op', 'show'], capture_output=True)
        return done.returncode == 0

    def _driver(self, targets):
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        conf.config(lock_path=self.path, group='oslo_concurrency')
        database.use(self)
        made = driver.VDiskMapperDriver(
            host='target@vdisk',
            configuration=configuration.Configuration(
                [], config_group='backend_defaults'
            ),
        )
        conf.config(
            group='backend_defaults',
            target_helper='tgtadm',
            target_ip_address='127.0.0.1',
            volumes_dir=targets,
            vdisk_disk_root=os.path.join(self.path, 'disks'),
            vdisk_backend='lvm' if self.lvm_options else 'filesystem',
        )
        made.do_setup(None)
        return made

    def _disk(self):
        device = base.spare_devices()[0]
        base.erase(device)
        self.addCleanup(base.erase, device)
        fstab = os.path.join(self.path, 'fstab')
        root = os.path.join(self.path, 'disks')
        disk = prepare.prepare(
            root,
            device,
            medium='hdd',
            fstab=fstab,
            lvm_options=self.lvm_options,
        )
        self.addCleanup(prepare.forget, root, disk.uuid, fstab)
        return disk.uuid

    def _volume(self):
        volume_type = volume_types.create(self.context, str(uuid.uuid4()))
        volume = objects.Volume(
            self.context,
            display_name='copy',
            host='target@vdisk#vdisk',
            volume_type_id=volume_type.id,
            size=1,
            status='available',
            attach_status='detached',
            migration_status=f'target:{uuid.uuid4()}',
            provider_location=self.disk,
            use_quota=False,
        )
        volume.create()
        return volume

    def _targets(self):
        return shell.run('tgt-admin', '--show').count('Target ')

    def test_copied_over_iscsi(self):
        name = f'volume-{self.volume.id}'
        self.driver.backend.create(
            self.disk, name, self.volume.id, None, self.volume.size
        )
        self.addCleanup(self.driver.backend.delete, self.disk, name)
        self.addCleanup(udev.settle)
        connector = volume_utils.brick_get_connector_properties()
        connector['host'] = 'source'
        self.volume.update(
            self.driver.create_export(self.context, self.volume, connector)
        )
        self.volume.save()
        self.assertEqual(1, self._targets())
        self.assertEqual(self.disk, self.volume.provider_location)
        connection = self.driver.initialize_connection(self.volume, connector)
        self.assertEqual('iscsi', connection['driver_volume_type'])
        initiator = volume_utils.brick_get_connector(
            connection['driver_volume_type'], conn=connection
        )
        device = initiator.connect_volume(connection['data'])
        try:
            content = os.urandom(MIB)
            base.write(device['path'], content, 512 * MIB)
            # the whole vdisk is there, and no more
            size = shell.run('blockdev', '--getsize64', device['path'])
            self.assertEqual(1 << 30, int(size))
        finally:
            initiator.disconnect_volume(connection['data'], device)
            self.driver.terminate_connection(self.volume, connector)
            self.driver.remove_export(self.context, self.volume)
        self.assertEqual(0, self._targets())
        self.assertFalse(naming.is_exported(self.volume))
        path = self.driver.local_path(self.volume)
        self.assertEqual(content, base.read(path, MIB, 512 * MIB))
        self.assertEqual(bytes(MIB), base.read(path, MIB, 0))


class LVMExportTestCase(ExportTestCase):
    lvm_options = lvm_prepare.Options(thin=True, zero=False)

    def test_killed_while_it_was_exported(self):
        name = f'volume-{self.volume.id}'
        self.driver.backend.create(
            self.disk, name, self.volume.id, None, self.volume.size
        )
        self.addCleanup(self.driver.backend.delete, self.disk, name)
        self.addCleanup(udev.settle)
        self.driver.create_export(
            self.context, self.volume, {'host': 'source'}
        )
        self.assertEqual('begun', self.volume.provider_id)
        self.assertEqual(1, self._targets())
        self.driver.ensure_export(self.context, self.volume)
        self.assertEqual(0, self._targets())
        self.assertFalse(naming.is_exported(self.volume))
