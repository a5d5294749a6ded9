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
import time
from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_move
from nova_diskplacer import exception
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement.client import GB
from tests.fakes import disks

OLD, NEW = Location('aa'), Location('ab')
STEP = OLD.step_to(NEW)
SSD_MBPS = 500


class PaceTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.operations = mock.Mock()
        self.storage = self.operations.backend
        self.storage.disk = lambda uuid: disks.make_disk(
            uuid, medium='hdd' if uuid == 'a' else 'ssd', mbps=SSD_MBPS
        )
        backend = backends.Backend(
            None, 'node@lvm', 'any', self.operations, self.storage
        )
        self.move = leg_move.LegMove(backend, None, OLD, NEW, STEP, 10)

    def limits(self, *copied):
        """Return the parts of the time that the kernel is given."""
        told = self.move.pace
        with mock.patch.object(time, 'monotonic') as clock:
            for clock.return_value, done in enumerate(copied):
                told(done)
        return [one.args[1] for one in self.storage.as_root.mock_calls]

    def test_the_slower_disk_bounds_the_rate(self):
        self.assertAlmostEqual(
            copy_pace.copy_mbps(0.1, 'hdd', SSD_MBPS), self.move.copy_mbps()
        )

    def test_the_kernel_is_given_more_time_if_it_copies_too_little(self):
        found = self.limits(*[0] * 5)
        self.assertEqual(sorted(found), found)
        self.assertEqual(12, found[0])

    def test_and_less_if_it_copies_too_much(self):
        found = self.limits(*(10**9 * second for second in range(9)))
        self.assertEqual([5, 2, 1], found)

    def test_it_is_left_alone_if_it_copies_at_the_rate(self):
        rate = round(self.move.copy_mbps() * 10**6)
        self.assertEqual([], self.limits(*(rate * n for n in range(9))))

    def test_a_rate(self):
        self.move = dataclasses.replace(self.move, mbps=20)
        rate = 20 * 10**6
        self.assertEqual([], self.limits(*(rate * n for n in range(9))))
        self.assertEqual([5], self.limits(0, 10 * rate))

    def test_no_limit(self):
        self.move = dataclasses.replace(self.move, percent=100, mbps=0)
        for copied in ([0] * 9, [10**9 * second for second in range(9)]):
            self.assertEqual([], self.limits(*copied))


