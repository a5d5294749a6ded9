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

"""Volumes whose move ended before Cinder's database knew."""

import os
from unittest import mock

from cinder import objects
from oslo_db import exception as db_exc

from tests.functional.cinder import test_migration


class LinkTestCase(test_migration.MigrationTestCase):
    """Volumes of the HDDs' backend with a link that leads to the SSD.

    ``one`` is what they held before the move, ``two`` what a server has
    written since, which has opened the link.
    """

    def moved(self):
        """Return such a volume, and the disk that the database names."""
        volume, path = self.bound()
        recorded = self.where(volume)
        save = objects.Volume.save

        def fail(row):
            if 'provider_location' in row.obj_what_changed():
                raise db_exc.DBError
            save(row)

        with mock.patch.object(objects.Volume, 'save', fail):
            self.api.api_post(
                f'/volumes/{volume["id"]}/action',
                {'os-migrate_volume': {'host': test_migration.SSD}},
                check_response_status=[202],
            )
            self.wait_until(
                lambda: os.path.realpath(self.link(volume)) != path,
                'the link leads to the SSD',
            )
            manager = self.volume[0].manager
            self.wait_until(
                lambda: not self.is_locked(volume), 'the migration has failed'
            )
        self.assertTrue(manager.driver.initialized)
        row = self.row(volume)
        row.migration_status = None
        row.save()
        self.assertEqual(
            (recorded, test_migration.HDD), (row.provider_location, row.host)
        )
        self.assertCountEqual([recorded, self.ssd], self.disks_of(volume))
        self.write(self.link(volume), b'two')
        return volume, recorded

    def is_locked(self, volume):
        directory = test_migration.base.CONF.oslo_concurrency.lock_path
        return os.path.exists(f'{directory}/vdisk-volume-{volume["id"]}')

    def row(self, volume):
        return objects.Volume.get_by_id(self.context, volume['id'])

    def link(self, volume):
        return f'{self.host.root}/by-volume/volume-{volume["id"]}'

    def assertHolds(self, volume, content=b'two', gib=1):
        """A server sees this, on the disk that the database names."""
        attachment, path = self.attach(volume, self.server_id)
        self.assertEqual(content, self.read(path))
        self.assertAllocated(path, gib)
        self.assertEqual(self.ssd, self.row(volume).provider_location)
        self.assertTrue(path.startswith(f'{self.host.root}/{self.ssd}/'))
        self.detach(volume, attachment)

    def test_operations(self):
        """Each is done to the disk of the link, and corrects the database."""
        # one cloud for all, as it takes longest to start
        for operation in (
            self.extend,
            self.copy,
            self.snapshot_and_revert,
            lambda volume: None,
        ):
            volume, _ = self.moved()
            operation(volume)
            self.delete(volume)
            self.assertEqual({}, self.held())
            self.assertFalse(os.path.lexists(self.link(volume)))

    def extend(self, volume):
        self.api.api_post(
            f'/volumes/{volume["id"]}/action', {'os-extend': {'new_size': 2}}
        )
        self.wait(volume['id'], 'available')
        self.assertHolds(volume, gib=2)

    def copy(self, volume):
        clone = self.post(size=1, source_volid=volume['id'])
        self.assertHolds(clone)
        self.delete(clone)
        # what a local attachment writes, as that of cinder-backup
        row = self.row(volume)
        row.provider_location = row.provider_id = self.disks_of(volume)[0]
        row.save()
        driver = self.volume[0].manager.driver
        info, row = driver._attach_volume(
            self.context, self.row(volume), {'host': 'host1'}
        )
        self.write(info['device']['path'], b'new')
        driver._detach_volume(self.context, info, row, {'host': 'host1'})
        self.assertHolds(volume, b'new')

    def snapshot_and_revert(self, volume):
        snapshot = self.snapshot(volume)
        self.assertEqual(self.ssd, snapshot.provider_location)
        self.write(self.link(volume), b'new')
        self.revert(volume, snapshot)
        self.assertHolds(volume)
        self.delete_snapshot(snapshot)

    def test_start_and_migrate(self):
        volume, recorded = self.moved()
        self.volume[0].stop()
        # one that cannot be settled does not keep cinder-volume from starting
        with mock.patch.object(
            objects.Volume, 'save', side_effect=db_exc.DBError
        ):
            self.volume[0] = self.start_backend('vdisk')
        self.assertEqual(recorded, self.row(volume).provider_location)
        self.assertCountEqual([recorded, self.ssd], self.disks_of(volume))
        self.volume[0].stop()
        self.volume[0] = self.start_backend('vdisk')
        self.assertEqual(self.ssd, self.row(volume).provider_location)
        self.assertEqual([self.ssd], self.disks_of(volume))
        self.assertHolds(volume)
        self.delete(volume)
        # the disk is of the other backend, and the volume goes there
        volume, _ = self.moved()
        row = self.migrate(volume, test_migration.SSD)
        self.assertEqual(
            (test_migration.SSD, self.ssd), (row.host, row.provider_location)
        )
        self.assertEqual([self.ssd], self.disks_of(volume))
        self.assertHolds(volume)
        row = self.migrate(volume, test_migration.HDD)
        self.assertIn(row.provider_location, self.disks)
        self.delete(volume)
        self.assertEqual({}, self.held())
