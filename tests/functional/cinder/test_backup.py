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

"""Backups, through Cinder's API and cinder-backup."""

import os

from cinder import objects
from oslo_config import cfg

from nova_diskplacer.disks import discover
from tests.functional.cinder import test_snapshots

CONF = cfg.CONF
CONF.import_opt('backup_driver', 'cinder.backup.manager')
CONF.import_opt('backup_posix_path', 'cinder.backup.drivers.posix')
CONF.import_opt('backup_compression_algorithm', 'cinder.backup.chunkeddriver')


class BackupTestCase(test_snapshots.SnapshotTestCase):
    def setUp(self):
        super().setUp()
        self.without_sudo()
        self.override_config(
            'backup_driver', 'cinder.backup.drivers.posix.PosixBackupDriver'
        )
        self.override_config(
            'backup_posix_path', os.path.join(self.host.root, '../backups')
        )
        self.override_config('backup_compression_algorithm', 'zstd')
        self.backup = self.start_service(
            'backup', host='host1', service_name='backup'
        )
        self.backup.manager.publish_service_capabilities(self.context)
        host_manager = self.scheduler.manager.driver.host_manager
        self.wait_until(
            lambda: host_manager.backup_service_states,
            'the scheduler knows of cinder-backup',
        )

    def status(self, backup_id):
        """Return the status of a backup."""
        return objects.Backup.get_by_id(self.context, backup_id).status

    def back_up(self, volume, **fields):
        """Back a volume up and return the backup's ID."""
        backup_id = self.api.api_post(
            '/backups', {'backup': {'volume_id': volume['id'], **fields}}
        )['backup']['id']
        self.wait_until(
            lambda: self.status(backup_id) != 'creating', 'backed up'
        )
        self.assertEqual('available', self.status(backup_id))
        return backup_id

    def restore(self, backup_id, volume=None):
        """Restore a backup and return the volume."""
        body = {'volume_id': volume['id']} if volume else {'name': 'new'}
        restored = self.api.api_post(
            f'/backups/{backup_id}/restore',
            {'restore': body},
            check_response_status=[202],
        )['restore']['volume_id']
        self.wait_until(
            lambda: self.status(backup_id) == 'available', 'restored'
        )
        return self.wait(restored, 'available')

    def assertRestored(self, volume, content, gib=1):
        """A volume is as backed up, all allocated and reserved."""
        attachment, path = self.attach(volume, self.server())
        self.assertEqual(content, self.read(path))
        self.assertAllocated(path, gib)
        self.detach(volume, attachment)
        self.host.publish()
        held = {
            uuid: sum(vdisk.size_gb for vdisk in disk.vdisks)
            for uuid, disk in self.host.disks().items()
        }
        self.assertEqual(held, self.host.reserved())

    def test_bound(self):
        volume, path = self.bound()
        backup_id = self.back_up(volume)
        self.write(path, b'two')
        self.assertRestored(self.restore(backup_id, volume), b'one')
        self.write(path, b'two')
        self.restored_while_drained(backup_id, volume, path)

    def restored_while_drained(self, backup_id, volume, path):
        """The volume keeps its size on a disk that is being drained.

        It is larger than the backup, to whose size its file is truncated.
        """
        self.extend(volume, 2)
        self.wait(volume['id'], 'available')
        drained = self.where(volume)
        discover.set_draining(self.host.root, drained, True)
        self.host.publish()
        reserved = self.host.reserved()
        self.assertEqual(
            self.host.disks()[drained].total_gb, reserved[drained]
        )
        self.restore(backup_id, volume)
        self.assertEqual(b'one', self.read(path))
        self.assertAllocated(path, 2)
        self.extend(volume, 3)
        self.wait(volume['id'], 'error_extending')
        self.assertIn(
            f'disk {drained} is being drained, and cannot extend '
            f'volume-{volume["id"]} from 2 to 3 GiB',
            self.log.output,
        )
        self.assertAllocated(path, 2)
        self.assertEqual(reserved, self.host.reserved())

    def extend(self, volume, size):
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'os-extend': {'new_size': size}},
        )

    def test_unbound(self):
        volume = self.create(1, hints=self.hints)
        backup_id = self.back_up(volume)
        self.assertRestored(self.restore(backup_id, volume), b'\0\0\0')
        # which binds one of any host that has cinder-backup
        target = self.create(1, hints=self.hints)
        self.assertRestored(self.restore(backup_id, target), b'\0\0\0')

    def test_attached_and_snapshot(self):
        volume, path = self.bound()
        snapshot = self.snapshot(volume)
        self.write(path, b'two')
        of_snapshot = self.back_up(volume, snapshot_id=snapshot.id)
        attachment, _ = self.attach(volume, self.server_id)
        in_use = self.back_up(volume, force=True)
        self.detach(volume, attachment)
        # without what it was backed up from
        self.wait_until(lambda: self.reserved() == 2, 'copies are deleted')
        self.assertRestored(self.restore(of_snapshot, volume), b'one')
        self.assertRestored(self.restore(in_use, volume), b'two')
