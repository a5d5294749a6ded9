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

"""Operations on vdisks that exist in memory only."""

import dataclasses
from unittest import mock

from cinder_vdisk_mapper.cinder_api import errors
from nova_diskplacer import exception
from nova_diskplacer.disks import move_records
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper.attach import test_binding

request = test_binding.request


class OperationsTestCase(test_binding.BindingTestCase):
    """Disk a, of 100 GiB, holds volume-1 of 10 GiB."""

    def setUp(self):
        super().setUp()
        self.binder.bind(request('1', 10))
        self.backend.content['a', 'volume-1'] = 'one'

    def sizes(self):
        """Return the GiB of each vdisk on disk a."""
        return {
            vdisk.name: vdisk.size_gb
            for vdisk in self.backend.known['a'].vdisks
        }

    def assertUnchanged(self, pattern, method, *arguments):
        """An operation is refused and leaves all as it was."""
        before = self.backend.disks()
        reserved = self.reserved()
        error = self.assertRaises(
            exception.DiskPlacerError, method, *arguments
        )
        self.assertRegex(str(error), pattern)
        self.assertEqual(before, self.backend.disks())
        if not self.placement.down:
            self.assertEqual(reserved, self.reserved())

    def refusals(self, method, *arguments):
        """Check what refuses an operation that takes 10 GiB of disk a."""
        self.placement.claim('other', {'a': 81})
        self.assertUnchanged(
            'disk a has no room to .* of 10 GiB: 9 GiB', method, *arguments
        )
        self.placement.claims.clear()

        def claim():
            self.placement.claim('other', {'a': 90})

        self.backend.changed = claim
        self.assertUnchanged('disk a has no room', method, *arguments)
        self.placement.claims.clear()

        def go():
            self.placement.down = True

        self.backend.changed = go
        self.assertUnchanged('Placement is down', method, *arguments)
        self.placement.down = False
        self.backend.changed = lambda: None
        method(*arguments)
        self.assertEqual(20, self.reserved()['a'])
        # a killed run that had not yet told Placement
        self.placement.offered['a'][placement_client.GB]['reserved'] = 0
        method(*arguments)
        self.assertEqual(20, self.reserved()['a'])
        # whatever happens, what was there stays
        self.placement.offered['a'][placement_client.GB]['reserved'] = 0
        self.placement.claim('other', {'a': 90})
        before = self.backend.disks()
        self.assertRaises(errors.BindingError, method, *arguments)
        self.assertEqual(before, self.backend.disks())


class SnapshotTestCase(OperationsTestCase):
    ARGUMENTS = 'a', 'volume-1', 'snapshot-s', 's'

    def test_refusals(self):
        self.refusals(self.operations.snapshot, *self.ARGUMENTS)

    def test_snapshot(self):
        self.operations.snapshot(*self.ARGUMENTS)
        snapshot = self.backend.known['a'].vdisks[-1]
        self.assertEqual(
            ('snapshot-s', 's', None, 10),
            (
                snapshot.name,
                snapshot.volume_id,
                snapshot.server_id,
                snapshot.size_gb,
            ),
        )
        self.operations.delete('a', 'snapshot-s')
        self.assertEqual(10, self.reserved()['a'])

    def test_counts_though_the_volume_is_claimed(self):
        self.setup(fake_disks.make_disk('a'))
        self.placement.claim('server', {'a': 10})
        who = test_binding.server(vdisks=1, vdisk_gb=10)
        self.binder.bind(request('1', 10, who))
        self.operations.snapshot(*self.ARGUMENTS)
        self.assertEqual(10, self.reserved()['a'])

    def test_not_there(self):
        self.assertUnchanged(
            'vdisk volume-2 is not on disk a',
            self.operations.snapshot,
            'a',
            'volume-2',
            'snapshot-s',
            's',
        )


class CloneTestCase(OperationsTestCase):
    def test_refusals(self):
        self.refusals(
            self.operations.clone, 'a', 'volume-1', 'volume-2', '2', 10
        )

    def test_larger(self):
        self.operations.clone('a', 'volume-1', 'volume-2', '2', 15)
        self.assertEqual({'volume-1': 10, 'volume-2': 15}, self.sizes())
        self.assertEqual('one', self.backend.content['a', 'volume-2'])
        self.assertEqual(25, self.reserved()['a'])

    def test_backend_that_copies_does_so_unlocked(self):
        clone = self.backend.clone

        def copy(*arguments):
            # reserved, and the disk can be changed meanwhile
            self.assertEqual(20, self.reserved()['a'])
            self.operations.snapshot('a', 'volume-1', 'snapshot-s', 's')

        self.backend.allocate_clone = clone
        self.backend.clone = copy
        self.operations.clone('a', 'volume-1', 'volume-2', '2', 10)
        self.assertEqual(30, self.reserved()['a'])

    def test_copy_that_fails_leaves_nothing(self):
        def fail(*arguments):
            raise exception.DiskError('no more')

        self.backend.allocate_clone = self.backend.clone
        self.backend.clone = fail
        self.assertUnchanged(
            'no more',
            self.operations.clone,
            'a',
            'volume-1',
            'volume-2',
            '2',
            10,
        )


