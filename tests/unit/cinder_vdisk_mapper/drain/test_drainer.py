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

from cinder_vdisk_mapper.drain import drainer
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.moves import vdisk_move
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import move_records
from nova_diskplacer.host import files
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

A, B, C = (f'0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d1{one}' for one in '123')


class DrainerTestCase(testtools.TestCase):
    """Disk A holds the vdisks of volumes 1 to 3, which may go to disk B."""

    def setUp(self):
        super().setUp()
        self.addCleanup(files.set_lock_directory, files._lock_directory)
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        held = [fake_disks.make_vdisk(one, None, 1) for one in '123']
        self.vdisks = {
            one.name: plan.VDiskToMove(one, mapping='round_robin')
            for one in held
        }
        self.backend = fakes.Backend(
            fake_disks.make_disk(A, held=held), fake_disks.make_disk(B)
        )
        self.backend.disk_root = self.useFixture(fixtures.TempDir()).path
        self.surveyor = mock.Mock()
        self.surveyor.survey = self.survey
        operations = self.surveyor.operations
        operations.backend = self.backend
        operations.placement.provider_allocations.return_value = {}
        self.withheld = self.patch(discover, 'set_draining')
        self.patch(locks, 'hold', lambda name: contextlib.nullcontext())
        self.patch(vdisk_steps, 'run', self.move)
        self.taken_back = []
        self.patch(vdisk_steps, 'take_back', self.taken_back.append)
        self.patch(
            vdisk_move.VolumeMove,
            'is_begun',
            lambda move: self.is_begun(move),
        )
        self.failing = {}
        self.moved = []
        self.drainer = drainer.Drainer(self.surveyor, lambda *_: None)

    def is_begun(self, move):
        record = self.backend.recorded_move(move.vdisk.name)
        disks = move.source_disk, move.target_disk
        return record is not None and record.disks == disks

    def patch(self, *arguments):
        return self.useFixture(fixtures.MockPatchObject(*arguments)).mock

    def survey(self, uuid):
        vdisks = {
            name: vdisk
            for name, vdisk in self.vdisks.items()
            if uuid in self.backend.disks_holding(name)
        }
        return survey.Survey(
            tuple(vdisks.values()),
            {
                name: mock.Mock(provider_location=uuid, id=name[-1])
                for name in vdisks
            },
            (self.backend.known[B],),
            {B: plan.Room(100, 100)},
            {},
        )

    def move(self, move):
        name = move.vdisk.name
        self.record(name[-1], move.source_disk, move.target_disk)
        if name in self.failing:
            raise self.failing[name]
        self.moved.append((name, move.target_disk))
        self.backend.delete(move.source_disk, name)
        move_records.remove(self.backend.disk_root, name)

    def record(self, number, source, target):
        move_records.write(
            self.backend.disk_root,
            f'volume-{number}',
            move_records.Record(source, target),
        )

    def recorded(self):
        return [
            name
            for name in ('volume-1', 'volume-2', 'volume-3', 'volume-4')
            if self.backend.recorded_move(name)
        ]

    def change(self, number, **fields):
        name = f'volume-{number}'
        self.vdisks[name] = plan.VDiskToMove(
            self.vdisks[name].vdisk, mapping='round_robin', **fields
        )

    def test_all_move(self):
        self.change(3, begun_target=C)
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual({}, self.drainer.drain(A))
        self.assertEqual(
            [
                f'1 GiB of volume {number} have moved from disk {A} to disk '
                f'{disk} for no server'
                for number, disk in ((3, C), (1, B), (2, B))
            ],
            log.output.splitlines(),
        )
        # first what was begun
        self.assertEqual(
            [('volume-3', C), ('volume-1', B), ('volume-2', B)], self.moved
        )
        self.withheld.assert_called_once_with(self.backend.disk_root, A, True)

    def test_one_fails_and_one_is_refused(self):
        self.failing['volume-1'] = exception.DiskError('EIO')
        self.change(2, refusal='no room')
        self.assertEqual(
            {'volume-1': 'EIO', 'volume-2': 'no room'}, self.drainer.drain(A)
        )
        self.assertEqual([('volume-3', B)], self.moved)
        self.assertEqual(
            ['volume-1'], [one.vdisk.name for one in self.taken_back]
        )

    def test_what_was_not_begun_is_not_taken_back(self):
        def refuse(move):
            raise exception.DiskError('another job')

        self.patch(vdisk_steps, 'run', refuse)
        self.assertEqual(3, len(self.drainer.drain(A)))
        self.assertEqual([], self.taken_back)

    def test_records_of_moves_that_have_ended(self):
        for method in (self.drainer.drain, self.drainer.cancel):
            for number in (1, 2, 3, 4):
                self.change(min(number, 3), refusal='stays')
                self.record(number, A, C)
            # 1 has begun, the disk of 2 is missing, 3 was undone; 4 has left
            self.change(1, refusal='stays', begun_target=C)
            self.change(2, refusal='stays', is_elsewhere=True)
            method(A)
            self.assertEqual(['volume-1', 'volume-2'], self.recorded())

    def test_records_of_moves_to_a_disk_that_is_away(self):
        """It may have the copy of a vdisk, and the claim."""
        log = self.useFixture(fixtures.FakeLogger())
        for health in ('missing', 'hung', 'read-only'):
            self.backend.known[C] = fake_disks.make_disk(C, health=health)
            for method in (self.drainer.drain, self.drainer.cancel):
                self.change(1, refusal='stays')
                self.record(1, A, C)
                # that has left the disk
                self.record(4, A, C)
                method(A)
                self.assertEqual(['volume-1'], self.recorded())
            self.assertIn(f'Disk {C} is {health} and may have', log.output)
        # it comes back without a copy, or is forgotten
        self.backend.known[C] = fake_disks.make_disk(C)
        self.drainer.cancel(A)
        self.assertEqual([], self.recorded())

    def test_records_of_other_disks(self):
        self.record(4, B, A)
        self.drainer.drain(A)
        self.drainer.cancel(A)
        self.assertEqual(['volume-4'], self.recorded())

    def test_claims_come_back(self):
        """Those of vdisks without a whole copy do, at first and at last."""
        returned = []
        self.patch(
            vdisk_move,
            'claim_move',
            lambda operations, vdisk, record: mock.Mock(
                give_back=lambda: returned.append((vdisk.name, *record.disks))
            ),
        )
        for number in (1, 2, 3):
            self.change(number, refusal='stays')
            self.record(number, A, B)
        self.record(4, A, B)
        copies = [
            self.vdisks['volume-1'].vdisk,
            dataclasses.replace(self.vdisks['volume-2'].vdisk, usable=False),
        ]
        self.backend.known[B] = fake_disks.make_disk(B, held=copies)
        self.drainer.drain(A)
        self.assertEqual(
            [('volume-2', A, B), ('volume-3', A, B)] * 2, returned
        )

    def test_cancel(self):
        self.change(2, begun_target=B)
        self.assertEqual({}, self.drainer.cancel(A))
        self.assertEqual(
            [('volume-2', A, B)],
            [
                (one.vdisk.name, one.source_disk, one.target_disk)
                for one in self.taken_back
            ],
        )
        self.withheld.assert_called_once_with(self.backend.disk_root, A, False)

    def test_cancel_that_fails(self):
        # what is not undone stays withheld, with its record
        self.change(2, begun_target=B)
        self.record(2, A, B)
        self.record(3, A, B)
        self.patch(
            vdisk_steps,
            'take_back',
            mock.Mock(side_effect=exception.DiskError('no')),
        )
        self.assertEqual({'volume-2': 'no'}, self.drainer.cancel(A))
        self.withheld.assert_not_called()
        self.assertEqual(['volume-2', 'volume-3'], self.recorded())

    def test_one_at_a_time(self):
        def intrude(move):
            for method in (self.drainer.drain, self.drainer.cancel):
                error = self.assertRaises(exception.DiskError, method, B)
                self.assertIn('another "diskplacer-manage disk', str(error))
            self.move(move)

        self.patch(vdisk_steps, 'run', intrude)
        self.assertEqual({}, self.drainer.drain(A))
        self.assertEqual(3, len(self.moved))