class DecideTestCase(testtools.TestCase):
    """What is looked at, under which locks, before legs are deleted."""

    def setUp(self):
        super().setUp()
        self.held = []
        self.done = []
        self.volume = mock.Mock(
            id='1',
            name_id='1',
            size=2,
            host='node@lvm#pool',
            status='in-use',
            migration_status=None,
            provider_id='a,a',
            provider_location='a,a',
        )
        self.operations = mock.MagicMock()
        self.disks = {
            uuid: disks.make_disk(uuid, mbps=SSD_MBPS) for uuid in 'ab'
        }
        self.storage = self.operations.backend
        self.storage.forgotten.return_value = False
        self.storage.disk_root = self.useFixture(fixtures.TempDir()).path
        self.storage.disk = self.disks.get
        self.storage.check_disk = self.check_disk
        self.storage.as_root = self.as_root
        self.released = []
        snapshots = mock.Mock(return_value=[])
        for target, name, value in (
            (leg_move.locks, 'hold', lambda name: self.hold(name)),
            (leg_move.locks, 'hold_within', lambda name, _: self.hold(name)),
            (leg_move.linking, 'save_disk', self.save),
            (leg_move.naming, 'is_exported', lambda volume: False),
            (leg_move.objects.Volume, 'get_by_id', lambda *_: self.volume),
            (leg_move.objects.SnapshotList, 'get_all_for_volume', snapshots),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))
        self.move = leg_move.LegMove(
            backends.Backend(
                None, 'node@lvm', 'any', self.operations, self.storage
            ),
            self.volume,
            OLD,
            NEW,
            STEP,
            10,
        )

    @contextlib.contextmanager
    def hold(self, name):
        self.held.append(name)
        try:
            yield
        finally:
            self.held.remove(name)

    def as_root(self, function, *arguments):
        if function is leg_moves.release_writes:
            self.released.append(arguments)
        else:
            self.do(function.__name__)

    def do(self, name):
        # nobody attaches, detaches or deletes the volume meanwhile
        self.assertEqual(['volume-1', 'legs-volume-1'], self.held)
        self.done.append(name)

    def save(self, volume, location):
        self.do('save')
        volume.provider_location = str(location)

    def check_disk(self, uuid):
        if self.disks[uuid].health != 'ok':
            raise exception.DiskError(f'disk {uuid} is not healthy')

    def lose(self, uuid):
        self.disks[uuid] = disks.make_disk(uuid, health='missing')

    def test_locks(self):
        self.disks['b'] = disks.make_disk(
            'b', held=[VDisk('volume-1', '1', 's', 1)], mbps=SSD_MBPS
        )
        log = self.useFixture(fixtures.FakeLogger())
        self.move.decide()
        self.move.finish()
        self.assertEqual(
            ['complete_legs', 'save', 'end_move', 'settle_legs'], self.done
        )
        self.storage.forgotten.assert_called_once_with('a')
        self.assertEqual(
            '1 GiB of volume 1 have moved from disk a to disk b for server '
            's\n',
            log.output,
        )
        self.storage.delete_moving.assert_called_once_with('a', 'volume-1')

    def test_server_is_locked_while_its_claim_follows(self):
        """None of its vdisks is bound to the claim meanwhile."""
        piece = VDisk('volume-1', '1', 's', 2 << 30, minimum=1)
        source = disks.make_disk('a', held=[piece])
        for name in ('find_vdisk', 'usable_vdisk'):
            found = source, piece
            setattr(self.storage, name, lambda *_, f=found: f)
        self.operations.free_gb.return_value = 2
        self.volume.provider_location = str(OLD)
        held = ['server-s', 'legs-volume-1']
        self.storage.as_root = mock.Mock()
        with (
            mock.patch.object(
                leg_move.claim_moves, 'read_unfilled_gb'
            ) as unfilled,
            mock.patch.object(
                leg_move.claim_moves.VDiskMove, 'follow'
            ) as follow,
        ):
            self.useFixture(
                fixtures.MockPatchObject(leg_move.move_records, 'write')
            )
            unfilled.return_value = 0
            follow.side_effect = lambda: self.assertEqual(held, self.held)
            self.move.begin()
            follow.assert_called_once_with()

    def test_extended_since_it_was_read(self):
        piece = VDisk('volume-1', '1', None, 2 << 30, minimum=1)
        self.storage.find_vdisk.return_value = disks.make_disk('a'), piece
        read_before = mock.Mock(id='1', name_id='1', size=1)
        move = dataclasses.replace(self.move, volume=read_before)
        error = self.assertRaises(exception.DiskError, move.begin)
        self.assertIn('volume 1 was extended just now', str(error))
        self.assertEqual([], self.done)

    def test_a_vdisk_that_is_being_copied_or_deleted(self):
        """Neither attachments of its server nor other moves wait for it."""
        piece = VDisk('volume-1', '1', 's', 2 << 30, minimum=1)
        self.storage.find_vdisk.return_value = disks.make_disk('a'), piece
        self.volume.provider_location = 'a,b'
        held = leg_move.locks.Held('another process works on legs-volume-1')
        self.useFixture(
            fixtures.MockPatchObject(
                leg_move.locks, 'hold_within', side_effect=held
            )
        )
        for step in (
            self.move.begin,
            self.move.decide,
            self.move.finish,
            self.move.undo,
        ):
            self.assertRaises(leg_move.locks.Held, step)
        self.assertEqual([], self.done)
        self.assertEqual([], self.held)

    def test_what_was_unfilled_before(self):
        piece = VDisk('volume-1', '1', 's', 2 << 30, minimum=1)
        source = disks.make_disk('a', held=[piece])
        self.operations.placement.provider_allocations.return_value = {
            's': {GB: 5}
        }
        self.disks['c'] = disks.make_disk('c', health='missing')
        coming = VDisk('volume-1', '1', 's', 1 << 30, moving=True)
        for record, is_begun, unfilled_gb in (
            (None, False, 3),
            (('a', 'b', 7), True, 7),
            # the legs have come back from there
            (('a', 'b', 7), False, 3),
            # their claim has not
            (('a', 'c', 7), False, 7),
            (('c', 'b', 7), False, 3),
            # by an earlier release
            (None, True, None),
        ):
            self.storage.recorded_move.return_value = (
                record and move_records.Record(*record)
            )
            held = [coming] if is_begun else []
            self.disks['b'] = disks.make_disk('b', held=held)
            claim = self.move._claim_move(source, piece, self.disks['b'])
            self.assertEqual(unfilled_gb, claim.unfilled_gb)

    def test_taken_back_at_no_rate(self):
        """A disk that is away is not asked for its throughput."""
        self.useFixture(
            fixtures.MockPatchObject(
                leg_move.copy_pace, 'step_mbps', side_effect=KeyError
            )
        )
        self.disks['b'] = disks.make_disk(
            'b', held=[VDisk('volume-1', '1', None, 1, moving=True)]
        )
        piece = VDisk('volume-1', '1', None, 1)
        self.storage.find_vdisk.return_value = self.disks['a'], piece
        ended = self.storage.as_root = mock.Mock()
        self.move.undo()
        ended.assert_called_once_with(
            leg_moves.end_move, OLD, 'volume-1', 2 << 30
        )
        self.storage.delete_moving.assert_called_once_with('b', 'volume-1')

    def test_target_that_is_gone(self):
        self.lose('b')
        self.assertRaises(exception.DiskError, self.move.decide)
        self.assertEqual([], self.done)
        self.assertEqual([], self.released)
        self.volume.provider_location = 'a,b'
        self.assertRaises(exception.DiskError, self.move.finish)
        self.assertEqual([], self.done)
        self.storage.delete_moving.assert_not_called()
        self.assertEqual([('volume-1', True)], self.released)

    def test_source_that_is_forgotten(self):
        """It was lost after the decision: nothing is done there."""
        settle = self.storage.as_root = mock.Mock()
        self.volume.provider_location = 'a,b'
        self.disks['b'] = disks.make_disk(
            'b', held=[VDisk('volume-1', '1', 's', 1)], mbps=SSD_MBPS
        )
        self.lose('a')
        self.storage.forgotten.return_value = True
        self.useFixture(fixtures.FakeLogger())
        self.move.finish()
        settle.assert_called_with(
            leg_moves.settle_legs, NEW, 'volume-1', OLD, True
        )
        self.storage.delete_moving.assert_not_called()
        self.storage.forgotten.return_value = False
        settle.side_effect = [None, exception.DiskError('missing')]
        self.assertRaises(exception.DiskError, self.move.finish)
        settle.assert_called_with(
            leg_moves.settle_legs, NEW, 'volume-1', OLD, False
        )

    def test_not_decided(self):
        # as by another process
        self.lose('b')
        self.assertRaises(exception.DiskError, self.move.finish)
        self.assertEqual([], self.done)
        # the server uses the other place
        self.assertEqual([], self.released)

    def test_source_that_is_gone(self):
        self.disks['b'] = disks.make_disk(
            'b', held=[VDisk('volume-1', '1', None, 1, moving=True)]
        )
        self.lose('a')
        self.assertRaises(exception.DiskError, self.move.undo)
        self.storage.delete_moving.assert_not_called()
        # what waits for the disk fails, as without a move
        self.assertEqual([('volume-1', False)], self.released)