class RevertTestCase(OperationsTestCase):
    def test_revert(self):
        self.operations.snapshot('a', 'volume-1', 'snapshot-s', 's')
        self.backend.content['a', 'volume-1'] = 'two'
        self.operations.revert('a', 'volume-1', 'snapshot-s')
        self.assertEqual('one', self.backend.content['a', 'volume-1'])
        self.operations.revert('a', 'volume-1', None)
        self.assertEqual('', self.backend.content['a', 'volume-1'])

    def test_not_there(self):
        self.assertUnchanged(
            'snapshot-s is not on disk a',
            self.operations.revert,
            'a',
            'volume-1',
            'snapshot-s',
        )
        self.assertEqual('one', self.backend.content['a', 'volume-1'])


class ManageTestCase(OperationsTestCase):
    def setUp(self):
        super().setUp()
        # half a GiB over
        self.backend.create('a', 'disk.raw', '', None, 5)
        *rest, found = self.backend.known['a'].vdisks
        found = dataclasses.replace(
            found, size_bytes=found.size_bytes - fakes.GIB // 2
        )
        self.backend._set('a', (*rest, found))
        self.backend.content['a', 'disk.raw'] = 'theirs'
        self.operations.try_reserve('a')

    def adopt(self, size_gb=5):
        """Take it as volume 2."""
        self.operations.manage('a', 'disk.raw', 'volume-2', '2', size_gb)

    def test_adopt_and_release(self):
        for _ in range(2):
            self.adopt()
            found = self.backend.known['a'].vdisks[-1]
            self.assertEqual(
                ('volume-2', '2', 5 * fakes.GIB),
                (found.name, found.volume_id, found.size_bytes),
            )
            self.assertEqual('theirs', self.backend.content['a', 'volume-2'])
            self.assertEqual(15, self.reserved()['a'])
        for _ in range(2):
            self.operations.unmanage('a', 'volume-2', 'unmanaged-2')
            found = self.backend.known['a'].vdisks[-1]
            self.assertEqual(
                ('unmanaged-2', ''), (found.name, found.volume_id)
            )
            self.assertEqual(15, self.reserved()['a'])

    def test_no_room(self):
        self.placement.claim('other', {'a': 85})
        self.assertUnchanged(
            'disk a has no room to take disk.raw of 5 GiB as volume-2 of 6',
            self.adopt,
            6,
        )
        self.adopt()


class ExtendTestCase(test_binding.BindingTestCase):
    def setUp(self):
        super().setUp()
        self.binder.bind(request('1', 10))

    def size(self):
        """Return the GiB of the only vdisk on disk a."""
        (vdisk,) = self.backend.known['a'].vdisks
        return vdisk.size_gb

    def test_extend(self):
        for size in (30, 30, 20):
            self.operations.extend('a', 'volume-1', size)
            self.assertEqual(30, self.size())
            self.assertEqual(30, self.reserved()['a'])

    def test_failure_is_undone(self):
        def interrupt():
            self.backend.interrupted = True

        # what was there has been finished by then
        self.backend.changed = interrupt
        self.assertRaises(
            exception.DiskError, self.operations.extend, 'a', 'volume-1', 30
        )
        self.assertEqual((10, 10), (self.size(), self.reserved()['a']))
        self.backend.usable_vdisk('a', 'volume-1')

    def test_interrupted(self):
        """The last run was killed; the size it was to have does not matter."""
        for size in (30, 20, 40):
            self.backend._change('a', 'volume-1', 30, False, max)
            self.assertRaisesRegex(
                exception.DiskError,
                'is not complete: repeat the extension',
                self.backend.usable_vdisk,
                'a',
                'volume-1',
            )
            self.operations.extend('a', 'volume-1', size)
            self.assertEqual(max(size, 30), self.size())
            self.assertEqual(max(size, 30), self.reserved()['a'])
            self.backend.usable_vdisk('a', 'volume-1')

    def test_interrupted_within_a_gib(self):
        (vdisk,) = self.backend.known['a'].vdisks
        for size in (11, 10, 20):
            self.backend._set(
                'a',
                [
                    dataclasses.replace(
                        vdisk, size_bytes=vdisk.size_bytes + fakes.GIB // 4
                    )
                ],
            )
            self.operations.extend('a', 'volume-1', size)
            (found,) = self.backend.known['a'].vdisks
            self.assertEqual(max(size, 11) * fakes.GIB, found.size_bytes)

    def test_no_room(self):
        self.placement.claim('other', {'a': 80})
        error = self.assertRaises(
            errors.BindingError, self.operations.extend, 'a', 'volume-1', 21
        )
        self.assertIn('no room to extend', str(error))
        self.assertEqual((10, 10), (self.size(), self.reserved()['a']))
        self.operations.extend('a', 'volume-1', 20)

    def test_claim_that_comes_in_between_wins(self):
        self.backend.changed = lambda: self.placement.claim('other', {'a': 90})
        self.assertRaises(
            errors.BindingError, self.operations.extend, 'a', 'volume-1', 11
        )
        self.assertEqual((10, 10), (self.size(), self.reserved()['a']))

    def test_placement_that_goes_away(self):
        def go():
            self.placement.down = True

        self.backend.changed = go
        self.assertRaises(
            exception.PlacementError,
            self.operations.extend,
            'a',
            'volume-1',
            11,
        )
        self.assertEqual(10, self.size())

    def test_not_there(self):
        for disk, name in (('a', 'volume-2'), ('z', 'volume-1')):
            self.assertRaises(
                exception.DiskError, self.operations.extend, disk, name, 20
            )


