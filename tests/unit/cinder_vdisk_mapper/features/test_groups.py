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

"""Groups and group snapshots, of disks in memory."""

from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import volume_utils

from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import test_driver


class GroupTestCase(test_driver.DriverTestCase):
    """Volumes 1 and 2 on disks a and b."""

    def setUp(self):
        super().setUp()
        self.consistent = True
        self.volumes = {}
        for target, name, new in (
            (
                volume_utils,
                'is_group_a_cg_snapshot_type',
                lambda _: self.consistent,
            ),
            (
                objects.Volume,
                'get_by_id',
                lambda _, volume_id: self.volumes[volume_id],
            ),
        ):
            patch = mock.patch.object(target, name, new)
            patch.start()
            self.addCleanup(patch.stop)
        self.snapshots = [self.snapshot('1', 'a'), self.snapshot('2', 'b')]

    def snapshot(self, id_, disk=None):
        """Return a snapshot to be of a new volume with the same id."""
        self.volumes[id_] = test_driver.volume(
            id=id_,
            name_id=id_,
            provider_location=disk,
            volume_attachment=[test_driver.attachment('old', 'detached')],
        )
        if disk:
            self.driver.backend.create(disk, f'volume-{id_}', id_, None, 10)
            self.driver.operations.reserve(disk)
        return mock.Mock(id=id_, volume_id=id_, provider_location=disk)

    def attach(self, volume_id, server='s'):
        self.volumes[volume_id].volume_attachment.append(
            test_driver.attachment(server)
        )

    def create(self):
        return self.driver.create_group_snapshot(
            None, mock.Mock(), self.snapshots
        )

    def vdisks(self):
        return {
            vdisk.name
            for disk in self.driver.backend.disks()
            for vdisk in disk.vdisks
        }

    def refused(self, reason):
        self.assertRaises(cinder_exc.VolumeDriverException, self.create)
        self.assertIn(reason, self.log.output)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual((90, 40), tuple(map(self.placement.room_of, 'ab')))

    def test_all(self):
        self.snapshots.append(self.snapshot('3'))
        self.assertEqual(
            (
                {'status': 'available'},
                [
                    {
                        'id': id_,
                        'status': 'available',
                        'provider_location': disk,
                        'provider_id': disk or 'unbound',
                    }
                    for id_, disk in (('1', 'a'), ('2', 'b'), ('3', None))
                ],
            ),
            self.create(),
        )
        self.assertEqual(
            {'volume-1', 'volume-2', 'snapshot-1', 'snapshot-2'},
            self.vdisks(),
        )
        self.assertEqual((80, 30), tuple(map(self.placement.room_of, 'ab')))

    def test_repeated(self):
        self.create()
        self.create()
        self.assertEqual((80, 30), tuple(map(self.placement.room_of, 'ab')))

    def test_attached(self):
        for server in ('s', None):
            self.attach('2', server)
            self.refused("its volumes ['2'] are attached")
            self.volumes['2'].volume_attachment.pop()
        self.create()

    def test_attached_though_without_bytes(self):
        self.snapshots.append(self.snapshot('3'))
        self.attach('3')
        self.refused("its volumes ['3'] are attached")

    def test_attached_meanwhile(self):
        self.driver.backend.changed = lambda: self.attach('1')
        self.refused("its volumes ['1'] are attached")

    def test_not_consistent(self):
        self.consistent = False
        self.assertRaises(NotImplementedError, self.create)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_one_disk_refuses(self):
        self.driver.backend.full.add('b')
        self.refused('b is full')

    def test_one_disk_lacks_room(self):
        self.assertTrue(self.placement.claim('other', {'b': 35}))
        self.assertRaises(cinder_exc.VolumeDriverException, self.create)
        self.assertIn(
            'disk b has no room for the group snapshot, which takes 10 GiB '
            'there: 5 GiB',
            self.log.output,
        )
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_claimed_meanwhile(self):
        def claim():
            self.driver.backend.changed = lambda: None
            self.assertTrue(self.placement.claim('other', {'b': 35}))

        self.driver.backend.changed = claim
        self.assertRaises(cinder_exc.VolumeDriverException, self.create)
        self.assertIn('disk b has no room for the group', self.log.output)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual((90, 5), tuple(map(self.placement.room_of, 'ab')))

    def test_placement_away_afterwards(self):
        def leave():
            self.placement.down = True

        self.driver.backend.changed = leave
        self.assertRaises(cinder_exc.VolumeDriverException, self.create)
        self.assertIn('Placement is down', self.log.output)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_disk_missing(self):
        self.snapshots.append(self.snapshot('3'))
        self.volumes['3'].provider_location = 'c'
        self.refused('disk c of this host is missing')

    def copies(self):
        """Return the volumes of a new group."""
        return [
            test_driver.volume(id=f'c{id_}', name_id=f'c{id_}')
            for id_ in self.volumes
        ]

    def copy_volumes(self):
        return self.driver.create_group_from_src(
            None,
            mock.Mock(),
            self.copies(),
            source_group=mock.Mock(),
            source_vols=list(self.volumes.values()),
        )

    def test_group_of_another(self):
        self.snapshot('3')
        update, volumes = self.copy_volumes()
        self.assertIsNone(update)
        self.assertEqual(
            [
                {'id': 'c1', **naming.created(), **naming.bound_to('a')},
                {'id': 'c2', **naming.created(), **naming.bound_to('b')},
                {'id': 'c3', **naming.created()},
            ],
            volumes,
        )

    def test_group_of_another_that_is_attached(self):
        self.attach('1')
        self.assertRaises(cinder_exc.VolumeDriverException, self.copy_volumes)
        self.assertIn("its volumes ['1'] are attached", self.log.output)
        self.consistent = False
        self.copy_volumes()
        self.assertIn('volume-c1', self.vdisks())

    def test_group_of_a_group_snapshot(self):
        self.create()
        self.attach('1')
        _, volumes = self.driver.create_group_from_src(
            None, mock.Mock(), self.copies(), mock.Mock(), self.snapshots
        )
        self.assertEqual(
            ['a', 'b'], [volume['provider_location'] for volume in volumes]
        )

    def test_without_volumes(self):
        self.assertEqual(
            {'status': 'available'},
            self.driver.create_group(None, mock.Mock()),
        )
        self.assertEqual(
            (None, None, None),
            self.driver.update_group(None, mock.Mock(), [mock.Mock()], []),
        )

    def delete(self):
        return self.driver.delete_group(
            None, mock.Mock(), list(self.volumes.values())
        )

    def test_delete(self):
        self.snapshot('3')
        for _ in range(2):
            self.assertEqual(
                (
                    {'status': 'deleted'},
                    [{'id': id_, 'status': 'deleted'} for id_ in '123'],
                ),
                self.delete(),
            )
            self.assertEqual(set(), self.vdisks())

    def test_what_cannot_be_deleted(self):
        self.volumes['1'].provider_location = 'c'
        update, volumes = self.delete()
        self.assertEqual({'status': 'error_deleting'}, update)
        self.assertEqual(
            ['error_deleting', 'deleted'],
            [volume['status'] for volume in volumes],
        )
        self.assertEqual({'volume-1'}, self.vdisks())

    def test_delete_snapshots(self):
        self.create()
        update, _ = self.driver.delete_group_snapshot(
            None, mock.Mock(), self.snapshots
        )
        self.assertEqual({'status': 'deleted'}, update)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_undone_after_any_error(self):
        def interrupted():
            raise KeyboardInterrupt

        self.driver.backend.changed = interrupted
        self.assertRaises(KeyboardInterrupt, self.create)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_what_cannot_be_undone(self):
        """The first error is told, and deleting the snapshot tries again."""
        self.driver.backend.full.add('b')
        with mock.patch.object(
            self.driver.backend,
            'delete',
            side_effect=exception.DiskError('away'),
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, self.create)
        self.assertIn('b is full', self.log.output)
        self.assertIn('snapshot-1', self.vdisks())
        self.driver.delete_snapshot(mock.Mock(id='1', provider_location=None))
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual((90, 40), tuple(map(self.placement.room_of, 'ab')))
