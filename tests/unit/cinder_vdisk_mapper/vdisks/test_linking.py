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


import contextlib
import dataclasses
from unittest import mock

import fixtures
import testtools
from cinder import exception as cinder_exc
from cinder import objects
from cinder.privsep import format_inspector
from cinder.volume import volume_utils
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture
from oslo_db import exception as db_exc

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks import records
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from tests.fakes.disks import make_disk
from tests.fakes.disks import make_vdisk
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver

NAME = 'volume-1'


class Volume:
    """A volume; ``saved`` is its disk in the database."""

    id = name_id = '1'

    def __init__(self, disk):
        self.provider_location = self.provider_id = self.saved = disk

    def refresh(self):
        self.provider_location = self.saved

    def save(self):
        self.saved = self.provider_location


class LinkingTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')
        self.volume = Volume('a')

    def backend(self, *holding, **healths):
        return fakes.Backend(
            *(
                make_disk(
                    uuid,
                    health=healths.get(uuid, 'ok'),
                    held=[make_vdisk('1', None, 1)] if uuid in holding else [],
                )
                for uuid in 'ab'
            )
        )

    def test_the_first_attachment_makes_a_link(self):
        backend = self.backend('a')
        path = linking.stable_path(backend, self.volume)
        self.assertEqual('/disks/by-volume/volume-1', path)
        self.assertEqual({NAME: 'a'}, backend.linked)

    def test_each_attachment_chooses_what_it_leads_to(self):
        backend = self.backend('a')
        for asked, is_to_device in (
            (None, False),
            (True, True),
            (None, True),
            (False, False),
            (None, False),
        ):
            linking.stable_path(backend, self.volume, to_device=asked)
            self.assertEqual(is_to_device, NAME in backend.to_devices)
            self.assertEqual({NAME: 'a'}, backend.linked)

    def test_what_was_moved_since_it_was_read(self):
        backend = self.backend('b')
        self.volume.saved = 'b'
        linking.stable_path(backend, self.volume)
        self.assertEqual({NAME: 'b'}, backend.linked)
        self.assertEqual('b', self.volume.provider_location)

    def test_an_interrupted_move_is_finished(self):
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual('b', self.volume.saved)
        self.assertEqual({NAME: 'b'}, backend.linked)

    def test_a_link_that_a_killed_move_has_parked(self):
        for saved in 'ab':
            for use in (linking.stable_path, linking.where):
                backend = self.backend('a', 'b')
                backend.link('b', NAME)
                backend.parked.add(NAME)
                self.volume.provider_location = self.volume.saved = saved
                use(backend, self.volume)
                self.assertEqual(set(), backend.parked)
                self.assertEqual('b', self.volume.saved)

    def test_a_link_that_leads_nowhere(self):
        backend = self.backend('a')
        backend.link('b', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual('a', self.volume.saved)
        self.assertEqual({NAME: 'a'}, backend.linked)

    def test_the_disk_of_the_link_may_come_back(self):
        backend = self.backend('a', b='missing')
        backend.link('b', NAME)
        error = self.assertRaises(
            exception.DiskError, linking.stable_path, backend, self.volume
        )
        self.assertIn('disk b, which is missing', str(error))
        self.assertEqual({NAME: 'b'}, backend.linked)

    def test_the_disk_of_the_link_was_forgotten(self):
        backend = self.backend('a')
        backend.link('c', NAME)
        linking.stable_path(backend, self.volume)
        self.assertEqual({NAME: 'a'}, backend.linked)

    def where(self, backend):
        found = str(linking.where(backend, self.volume)) or None
        self.assertEqual(found, self.volume.saved)
        self.assertEqual(found, self.volume.provider_location)
        return found

    def test_where_without_a_link(self):
        for saved in ('a', 'b', 'a,b', None):
            # since it was read
            self.volume.saved = saved
            self.assertEqual(saved, self.where(self.backend('a', 'b')))

    def test_where_the_link_leads(self):
        for recorded in ('a', 'b'):
            for linked in ('a', 'b'):
                self.volume = Volume(recorded)
                backend = self.backend('a', 'b')
                backend.link(linked, NAME)
                self.assertEqual(linked, self.where(backend))
                self.assertEqual(linked, self.volume.provider_id)

    def test_where_an_extension_was_interrupted(self):
        """What is not zeroed yet is the volume all the same."""
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        backend.interrupted = True
        self.assertRaises(exception.DiskError, backend.extend, 'b', NAME, 2)
        self.assertEqual('b', self.where(backend))

    def test_where_the_link_leads_nowhere(self):
        for linked in ('b', 'c'):
            backend = self.backend('a')
            backend.link(linked, NAME)
            self.assertEqual('a', self.where(backend))

    def test_where_is_not_known(self):
        for health in ('missing', 'hung'):
            backend = self.backend('a', b=health)
            backend.link('b', NAME)
            self.assertRaises(
                exception.DiskError, linking.where, backend, self.volume
            )
            self.assertEqual('a', self.volume.saved)

    def test_a_volume_that_is_handed_over_is_not_bound(self):
        self.volume.saved = None
        backend = self.backend('a')
        backend.link('a', NAME)
        self.assertIsNone(self.where(backend))

    def test_an_export_is_kept(self):
        self.volume.provider_id = '192.0.2.1:3260'
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        self.assertEqual('b', self.where(backend))
        self.assertEqual('192.0.2.1:3260', self.volume.provider_id)

    def test_the_lock_is_held_while_it_is_read(self):
        holders = []

        def refresh():
            with contextlib.suppress(exception.DiskPlacerError):
                with locks.hold('volume-1', wait=False):
                    holders.append('nobody')

        self.volume.refresh = refresh
        linking.where(self.backend('a'), self.volume)
        self.assertEqual([], holders)

    def test_the_database_does_not_answer(self):
        # its error has the statement, which no user may read
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        for method in ('refresh', 'save'):
            with mock.patch.object(
                Volume, method, side_effect=db_exc.DBError('away')
            ):
                for call in (linking.where, linking.stable_path):
                    self.volume = Volume('a')
                    error = self.assertRaises(
                        exception.DiskError, call, backend, self.volume
                    )
                    self.assertEqual('away', str(error))
        self.assertEqual(Location('b'), linking.where(backend, self.volume))

    def test_a_start_does_not_wait(self):
        backend = self.backend('a', 'b')
        backend.link('b', NAME)
        with locks.hold('volume-1'):
            self.assertRaises(
                exception.DiskPlacerError,
                linking.stable_path,
                backend,
                self.volume,
                wait=False,
            )


class _Entries(test_driver.DriverTestCase):
    """Volume ``id`` of 10 GiB: disk a is recorded, the link leads to b."""

    def setUp(self):
        super().setUp()
        self.backend = self.driver.backend
        self.volume = test_driver.volume(
            provider_location='a',
            provider_id='a',
            volume_type_id=None,
            status='available',
            group_id=None,
        )
        for disk, text in (('a', 'old'), ('b', 'new')):
            self.backend.create(disk, 'volume-id', 'id', None, 10)
            self.backend.content[disk, 'volume-id'] = text
            self.driver.operations.reserve(disk)
        self.backend.link('b', 'volume-id')
        self.other = test_driver.volume(id='other', name_id='other')
        self.snapshot = mock.Mock(
            id='s', volume=self.volume, volume_id='id', provider_location='b'
        )

    def operations_of_cinder(self):
        """Return those that begin with where the volume is."""
        return (
            self.snap,
            self.group_snap,
            self.clone,
            self.extend,
            self.restored,
            self.connect,
            self.connect_without_export,
            self.migrate,
            self.migrated,
            self.unmanage,
            self.delete,
        )

    def on(self, disk):
        """Return the vdisks of a disk, {name: GiB}."""
        return {
            vdisk.name: vdisk.size_gb
            for vdisk in self.backend.known[disk].vdisks
        }

    def snap(self):
        return self.driver.create_snapshot(self.snapshot)

    def group_snap(self):
        with (
            mock.patch.object(
                objects.Volume, 'get_by_id', lambda *_: self.volume
            ),
            mock.patch.object(
                volume_utils, 'is_group_a_cg_snapshot_type', return_value=True
            ),
        ):
            return self.driver.create_group_snapshot(
                None, mock.Mock(), [self.snapshot]
            )

    def clone(self):
        return self.driver.create_cloned_volume(self.other, self.volume)

    def extend(self):
        self.driver.extend_volume(self.volume, 20)

    def revert(self):
        self.backend.snapshot('b', 'volume-id', 'snapshot-s', 's')
        self.backend.content['b', 'snapshot-s'] = 'frozen'
        self.driver.revert_to_snapshot(None, self.volume, self.snapshot)

    def restored(self):
        self.volume.status = 'restoring-backup'
        self.volume.size = 20
        self.driver.remove_export(None, self.volume)

    def connect(self):
        self.export(self.volume)
        return self.driver.initialize_connection(
            self.volume, {'host': 'node'}
        )['data']

    def connect_without_export(self):
        return self.driver.initialize_connection(
            self.volume, {'host': 'node'}
        )['data']

    def start(self):
        self.driver.update_provider_info([self.volume], [])

    def start_in_use(self):
        self.volume.volume_attachment = [test_driver.attachment('s')]
        self.driver.ensure_export(None, self.volume)

    def migrate(self):
        location = self.driver._location._replace(media='hdd')
        return self.driver.migrate_volume(
            None,
            self.volume,
            {'capabilities': {'location_info': str(location)}},
        )

    def migrated(self):
        return self.driver.update_migrated_volume(
            None, self.other, self.volume, 'available'
        )

    def manage_snapshot(self):
        self.backend.create('b', 'brought', '', None, 10)
        with (
            mock.patch.object(records, 'managed', return_value=set()),
            mock.patch.object(
                format_inspector, 'get_format_if_safe', return_value='raw'
            ),
        ):
            return self.driver.manage_existing_snapshot_get_size(
                self.snapshot, {'source-name': 'b/brought'}
            )

    def unmanage(self):
        self.driver.unmanage(self.volume)

    def hand_over(self):
        operations = self.driver.operations
        request = bind_request.BindRequest(
            'volume-id',
            'id',
            10,
            'round_robin',
            nova_api.Server('s', fakes.PROJECT, 'there', None),
        )
        with (
            mock.patch.object(
                handover,
                'find_target',
                return_value=(mock.Mock(), 'there@vdisk'),
            ),
            mock.patch.object(handover, '_check_unused'),
        ):
            handover.hand_over(operations, None, self.volume, request, 'there')

    def delete(self):
        self.driver.delete_volume(self.volume)


class EntriesTestCase(_Entries):
    """Every operation begins where the volume is."""

    def found(self, operation):
        result = operation()
        self.assertEqual('b', self.volume.provider_location)
        self.assertEqual('b', self.volume.provider_id)
        return result

    def test_snapshot(self):
        for snap in (self.snap, self.group_snap):
            self.found(snap)
            self.assertEqual('new', self.backend.content['b', 'snapshot-s'])

    def test_clone(self):
        self.assertEqual(
            naming.created() | naming.bound_to('b'),
            self.found(self.clone),
        )
        self.assertEqual('new', self.backend.content['b', 'volume-other'])

    def test_extend(self):
        for extend in (self.extend, self.restored):
            self.found(extend)
            self.assertEqual({'volume-id': 20}, self.on('b'))
            self.assertEqual(10, self.on('a')['volume-id'])

    def test_revert(self):
        self.found(self.revert)
        self.assertEqual('frozen', self.backend.content['b', 'volume-id'])
        self.assertEqual('old', self.backend.content['a', 'volume-id'])

    def test_connection(self):
        for connect in (self.connect, self.connect_without_export):
            data = self.found(connect)
            self.assertEqual('/disks/b/volume-id', data['device_path'])
            self.volume.provider_location = 'a'
            self.volume.provider_id = 'a'

    def test_connection_of_a_server(self):
        self.volume.volume_attachment = [test_driver.attachment('s')]
        data = self.found(self.connect)
        self.assertEqual('/disks/by-volume/volume-id', data['device_path'])
        self.assertEqual('b', data['vdisk']['disk'])
        self.assertEqual({'volume-id': 'b'}, self.backend.linked)

    def test_start(self):
        self.found(self.start)
        # and what is left is gone, for this was no drain
        self.assertEqual({'volume-id': 10}, self.on('b'))
        self.assertEqual({}, self.on('a'))
        self.assertEqual(100, self.placement.room_of('a'))

    def test_start_in_use(self):
        self.found(self.start_in_use)

    def test_connection_while_a_drain_ends(self):
        self.volume.volume_attachment = [test_driver.attachment('s')]
        self.backend.link('a', 'volume-id')
        find = linking.stable_path

        def move(*arguments):
            self.backend.link('b', 'volume-id')
            self.volume.provider_location = 'b'
            self.backend.delete('a', 'volume-id')
            return find(*arguments)

        with mock.patch.object(linking, 'stable_path', move):
            data = self.connect_without_export()
        self.assertEqual('b', data['vdisk']['disk'])

    def test_start_in_use_without_the_database(self):
        # Cinder would set the volume to error
        self.volume.refresh = mock.Mock(side_effect=db_exc.DBError('away'))
        self.start_in_use()
        self.assertIn('Volume id: away', self.log.output)

    def test_migrate(self):
        self.assertEqual((True, naming.bound_to('a')), self.migrate())
        self.assertEqual('new', self.backend.content['a', 'volume-id'])
        self.assertEqual({}, self.on('b'))
        self.assertEqual({'volume-id': 'a'}, self.backend.linked)

    def test_migrated_by_cinder(self):
        self.assertEqual(
            {'_name_id': 'id', 'provider_location': 'b'},
            self.found(self.migrated),
        )

    def test_managed_snapshot(self):
        self.assertEqual(10, self.found(self.manage_snapshot))

    def test_unmanage(self):
        self.found(self.unmanage)
        self.assertEqual({'unmanaged-id': 10}, self.on('b'))

    def test_hand_over(self):
        with mock.patch.object(
            self.backend, 'written', lambda disk, _: disk == 'b'
        ):
            error = self.assertRaises(errors.BindingError, self.hand_over)
        self.assertIn('content on disk b', str(error))


class DiskIsMissingTestCase(_Entries):
    """The link leads to a disk that may come back."""

    def setUp(self):
        super().setUp()
        self.backend.link('c', 'volume-id')

    def test_nothing_is_done_elsewhere(self):
        before = self.backend.disks(), dict(self.backend.content)
        for operation in self.operations_of_cinder():
            self.assertRaises(cinder_exc.VolumeDriverException, operation)
            self.assertIn('disk c, which is missing', self.log.output)
            self.assertEqual('a', self.volume.provider_location)
        self.assertRaises(exception.DiskError, self.hand_over)
        self.assertEqual(before, (self.backend.disks(), self.backend.content))

    def test_start(self):
        for start in (self.start, self.start_in_use):
            start()
            self.assertIn('disk c, which is missing', self.log.output)
        self.assertEqual({'volume-id': 10}, self.on('a'))


class LinkIsUnknownTestCase(_Entries):
    """The link cannot be read, or leads to what is no vdisk."""

    def setUp(self):
        super().setUp()
        self.backend.links = lambda: {'volume-id': None}
        self.backend.linked_disk = mock.Mock(
            side_effect=exception.DiskError('by-volume/volume-id: EIO')
        )

    def test_nothing_is_done(self):
        before = self.backend.disks(), dict(self.backend.content)
        for operation in (
            *self.operations_of_cinder(),
            lambda: self.driver.revert_to_snapshot(
                None, self.volume, self.snapshot
            ),
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, operation)
            self.assertIn('by-volume/volume-id: EIO', self.log.output)
        self.assertRaises(exception.DiskError, self.hand_over)
        for start in (self.start, self.start_in_use):
            start()
        self.assertEqual('a', self.volume.provider_location)
        self.assertEqual({'volume-id': 'b'}, self.backend.linked)
        self.assertEqual(before, (self.backend.disks(), self.backend.content))

    def test_a_server_is_not_given_the_link(self):
        self.volume.volume_attachment = [test_driver.attachment('s')]
        self.assertRaises(cinder_exc.VolumeDriverException, self.connect)


class StartTestCase(_Entries):
    """One volume that cannot be settled does not keep the others."""

    def setUp(self):
        super().setUp()
        self.backend.create('a', 'volume-other', 'other', None, 10)
        self.backend.create('b', 'volume-other', 'other', None, 10)
        self.other.provider_location = 'a'

    def settled(self):
        self.driver.update_provider_info([self.volume, self.other], [])
        return {'volume-other'} == set(self.on('a')) - {'volume-id'} and (
            'volume-other' not in self.on('b')
        )

    def test_database(self):
        for error in (
            db_exc.DBError(),
            cinder_exc.VolumeNotFound(volume_id='id'),
        ):
            self.volume.save = mock.Mock(side_effect=error)
            self.assertTrue(self.settled())
            self.assertIn('Volume id, whose move was', self.log.output)
            self.volume.provider_location = 'a'

    def test_busy(self):
        with locks.hold('volume-id'):
            self.assertTrue(self.settled())
        self.assertEqual('a', self.volume.provider_location)
        self.assertIn('works on volume-id', self.log.output)

    def test_no_disk_can_be_read(self):
        with mock.patch.object(
            self.backend, 'disks', side_effect=exception.DiskError('helper')
        ):
            self.assertFalse(self.settled())
        self.assertIn('not settled: helper', self.log.output)

    def test_only_what_was_moved_is_read_again(self):
        many = [
            test_driver.volume(
                id=str(number), name_id=str(number), provider_location='a'
            )
            for number in range(1000)
        ]
        self.driver.update_provider_info([*many, self.volume], [])
        self.volume.refresh.assert_called_once_with()
        for one in many:
            self.assertEqual([], one.refresh.mock_calls + one.save.mock_calls)

    def test_the_volume_is_no_whole_copy(self):
        self.backend.shrink('b', 'volume-id', 5)
        self.start()
        self.assertEqual(10, self.on('a')['volume-id'])
        self.assertIn('is not settled', self.log.output)

    def test_the_drain_of_its_disk_finishes_the_move(self):
        self.backend.known['a'] = dataclasses.replace(
            self.backend.known['a'], draining=True
        )
        self.start()
        self.assertEqual('b', self.volume.provider_location)
        self.assertEqual(10, self.on('a')['volume-id'])