class DrainingTestCase(OperationsTestCase):
    """Disk a is being drained, and a server claims some of it."""

    def setUp(self):
        super().setUp()
        self.placement.claim('other', {'a': 20})
        self.backend.known['a'] = dataclasses.replace(
            self.backend.known['a'], draining=True
        )
        self.operations.reserve('a')

    def test_what_is_free(self):
        disk = self.backend.disk('a')
        self.assertEqual(70, self.operations.free_gb(disk))
        self.assertTrue(self.operations.reserve('a'))
        # nobody is offered it
        self.assertEqual(100, self.reserved()['a'])

    def test_growth_is_refused_by_name(self):
        for method, *arguments in (
            (self.operations.extend, 'a', 'volume-1', 11),
            (self.operations.snapshot, 'a', 'volume-1', 'snapshot-s', 's'),
            (self.operations.clone, 'a', 'volume-1', 'volume-2', '2', 10),
            (self.operations.allocate, 'a', 'volume-2', '2', 10),
        ):
            self.assertUnchanged(
                'disk a is being drained, and cannot', method, *arguments
            )
        error = self.assertRaises(
            errors.BindingError, self.operations.extend, 'a', 'volume-1', 500
        )
        self.assertNotIn('disk a', error.public)

    def test_a_restored_backup_is_allocated_again(self):
        for size_gb in (10, 9):
            self.operations.extend('a', 'volume-1', size_gb)
        self.assertEqual({'volume-1': 10}, self.sizes())

    def test_what_a_killed_run_has_made_is_finished(self):
        self.backend.snapshot('a', 'volume-1', 'snapshot-s', 's')
        self.operations.snapshot('a', 'volume-1', 'snapshot-s', 's')
        self.assertIn('snapshot-s', self.sizes())

    def test_no_new_vdisk_is_bound_there(self):
        self.setup(
            fake_disks.make_disk('a', 100, draining=True),
            fake_disks.make_disk('b', 20),
        )
        self.assertEqual('b', self.bind(request('2', 10)))
        self.assertRefused('no disk for volume', request('3', 11))

    def test_what_began_to_be_drained_meanwhile(self):
        self.setup(
            fake_disks.make_disk('a', 100), fake_disks.make_disk('b', 9)
        )
        look = self.backend.disk
        self.backend.disk = lambda uuid: dataclasses.replace(
            look(uuid), draining=uuid == 'a'
        )
        self.assertRefused('no disk for volume', request('2', 10))


class OtherCopiesTestCase(OperationsTestCase):
    """Disks b and c hold copies of the vdisk."""

    def setUp(self):
        super().setUp()
        for disk in 'bc':
            self.backend.create(disk, 'volume-1', '1', None, 10)

    def left(self, record):
        with mock.patch.object(
            self.backend, 'recorded_move', return_value=record
        ):
            self.operations.delete_other_copies('volume-1', 'a')
        return self.backend.disks_holding('volume-1')

    def test_none_is_recorded(self):
        self.assertEqual(['a'], self.left(None))
        self.assertEqual({'a': 10, 'b': 0, 'c': 0}, self.reserved())

    def test_a_drain_has_begun_one(self):
        self.assertEqual(['a', 'b'], self.left(move_records.Record('a', 'b')))

    def test_the_source_of_a_move_that_is_decided(self):
        self.assertEqual(['a'], self.left(move_records.Record('b', 'a')))

    def test_one_is_in_use(self):
        self.backend.open = {('b', 'volume-1')}
        self.assertEqual(['a', 'b'], self.left(None))

    def test_the_volume_is_not_whole(self):
        self.backend.known['a'] = fake_disks.make_disk('a', health='read-only')
        self.assertRaises(exception.DiskError, self.left, None)
        self.assertEqual(['b', 'c'], self.backend.disks_holding('volume-1'))
