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

"""Kills moves of legs at each step, and repeats or recovers them."""

import contextlib
import dataclasses
import os
from unittest import mock

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.features import groups as groups_
from cinder_vdisk_mapper.moves import backends
from cinder_vdisk_mapper.moves import leg_mover
from cinder_vdisk_mapper.moves import leg_steps
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement.client import GB
from tests.unit.cinder_vdisk_mapper import fakes
from tests.unit.cinder_vdisk_mapper import test_driver
from tests.unit.cinder_vdisk_mapper import test_lvm_walk
from tests.unit.cinder_vdisk_mapper.attach import test_binding
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm
from tests.unit.nova_diskplacer.disks.lvm import fake_stripes

A, B, C = UUIDS = fake_stripes.UUIDS
ZERO = fake_lvm.ZERO
SERVER = test_binding.server(
    host='node',
    vdisks=1,
    vdisk_gb=4,
    mapping='elastic',
    stripe_disks=1,
    widest_disks=4,
)
HOST = 'node@vdisk#vdisk'
#: locations before and after
MOVES = {
    'widen': (Location((A, A, A, A)), Location((A, A, B, B))),
    'widen_more': (Location((A, A, B, B)), Location((A, C, B, B))),
    'narrow': (Location((A, C, B, B)), Location((A, A, B, B))),
    'narrow_to_one': (Location((A, A, B, B)), Location((A, A, A, A))),
    'evacuate': (Location((A, A, B, B)), Location((C, C, B, B))),
}
STEPS = (MOVES['widen'], MOVES['widen_more'], MOVES['narrow'])


