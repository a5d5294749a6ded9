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

"""Consistency groups, of disks in memory."""

from unittest import mock

from cinder_vdisk_mapper import names
from tests.unit.cinder_vdisk_mapper import test_driver


class ConsistencyGroupTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.volumes = [
            test_driver.volume(
                id=id_, name_id=id_, provider_location=disk, status='deleting'
            )
            for id_, disk in (('1', 'a'), ('2', 'b'), ('3', None))
        ]
        for volume in self.volumes[:2]:
            self.put(names.volume(volume), volume)

    def put(self, name, owner):
        disk = owner.provider_location
        self.driver.backend.create(disk, name, owner.id, None, 10)

    def names(self):
        """Return the names of all vdisks."""
        return sorted(
            vdisk.name
            for disk in self.driver.backend.known.values()
            for vdisk in disk.vdisks
        )

    def snapshots(self):
        found = [
            mock.Mock(
                id=f's{volume.id}', provider_location=volume.provider_location
            )
            for volume in self.volumes
        ]
        for snapshot in found[:2]:
            self.put(names.snapshot(snapshot), snapshot)
        return found

    def copies(self):
        return [
            test_driver.volume(id=f'c{id_}', name_id=f'c{id_}')
            for id_ in (1, 2, 3)
        ]

    def test_without_volumes(self):
        self.assertEqual(
            {'status': 'available'},
            self.driver.create_consistencygroup(None, mock.Mock()),
        )
        self.assertEqual(
            (None, None, None),
            self.driver.update_consistencygroup(
                None, mock.Mock(), self.volumes, []
            ),
        )

    def test_delete(self):
        for _ in range(2):
            self.assertEqual(
                (
                    {'status': 'deleted'},
                    [{'id': id_, 'status': 'deleted'} for id_ in '123'],
                ),
                self.driver.delete_consistencygroup(
                    None, mock.Mock(), self.volumes
                ),
            )
            self.assertEqual([], self.names())

    def test_what_cannot_be_deleted(self):
        self.volumes[0].provider_location = 'c'
        update, volumes = self.driver.delete_consistencygroup(
            None, mock.Mock(), self.volumes
        )
        self.assertEqual({'status': 'error_deleting'}, update)
        self.assertEqual(
            ['error_deleting', 'deleted', 'deleted'],
            [volume['status'] for volume in volumes],
        )
        self.assertEqual(['volume-1'], self.names())

    def test_from_snapshots(self):
        update, volumes = self.driver.create_consistencygroup_from_src(
            None, mock.Mock(), self.copies(), mock.Mock(), self.snapshots()
        )
        self.assertIsNone(update)
        self.assertEqual(
            [
                {'id': 'c1', 'provider_location': 'a'},
                {'id': 'c2', 'provider_location': 'b'},
                {'id': 'c3'},
            ],
            volumes,
        )
        self.assertIn('volume-c1', self.names())

    def test_from_volumes(self):
        _, volumes = self.driver.create_consistencygroup_from_src(
            None,
            mock.Mock(),
            self.copies(),
            source_cg=mock.Mock(),
            source_vols=self.volumes,
        )
        self.assertEqual(
            ['a', 'b', None],
            [volume.get('provider_location') for volume in volumes],
        )
        self.assertEqual(
            ['volume-1', 'volume-2', 'volume-c1', 'volume-c2'], self.names()
        )

    def test_delete_snapshots(self):
        snapshots = self.snapshots()
        update, _ = self.driver.delete_cgsnapshot(None, mock.Mock(), snapshots)
        self.assertEqual({'status': 'deleted'}, update)
        self.assertEqual(['volume-1', 'volume-2'], self.names())
