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
from oslo_db import exception as db_exc

from cinder_vdisk_mapper.moves import vdisk_move
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer import exception
from nova_diskplacer.placement import claim_moves
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

A = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
B = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'
C = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d13'
NAME = 'volume-1'


class Volume:
    """A row of Cinder; ``failing`` has the errors of its next writes."""

    def __init__(self):
        self.id = '1'
        self.name_id = '1'
        self.size = 1
        self.status = 'available'
        self.host = 'node@vdisk#pool'
        self.migration_status = None
        self.provider_location = self.provider_id = A
        self.provider_auth = None
        self.volume_attachment = []
        self.failing = []

    def save(self):
        if self.failing:
            raise self.failing.pop()

    def refresh(self):
        pass


class MovingTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.vdisk = fake_disks.make_vdisk('1', None, 1)
        self.backend = fakes.Backend(
            fake_disks.make_disk(A, held=[self.vdisk]), fake_disks.make_disk(B)
        )
        self.backend.disk_root = self.useFixture(fixtures.TempDir()).path
        self.volume = Volume()
        self.operations = mock.Mock()
        self.planner = mock.create_autospec(vdisk_move.Planner, instance=True)
        self.planner.check_target.return_value = False
        self.guests = mock.Mock()
        self.operations.backend = self.backend
        self.operations.allocate = self.allocate
        self.operations.placement.provider_allocations.return_value = {}
        self.held = []
        self.servers = []
        self.useFixture(fixtures.MockPatchObject(locks, 'hold', self.hold))
        self.get = self.useFixture(
            fixtures.MockPatchObject(objects.Volume, 'get_by_id')
        ).mock
        self.get.side_effect = lambda *_: self.volume
        self.move = vdisk_move.VolumeMove(
            mock.Mock(),
            self.operations,
            self.guests,
            self.planner,
            self.volume,
            self.vdisk,
            A,
            B,
            lambda done, total: None,
        )

    @contextlib.contextmanager
    def hold(self, name, *_):
        self.held.append(name)
        yield
        self.held.remove(name)

    def allocate(self, disk, *_):
        # nobody binds, moves or deletes the volume meanwhile
        self.assertEqual([*self.servers, 'volume-1'], self.held)
        self.assertEqual((A, B), self.record().disks)
        self.backend.known[disk] = fake_disks.make_disk(
            disk, held=[self.vdisk]
        )

    def record(self):
        return self.backend.recorded_move(NAME)

    def test_target_is_made_under_the_lock_and_recorded_before(self):
        self.assertFalse(self.move.is_begun())
        self.move.create()
        self.assertTrue(self.move.is_begun())
        self.assertEqual([A, B], self.backend.disks_holding(NAME))
        self.move.forget()
        self.assertFalse(self.move.is_begun())

    def test_both_servers_are_locked(self):
        """One counts it on the target, the claim of the other one follows."""
        locked = []
        self.useFixture(
            fixtures.MockPatchObject(
                claim_moves.VDiskMove,
                'follow',
                lambda claim: locked.append((claim.server, *self.held)),
            )
        )
        self.volume.volume_attachment = [mock.Mock(instance_uuid='a')]
        self.vdisk = fake_disks.make_vdisk('1', 'b', 1)
        self.servers = ['server-a', 'server-b']
        self.move = dataclasses.replace(self.move, vdisk=self.vdisk)
        self.move.create()
        self.assertEqual([('b', *self.servers, 'volume-1')], locked)

    def test_link_to_what_the_volume_is_attached_as(self):
        for connection, is_device in (('local', True), ('gpfs', False)):
            self.backend.unlink(NAME)
            self.volume.volume_attachment = [
                mock.Mock(
                    instance_uuid='a',
                    connection_info={'driver_volume_type': connection},
                )
            ]
            self.servers = ['server-a']
            self.move.create()
            self.assertEqual(A, self.backend.linked_disk(NAME))
            self.assertIs(is_device, self.backend.is_linked_to_device(NAME))
            self.planner.check_target.return_value = True

    def test_copy_that_nobody_knows(self):
        self.allocate_elsewhere()
        self.operations.delete_other_copies = mock.Mock()
        error = self.assertRaises(exception.DiskError, self.move.create)
        self.assertIn('which no move from here has made', str(error))
        self.assertIsNone(self.record())

    def allocate_elsewhere(self):
        self.backend.known[B] = fake_disks.make_disk(B, held=[self.vdisk])

    def test_link_that_cinder_was_not_told_of(self):
        self.backend.linked[NAME] = A
        self.volume.provider_location = B
        self.move.create()
        self.assertEqual(A, self.volume.provider_location)

    def test_target(self):
        check = self.move.check_target
        self.assertRaises(exception.DiskError, check)
        self.allocate_elsewhere()
        check()
        # it was extended meanwhile
        self.volume.size = 2
        self.assertRaises(exception.DiskError, check)

    def test_source_is_deleted_if_the_target_is_the_volume(self):
        self.allocate_elsewhere()
        steps = self.move
        self.assertRaises(exception.DiskError, steps.source.condemn)
        steps.save()
        self.backend.linked[NAME] = A
        self.assertRaises(exception.DiskError, steps.source.condemn)
        steps.decide(True)
        self.backend.known[B] = fake_disks.make_disk(B, health='missing')
        self.assertRaises(exception.DiskError, steps.source.condemn)
        self.allocate_elsewhere()
        steps.source.condemn()
        self.assertEqual([B], self.backend.disks_holding(NAME))

    def test_decision(self):
        steps = self.move
        for linked in (False, True):
            self.volume.provider_location = A
            if linked:
                self.backend.linked[NAME] = A
            for moved in (True, False):
                steps.decide(moved)
                self.assertEqual(moved, steps.is_decided())
        self.backend.linked[NAME] = 'elsewhere'
        self.assertRaises(exception.DiskError, steps.is_decided)

    def test_errors_of_cinder(self):
        steps = self.move
        self.volume.failing = [db_exc.DBError('away')]
        self.assertRaises(exception.DiskError, steps.save)
        self.get.side_effect = cinder_exc.VolumeNotFound(volume_id='1')
        self.assertRaises(vdisk_move.Deleted, steps.check)
        self.assertRaises(vdisk_move.Deleted, self.move.is_begun)
        self.get.side_effect = db_exc.DBConnectionError('away')
        for call in (steps.check, steps.create, self.move.is_begun):
            self.assertRaises(exception.DiskError, call)