class World(test_lvm_walk.World):
    """A server has claimed 4 GiB on the first disk.

    ``row`` is what Cinder's database has of the volume.
    """

    lvm_class = fake_stripes.FakeStripes
    uuids = UUIDS
    sizes = 4, 8
    claim = {A: 4}  # noqa: RUF012

    def _setUp(self):
        super()._setUp()
        self.placement.claim('server', self.claim)
        self.row = {
            'id': '1',
            'name_id': '1',
            'size': 4,
            'host': HOST,
            'status': 'in-use',
            'provider_location': None,
            'provider_id': None,
        }
        self.snapshots = []
        self.deleted = False
        operations = self.driver.operations
        backend = backends.Backend(
            None, 'node@vdisk', 'any', operations, operations.backend
        )
        records = mock.Mock(others=self.records)
        self.purged = False
        for target, name, value in (
            (objects.Volume, 'get_by_id', self.read),
            (
                objects.SnapshotList,
                'get_all_for_volume',
                lambda *_: self.snapshots,
            ),
            (backends, 'from_conf', lambda conf: [backend]),
            (leg_mover.records, 'Records', lambda *_: records),
            (leg_steps, '_INTERVAL', 0),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def records(self, names):
        """Return the rows of Cinder's database, that of a deleted one too."""
        if self.purged:
            return []
        return [mock.Mock(vdisk='volume-1', id='1', deleted=self.deleted)]

    def read(self, context, volume_id):
        """Replace ``Volume.get_by_id``."""
        if self.deleted:
            raise cinder_exc.VolumeNotFound(volume_id=volume_id)
        volume = test_driver.volume(**self.row)

        def save():
            self.lvm.step('save')
            self.row['provider_location'] = volume.provider_location
            self.row['provider_id'] = volume.provider_id

        def refresh():
            volume.configure_mock(**self.row)

        volume.save, volume.refresh = save, refresh
        return volume

    @property
    def location(self):
        return Location.parse(self.row['provider_location'])

    @contextlib.contextmanager
    def killed_at(self, count):
        reshape = self.placement.reshape

        def counted(*arguments):
            self.lvm.step('reshape')
            reshape(*arguments)

        with (
            super().killed_at(count),
            mock.patch.object(self.placement, 'reshape', counted),
        ):
            yield

    def attach(self):
        """Attach the volume, which is bound at the first time."""
        update = self.driver.create_export(
            None, self.read(None, '1'), {'host': 'node'}
        )
        self.row.update(update or {})
        self.driver.initialize_connection(
            self.read(None, '1'), {'host': 'node'}
        )

    def start_at(self, location):
        """Bring the volume to a location, and have the server write to it."""
        self.attach()
        for _, new in STEPS:
            if self.location == location:
                break
            self.move(new)
        self.lvm.write_all('volume-1', 'own')

    def move(self, location, stopped=lambda: False):
        leg_mover.LegMover().move(
            '1', location, lambda done, total: None, stopped, 10
        )

    def recover(self):
        leg_mover.LegMover().recover()

    def remove(self):
        self.row['status'] = 'deleting'
        self.driver.delete_volume(self.read(None, '1'))
        self.deleted = True


class Walks(test_lvm_walk.DriverTestCase):
    """Kills moves of 4 GiB; ``minimum`` is 0 if they are not elastic."""

    stand_ins = ((bind_request, '_attaching_server', SERVER),)
    world = World
    minimum = 1

    def assertWhole(self, world, location, word):
        """The volume is on these disks, claimed there, and nothing else."""
        self.assertEqual(location, world.location)
        self.assertEqual(set(), world.lvm.suspended)
        places = [
            (uuid, 'volume-1' + suffix)
            for uuid, suffix in naming.pieces(location)
        ]
        for uuid, name in places:
            self.assertEqual({word}, {*world.lvm.of(uuid).read(name)})
        for uuid in UUIDS:
            held = groups.require(uuid).vdisks
            number = location.count(uuid) * 4 // len(location)
            self.assertEqual(
                [('volume-1', number, True, location, self.minimum, False)]
                if number
                else [],
                [
                    (
                        one.name,
                        one.size_gb,
                        one.usable,
                        one.stripe,
                        one.minimum,
                        one.moving,
                    )
                    for one in held
                ],
            )
            self.assertEqual(
                {'server': number} if number else {},
                world.placement.claims[uuid],
            )
            self.assertEqual(
                0, ledger.reserved_gb(held, world.placement.claims[uuid])
            )
        devices = set(world.lvm.devices)
        self.assertTrue(devices <= {'diskplacer-striped-volume-1'})
        if devices:
            self.assertEqual(
                places, world.lvm.places_of('diskplacer-striped-volume-1')
            )

    def assertReserved(self, world):
        """Each disk's space is claimed or reserved whenever it is killed."""
        for uuid in UUIDS:
            claims = world.placement.claims[uuid]
            offered = world.placement.offered[uuid]
            reserved = offered[fakes.placement_client.GB]['reserved']
            held = [
                one
                for one in groups.require(uuid).vdisks
                if not one.moving or one.stripe != world.location
            ]
            self.assertGreaterEqual(
                reserved + claims.get('server', 0),
                sum(one.size_gb for one in held),
            )

    def walk(self, old, new, after):
        """Kill a move at each step.

        :param after: is done afterwards, with the world and the number.
        """

        def kill(count):
            with self.world(ZERO if count % 2 else 'old') as world:
                world.start_at(old)
                killed = world.is_killed(count, lambda: world.move(new))
                self.assertReserved(world)
                # the server goes on
                world.lvm.write_all('volume-1', 'late')
                after(world, count)
                if not world.deleted:
                    world.remove()
                self.assertNothingIsLeft(world)
                backend = world.driver.backend
                self.assertIsNone(backend.recorded_move('volume-1'))
            return killed

        return self.count_steps(kill)

    def _repeated(self, old, new):
        def after(world, count):
            if count % 3 == 0:
                world.lvm.reboot()
                world.attach()
                world.lvm.write_all('volume-1', 'late')
            world.move(new)
            self.assertWhole(world, new, 'late')

        self.assertGreater(self.walk(old, new, after), 12)

    def _recovered(self, old, new):
        def after(world, count):
            if count % 3 == 0:
                world.lvm.reboot()
                world.attach()
                world.lvm.write_all('volume-1', 'late')
            location = world.location
            self.assertIn(location, (old, new))
            world.recover()
            self.assertWhole(world, location, 'late')
            world.recover()

        self.walk(old, new, after)


class BindWalkTestCase(test_lvm_walk.DriverTestCase):
    """Kills the first attachment to a server, and attaches to another one."""

    def attach(self, world, server):
        """Return what attaches the volume to a server."""

        def attach():
            with mock.patch.object(
                bind_request, '_attaching_server', return_value=server
            ):
                world.attach()

        return attach

    def kill_twice(self, first):
        """Kill an attachment, and each step of the next to another server."""
        other = dataclasses.replace(SERVER, uuid='other')

        def kill(second):
            with World(ZERO if first % 2 else 'old') as world:
                world.placement.claim('other', {B: 4})
                self.killed = world.is_killed(
                    first, self.attach(world, SERVER)
                )
                if not self.killed:
                    return False
                # it was bound for the server, as after an attachment
                is_bound = bool(world.location)
                attach = self.attach(world, other)
                killed = world.is_killed(second, attach)
                attach()
                self.assertReserved(world)
                if not is_bound:
                    self.assertNotOwned(world, 'server')
                return killed

        self.count_steps(kill)
        return self.killed

    def test_killed_twice(self):
        self.assertGreater(self.count_steps(self.kill_twice), 4)

    def assertNotOwned(self, world, server):
        """No leg is that of a server."""
        for uuid in UUIDS:
            for leg in groups.require(uuid).volumes:
                self.assertNotIn(f'{naming.SERVER}={server}', leg.tags)

    def assertReserved(self, world):
        """What no server claims is reserved."""
        for uuid in UUIDS:
            group = groups.require(uuid)
            claims = world.placement.claims[uuid]
            self.assertEqual(
                ledger.reserved_gb(group.vdisks, claims),
                world.placement.offered[uuid][GB]['reserved'],
            )


def assertClaims(test, world, claims, reserved):
    """What the server claims of each disk, and what is reserved there."""
    for uuid in UUIDS:
        offered = world.placement.offered[uuid][GB]
        test.assertEqual(
            (claims.get(uuid), reserved.get(uuid, 0)),
            (
                world.placement.claims[uuid].get('server'),
                offered['reserved'],
            ),
        )


class ToComeTestCase(test_lvm_walk.DriverTestCase):
    """The server claims space on each disk for a vdisk to come."""

    stand_ins = Walks.stand_ins

    def start_at(self, world, old, claims):
        """Bring the volume to a location, and replace the claims of it."""
        world.start_at(old)
        for uuid in UUIDS:
            world.placement.claims[uuid].clear()
        world.placement.claim('server', claims)
        for uuid in UUIDS:
            world.driver.operations.reserve(uuid)

    def test_both_vdisks_keep_their_claims(self):
        for old, new in MOVES.values():
            claims, moved = (
                {uuid: 3 + location.count(uuid) for uuid in UUIDS}
                for location in (old, new)
            )
            with World(ZERO) as world:
                self.start_at(world, old, claims)
                world.lvm.copied = 5
                self.assertRaises(
                    exception.DiskPlacerError, world.move, new, lambda: True
                )
                assertClaims(self, world, claims, {})
                world.lvm.copied = 100
                world.move(new)
                assertClaims(self, world, moved, {})

    def test_legs_without_a_claim(self):
        """They would fill that of the vdisk to come."""
        old, new = MOVES['widen']
        with World(ZERO) as world:
            self.start_at(world, old, {A: 3, B: 3})
            error = self.assertRaises(exception.DiskError, world.move, new)
            self.assertIn('claims for vdisks to come', str(error))
            self.assertEqual(old, world.location)
            assertClaims(self, world, {A: 3, B: 3}, {A: 1})
            world.placement.claims[B].clear()
            world.move(new)
            assertClaims(self, world, {A: 2, B: 1}, {B: 1})


class ToComeWorld(World):
    """The server claims 1 GiB more on the first disk, for a vdisk to come.

    Another one of its vdisks, on the second disk, is reserved.
    """

    claim = {A: 5}  # noqa: RUF012
    moved = {A: 3, B: 2}  # noqa: RUF012
    reserved = {B: 1}  # noqa: RUF012

    def _setUp(self):
        super()._setUp()
        for uuid, gb in self.reserved.items():
            self.driver.backend.create(uuid, 'volume-5', '5', 'server', gb)
            self.driver.operations.reserve(uuid)

    def remove(self):
        for uuid in self.reserved:
            self.driver.operations.delete(uuid, 'volume-5')
        super().remove()


class ToComeToTargetWorld(ToComeWorld):
    """The server claims 3 GiB on the second disk for a vdisk to come."""

    claim = {A: 4, B: 3}  # noqa: RUF012
    moved = {A: 2, B: 5}  # noqa: RUF012
    reserved = {}  # noqa: RUF012


class ToComeWalkTestCase(Walks):
    """The claim of a vdisk to come stays, whenever a move is killed."""

    def kill(self, world, finish):
        """Kill a move, and finish or undo it.

        :param finish: is called with the world and the new location.
        """
        self.world = world
        old, new = MOVES['widen']

        def after(world, count):
            finish(world, new)
            is_moved = world.location == new
            assertClaims(
                self,
                world,
                world.moved if is_moved else world.claim,
                world.reserved,
            )

        self.assertGreater(self.walk(old, new, after), 12)

    def test_repeated(self):
        self.kill(ToComeWorld, World.move)

    def test_repeated_where_one_is_to_come(self):
        self.kill(ToComeToTargetWorld, World.move)

    def test_recovered(self):
        self.kill(ToComeWorld, lambda world, new: world.recover())

    def test_recovered_where_one_is_to_come(self):
        self.kill(ToComeToTargetWorld, lambda world, new: world.recover())


class WalkTestCase(Walks):
    def test_repeated(self):
        self._repeated(*MOVES['widen'])

    def test_repeated_with_one_leg(self):
        self._repeated(*MOVES['widen_more'])

    def test_repeated_to_a_disk_with_legs(self):
        self._repeated(*MOVES['narrow'])

    def test_repeated_to_the_last_disk(self):
        self._repeated(*MOVES['narrow_to_one'])

    def test_repeated_to_a_disk_instead(self):
        self._repeated(*MOVES['evacuate'])

    def test_recovered(self):
        self._recovered(*MOVES['widen'])

    def test_recovered_to_a_disk_with_legs(self):
        self._recovered(*MOVES['narrow_to_one'])

    def test_deleted(self):
        def after(world, count):
            world.remove()
            world.recover()

        self.walk(*MOVES['narrow'], after)

    def test_a_volume_that_cinder_does_not_know(self):
        """As after its database was restored from an older backup."""
        old, new = MOVES['widen']
        with World('old') as world:
            world.start_at(old)
            with world.killed_at(9):
                self.assertRaises(fake_lvm.Killed, world.move, new)
            world.lvm.reboot()
            world.purged = True
            error = self.assertRaises(exception.DiskPlacerError, world.recover)
            self.assertIn('Cinder does not know', str(error))
            world.purged = False
            world.attach()
            world.recover()
            self.assertWhole(world, old, 'own')

    def test_the_source_is_lost_after_the_decision(self):
        """The move is finished once it is forgotten, whenever killed."""
        old, new = MOVES['evacuate']
        decided = []

        def kill(count):
            with self.world('old') as world:
                world.start_at(old)
                killed = world.is_killed(count, lambda: world.move(new))
                if not killed or world.location == old:
                    return killed
                decided.append(count)
                world.lvm.lost.add(A)
                if world.driver.backend.disk(C).has_moving('volume-1'):
                    for again in (world.recover, lambda: world.move(old)):
                        error = self.assertRaises(
                            exception.DiskPlacerError, again
                        )
                        self.assertIn('there is no volume group', str(error))
                os.unlink(os.path.join(world.lvm.root, A))
                discover.set_forgotten(world.lvm.root, A, True)
                world.recover()
                for uuid, number in ((B, 2), (C, 2)):
                    (held,) = groups.require(uuid).vdisks
                    self.assertEqual(
                        (number, new, True, False),
                        (held.size_gb, held.stripe, held.usable, held.moving),
                    )
                self.assertIsNone(
                    world.driver.backend.recorded_move('volume-1')
                )
                world.remove()
            return killed

        self.count_steps(kill)
        self.assertGreater(len(decided), 4)

    def test_another_move_while_the_target_is_away(self):
        """No leg is taken for copied that went to the disk that is away."""
        old, new = MOVES['widen']
        elsewhere = Location(C if disk == B else disk for disk in new)
        refused = []

        def after(world, count):
            if world.location == new:
                world.move(old)
                return
            world.lvm.lost.add(B)
            try:
                world.move(elsewhere)
            except exception.DiskPlacerError as error:
                self.assertIn('interrupted', str(error))
                refused.append(count)
            self.assertEqual(
                {'late'},
                {
                    word
                    for uuid, suffix in naming.pieces(world.location)
                    for word in world.lvm.of(uuid).read('volume-1' + suffix)
                },
            )
            world.lvm.lost.clear()
            world.recover()
            self.assertWhole(world, world.location, 'late')

        self.walk(old, new, after)
        self.assertGreater(len(refused), 2)

    def test_a_disk_that_answers_late(self):
        old, new = MOVES['widen']
        with self.world('old') as world:
            world.start_at(old)
            with world.killed_at(9):
                self.assertRaises(fake_lvm.Killed, world.move, new)
            disks = discover.discover(world.lvm.root)
            late = [
                dataclasses.replace(disk, health=discover.HUNG, vdisks=())
                for disk in disks
            ]
            answers = dict(zip(UUIDS, late, strict=True))
            backend = world.driver.backend
            with mock.patch.object(
                backend, 'disks', lambda wait: list(answers.values())
            ):
                error = self.assertRaises(exception.DiskError, world.recover)
                self.assertIn(f'disk {B} is hung', str(error))
                answers.update(zip(UUIDS, disks, strict=True))
                world.recover()
            self.assertFalse(backend.disk(B).vdisks)

    def test_another_move_instead(self):
        old, new = MOVES['widen']

        def after(world, count):
            if world.location == old:
                other = Location((A, A, C, C))
                world.move(other)
            else:
                other = Location((A, C, B, B))
                world.move(other)
            self.assertWhole(world, other, 'late')

        self.walk(old, new, after)

    def test_stopped_and_failed(self):
        old, new = MOVES['widen']
        for failing, reason in (
            (lambda world: setattr(world.lvm, 'copied', 5), 'was stopped'),
            (lambda world: world.lvm.dead.add(B), 'a disk failed'),
        ):
            with World('old') as world:
                world.start_at(old)
                failing(world)
                error = self.assertRaises(
                    exception.DiskPlacerError, world.move, new, lambda: True
                )
                self.assertIn(reason, str(error))
                self.assertWhole(world, old, 'own')

    def test_refused(self):
        old, new = MOVES['widen']
        for change, reason in (
            ({'status': 'extending'}, 'is extending, which is none of'),
            ({'migration_status': 'migrating'}, 'is being migrated'),
            ({'provider_id': 'elsewhere'}, 'is exported to another host'),
            ({'host': 'other@vdisk'}, 'belongs to other@vdisk'),
        ):
            with World('old') as world:
                world.start_at(old)
                before = dict(world.row)
                world.row.update(change)
                error = self.assertRaises(
                    exception.DiskPlacerError, world.move, new
                )
                self.assertIn(reason, str(error))
                world.row = before
                self.assertWhole(world, old, 'own')
        with World('old') as world:
            world.start_at(old)
            world.snapshots = [world.snapshot]
            error = self.assertRaises(
                exception.DiskPlacerError, world.move, new
            )
            self.assertIn('has snapshots: delete them first', str(error))
            world.snapshots = []
            for wrong in ((A, B, A, A), (B, B, C, C), (A, A, A)):
                error = self.assertRaises(
                    exception.DiskPlacerError, world.move, wrong
                )
                self.assertIn('is not one step', str(error))
            # no room
            world.driver.backend.create(B, 'other', 'x', None, 19)
            error = self.assertRaises(
                exception.DiskPlacerError, world.move, new
            )
            self.assertIn('has no room to hold 2 GiB of volume-1', str(error))
            self.assertFalse(
                any(one.moving for one in groups.require(B).vdisks)
            )

    def test_operations_meanwhile(self):
        old, new = MOVES['widen']
        location = str(Location(old))
        with World('old') as world:
            world.start_at(old)
            world.lvm.copied = 5
            refused = []

            def stopped():
                for operation in (
                    world.extend,
                    world.freeze,
                    world.copy,
                    world.revert,
                ):
                    world.volume = world.read(None, '1')
                    world.snapshot.volume = world.volume
                    world.snapshot.provider_location = location
                    error = self.assertRaises(
                        cinder_exc.VolumeDriverException, operation
                    )
                    refused.append(str(error))
                return True

            self.assertRaises(
                exception.DiskPlacerError, world.move, new, stopped
            )
            self.assertEqual(4, len(refused))
            for text in refused:
                self.assertIn('being moved to other disks', text)
            self.assertWhole(world, old, 'own')
            # a request that began before the move finds the volume
            world.lvm.copied = 100
            world.volume = world.read(None, '1')

            def stopped():
                # Cinder keeps the rows of what is refused
                world.row['status'] = 'error_extending'
                return False

            world.row['status'] = 'available'
            world.snapshot.configure_mock(
                status='error', provider_location=None, provider_id=None
            )
            world.snapshots = [world.snapshot]
            world.lvm.copied = 5
            with mock.patch.object(
                leg_steps.time,
                'sleep',
                lambda _: setattr(world.lvm, 'copied', 100),
            ):
                world.move(new, stopped)
            world.row['status'] = 'in-use'
            self.assertWhole(world, new, 'own')
            world.extend()
            self.assertEqual(new, world.location)
            self.assertEqual({'own', 'zero'}, self.words(world, 'volume-1'))

    def test_life(self):
        """All that the driver does, at several widths."""
        for _, location in (((), (A, A, A, A)), *STEPS):
            with World('old') as world:
                world.start_at(location)
                world.volume = world.read(None, '1')
                world.snapshot.volume = world.volume
                world.freeze()
                self.assertEqual(
                    world.volume.provider_location,
                    world.snapshot.provider_location,
                )
                world.lvm.write_all('volume-1', 'late')
                world.clone.size = 4
                world.copy()
                world.driver.remove_export(None, world.volume)
                world.revert()
                self.assertEqual({'own'}, self.words(world, 'volume-1'))
                self.assertEqual({'late'}, self.words(world, 'volume-2'))
                self.assertEqual({'own'}, self.words(world, 'snapshot-s'))
                self.snapshot_of_group(world)
                world.extend()
                self.assertEqual({'own', ZERO}, self.words(world, 'volume-1'))
                world.row['size'] = 8
                for uuid in world.location:
                    number = world.location.count(uuid)
                    held = {
                        one.name: one for one in groups.require(uuid).vdisks
                    }
                    self.assertEqual(
                        [2 * number, number, number],
                        [
                            held[name].size_gb
                            for name in ('volume-1', 'volume-2', 'snapshot-s')
                        ],
                    )
                world.attach()
                world.driver.delete_volume(world.clone)
                world.thaw()
                world.remove()
                self.assertNothingIsLeft(world)

    def snapshot_of_group(self, world):
        one = mock.Mock(id='g', volume_id='1', volume=world.volume)
        (update,) = groups_.create_snapshots(
            world.driver.operations, None, [one]
        )
        one.provider_location = update['provider_location']
        self.assertEqual({'own'}, self.words(world, 'snapshot-g'))
        world.driver.delete_snapshot(one)

    def words(self, world, name):
        return {
            word
            for uuid, suffix in naming.pieces(world.location)
            for word in world.lvm.of(uuid).read(name + suffix)
        }
