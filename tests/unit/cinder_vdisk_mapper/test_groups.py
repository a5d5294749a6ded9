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

"""Group snapshots, of disks in memory and servers that are files."""

import contextlib
from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import volume_utils

from cinder_vdisk_mapper import groups
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import fake_libvirt
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.cinder_vdisk_mapper import test_quiesce


class GroupTestCase(test_quiesce.LibvirtTestCase, test_driver.DriverTestCase):
    """Volumes 1 and 2 on disks a and b; both used by server s."""

    def setUp(self):
        super().setUp()
        path = self.useFixture(test_driver.fixtures.TempDir()).path
        self.conf.config(state_path=path)
        self.driver.db = mock.Mock()
        self.driver.db.volume_get_all_by_host.return_value = []
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
        self.server('s')
        self.snapshots = [
            self.snapshot('1', 'a', 's'),
            self.snapshot('2', 'b', 's'),
        ]

    def snapshot(self, id_, disk=None, *servers):
        """Return a snapshot to be of a new volume with the same id."""
        self.volumes[id_] = test_driver.volume(
            id=id_,
            name_id=id_,
            provider_location=disk,
            volume_attachment=[
                test_driver.attachment(one, 'attached') for one in servers
            ],
        )
        if disk:
            self.driver.backend.create(disk, f'volume-{id_}', id_, None, 10)
            self.driver.binder.reserve(disk)
        snapshot = mock.Mock(id=id_, volume_id=id_)
        return snapshot

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
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, self.create
        )
        self.assertIn(reason, str(error))
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual({'s': 1}, self.states())
        self.assertEqual((90, 40), tuple(map(self.placement.room, 'ab')))

    def test_all_while_suspended(self):
        states = []
        self.driver.backend.changed = lambda: states.append(self.states())
        self.snapshots.append(self.snapshot('3'))
        states.clear()
        self.assertEqual(
            (
                {'status': 'available'},
                [
                    {
                        'id': id_,
                        'status': 'available',
                        'provider_location': disk,
                    }
                    for id_, disk in (('1', 'a'), ('2', 'b'), ('3', None))
                ],
            ),
            self.create(),
        )
        self.assertEqual([{'s': 3}] * 2, states)
        self.assertEqual({'s': 1}, self.states())
        self.assertEqual(
            {'volume-1', 'volume-2', 'snapshot-1', 'snapshot-2'},
            self.vdisks(),
        )
        self.assertEqual((80, 30), tuple(map(self.placement.room, 'ab')))

    def test_repeated(self):
        self.create()
        self.create()
        self.assertEqual((80, 30), tuple(map(self.placement.room, 'ab')))

    def test_only_servers_of_the_volumes(self):
        self.server('other')
        self.snapshots.append(self.snapshot('3', None, 'other'))
        with mock.patch.object(fake_libvirt.Domain, 'suspend') as suspend:
            self.create()
        suspend.assert_called_once_with()

    def test_not_consistent(self):
        self.consistent = False
        self.assertRaises(NotImplementedError, self.create)
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_one_disk_refuses(self):
        self.driver.backend.full.add('b')
        self.refused('b is full')

    def test_one_disk_lacks_room(self):
        self.assertTrue(self.placement.claim('other', {'b': 35}))
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, self.create
        )
        self.assertIn(
            'disk b has no room for the group snapshot, which takes 10 GiB '
            'there: 5 GiB',
            str(error),
        )
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_claimed_meanwhile(self):
        def claim():
            self.driver.backend.changed = lambda: None
            self.assertTrue(self.placement.claim('other', {'b': 35}))

        self.driver.backend.changed = claim
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, self.create
        )
        self.assertIn('disk b has no room for the group', str(error))
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual((90, 5), tuple(map(self.placement.room, 'ab')))

    def test_placement_away_afterwards(self):
        def leave():
            self.placement.down = True

        self.driver.backend.changed = leave
        error = self.assertRaises(
            cinder_exc.VolumeDriverException, self.create
        )
        self.assertIn('Placement is down', str(error))
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual({'s': 1}, self.states())

    def test_disk_missing(self):
        self.snapshots.append(self.snapshot('3'))
        self.volumes['3'].provider_location = 'c'
        self.refused('disk c of this host is missing')

    def test_server_refuses(self):
        fake_libvirt.refuses.add('s')
        self.refused('does not suspend server s')

    def test_left_suspended_is_resumed(self):
        with self.driver._quiescer.quiet({'s'}):
            fake_libvirt.refuses.add('s')
        fake_libvirt.refuses.clear()
        self.assertEqual({'s': 3}, self.states())
        self.driver.get_volume_stats(False)
        self.assertEqual({'s': 3}, self.states())
        self.driver.get_volume_stats(True)
        self.assertEqual({'s': 1}, self.states())

    def test_group_of_another(self):
        sources = list(self.volumes.values())
        error = self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.driver.create_group_from_src,
            None,
            mock.Mock(),
            [],
            source_group=mock.Mock(),
            source_vols=sources,
        )
        self.assertIn("its sources ['1', '2'] are in use", str(error))
        for consistent, vols in ((False, sources), (True, []), (True, None)):
            self.consistent = consistent
            self.assertRaises(
                NotImplementedError,
                self.driver.create_group_from_src,
                None,
                mock.Mock(),
                [],
                source_vols=vols,
            )

    def test_undone_after_any_error(self):
        copies = [
            groups.Copy('a', 'volume-1', 'snapshot-1', '1'),
            groups.Copy('b', 'volume-2', 'snapshot-2', '2'),
        ]

        @contextlib.contextmanager
        def interrupted():
            yield
            raise KeyboardInterrupt

        self.assertRaises(
            KeyboardInterrupt,
            groups.snapshot_together,
            self.driver.binder,
            copies,
            interrupted,
        )
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())

    def test_what_cannot_be_undone(self):
        """The first error is told, and deleting the snapshot tries again."""
        self.driver.backend.full.add('b')
        with mock.patch.object(
            self.driver.backend,
            'delete',
            side_effect=exception.DiskError('away'),
        ):
            error = self.assertRaises(
                cinder_exc.VolumeDriverException, self.create
            )
        self.assertIn('b is full', str(error))
        self.assertIn('snapshot-1', self.vdisks())
        self.driver.delete_snapshot(mock.Mock(id='1', provider_location=None))
        self.assertEqual({'volume-1', 'volume-2'}, self.vdisks())
        self.assertEqual((90, 40), tuple(map(self.placement.room, 'ab')))