class ClaimTestCase(testtools.TestCase):
    """Disk A has a vdisk of a server, which awaits another one there.

    Each has 1 GiB. Another vdisk of the server, on disk B, is reserved.
    """

    def setUp(self):
        super().setUp()
        self.vdisk = fake_disks.make_vdisk('1', 's', 1)
        self.backend = fakes.Backend(
            fake_disks.make_disk(A, held=[self.vdisk]),
            fake_disks.make_disk(B, held=[fake_disks.make_vdisk('2', 's', 1)]),
            fake_disks.make_disk(C),
        )
        self.backend.disk_root = self.useFixture(fixtures.TempDir()).path
        self.placement = fakes.Placement(*self.backend.disks())
        self.placement.claim('s', {A: 2})
        self.volume = Volume()
        for target, name, value in (
            (locks, 'hold', lambda name: contextlib.nullcontext()),
            (objects.Volume, 'get_by_id', lambda *_: self.volume),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def move_to(self, target):
        """Return a move as a new process makes it."""
        planner = mock.create_autospec(vdisk_move.Planner, instance=True)
        holding = self.backend.disks_holding(NAME)
        planner.check_target.return_value = target in holding
        return vdisk_move.VolumeMove(
            mock.Mock(),
            operations.VDiskOperations(self.backend, self.placement),
            mock.Mock(),
            planner,
            self.volume,
            self.vdisk,
            A,
            target,
            lambda done, total: None,
        )

    def assertClaims(self, **claims):
        self.assertEqual(
            claims,
            {
                name: self.placement.claims[uuid]['s']
                for name, uuid in (('a', A), ('b', B), ('c', C))
                if 's' in self.placement.claims[uuid]
            },
        )

    def take_back(self, target):
        move = self.move_to(target)
        move.target.condemn()
        move.target.delete()
        move.forget()

    def test_repeated(self):
        for _ in range(3):
            self.move_to(B).create()
            self.assertClaims(a=1, b=1)

    def test_answer_that_is_lost(self):
        reshape = self.placement.reshape

        def lose(*arguments):
            self.placement.reshape = reshape
            reshape(*arguments)
            raise exception.Conflict('again')

        self.placement.reshape = lose
        self.move_to(B).create()
        self.assertClaims(a=1, b=1)

    def test_taken_back(self):
        for target, claims in ((C, {'c': 1}), (B, {'b': 1})):
            self.move_to(target).create()
            self.assertClaims(a=1, **claims)
            self.take_back(target)
            self.assertClaims(a=2)

    def test_killed_before_its_claim_follows(self):
        for claims in ({A: 2}, {A: 2, C: 1}):
            with mock.patch.object(
                claim_moves.VDiskMove, 'follow', side_effect=ZeroDivisionError
            ):
                self.assertRaises(ZeroDivisionError, self.move_to(C).create)
            # one more may be to come to the target since
            self.placement.claim('s', claims)
            self.move_to(C).create()
            self.assertEqual(1, self.placement.claims[A]['s'])
            self.assertEqual(
                sum(claims.values()) - 1, self.placement.claims[C]['s']
            )
            self.take_back(C)

    def test_target_that_is_gone(self):
        """Its claim is lost with that, and not replaced by another one."""
        self.move_to(C).create()
        self.backend.known[C] = fake_disks.make_disk(C, health='missing')
        for _ in range(2):
            self.move_to(B).create()
            self.assertClaims(a=1, c=1)
        self.take_back(B)
        self.assertClaims(a=1, c=1)

    def test_without_a_claim(self):
        """What the server claims on the target is for a vdisk to come."""
        self.placement.claims[A].clear()
        self.move_to(C).create()
        self.placement.claim('s', {C: 2})
        self.take_back(C)
        self.assertClaims(c=2)
