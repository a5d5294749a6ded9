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

"""Legs of elastic vdisks, and the devices over them."""

from unittest import mock

import fixtures
import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripe_snapshots
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import sysfs
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm
from tests.unit.nova_diskplacer.disks.lvm import fake_stripes

GIB = fake_lvm.GIB
UUIDS = fake_stripes.UUIDS
A, B, C = UUIDS
NARROW = Location((A, A, A, A))
WIDE = Location((A, A, B, B))
SIZE = 4 * GIB
DEVICE = 'diskplacer-striped-volume-1'


class NamesTest(testtools.TestCase):
    @hypothesis.given(st.sampled_from((2, 3, 4, 6)), st.data())
    def test_a_leg_keeps_its_name(self, number, data):
        """Whatever the steps: names are distinct on a disk, and stay."""
        disks = [f'd{index}' for index in range(number)]
        minimum = data.draw(
            st.sampled_from([n for n in range(1, number) if number % n == 0])
        )
        location = Location.narrowest(tuple(disks[:minimum]), number)
        for _ in range(8):
            before = naming.pieces(location)
            self.assertEqual(number, len(set(before)))
            # the lowest leg of each disk has the name of the vdisk
            for disk in location:
                self.assertIn((disk, ''), before)
            free = [disk for disk in disks if disk not in location]
            after = None
            if free and data.draw(st.booleans()):
                after = location.widened(data.draw(st.sampled_from(free)))
            after = after or location.narrowed(minimum)
            if after is None:
                continue
            step = location.step_to(after)
            now = naming.pieces(after)
            for leg in range(number):
                if leg not in step.legs:
                    self.assertEqual(before[leg], now[leg])
            location = after

    def test_names(self):
        self.assertEqual(
            [(A, ''), (A, '.1'), (B, ''), (B, '.3')], naming.pieces(WIDE)
        )
        self.assertEqual('volume-1', naming.whole_name('volume-1.3'))
        self.assertEqual('volume-1', naming.whole_name('volume-1'))
        self.assertEqual('a.b.12', naming.whole_name('a.b.12'))


class LegsTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.lvm = self.useFixture(fake_stripes.FakeStripes())

    def create(self, location=NARROW):
        for uuid, suffix in naming.pieces(location):
            volumes.create_piece(
                uuid, 'volume-1' + suffix, '1', 'server', GIB, location, 1
            )
        for number, place in enumerate(naming.pieces(location)):
            self.write(place, f'leg {number}')

    def write(self, place, word):
        self.lvm.of(place[0]).write('volume-1' + place[1], word)

    def words(self, location):
        """Return what each leg at a location has, if it is one word."""
        found = []
        for uuid, suffix in naming.pieces(location):
            words = {*self.lvm.of(uuid).read('volume-1' + suffix)}
            found.append(words.pop() if len(words) == 1 else words)
        return found

    def activate(self, location=NARROW):
        return stripes.activate_stripe(location, 'volume-1', SIZE)

    def begin(self, old=NARROW, new=WIDE):
        leg_moves.create_legs(old, 'volume-1', new)
        leg_moves.begin_move(old, 'volume-1', new, SIZE, 10)

    def table(self):
        return self.lvm.devices[DEVICE]

    def places(self, location):
        return [
            (uuid, 'volume-1' + suffix)
            for uuid, suffix in naming.pieces(location)
        ]


class LegMovesTestCase(LegsTestCase):
    def test_copied_to_another_disk_that_is_away(self):
        self.create()
        self.activate()
        self.begin()
        self.assertEqual(
            (2 * GIB, 2 * GIB),
            leg_moves.move_progress(NARROW, 'volume-1', WIDE),
        )
        self.lvm.lost = {B}
        elsewhere = Location((A, A, C, C))
        leg_moves.create_legs(NARROW, 'volume-1', elsewhere)
        for work in (
            lambda: leg_moves.begin_move(
                NARROW, 'volume-1', elsewhere, SIZE, 10
            ),
            lambda: leg_moves.move_progress(NARROW, 'volume-1', elsewhere),
            lambda: leg_moves.complete_legs(NARROW, 'volume-1', elsewhere),
        ):
            error = self.assertRaises(exception.DiskError, work)
            self.assertIn('another move of it was interrupted', str(error))
        # it is taken back, and the copy ends with it
        leg_moves.end_move(NARROW, 'volume-1', SIZE)
        self.assertEqual(
            [f'leg {number}' for number in range(4)], self.words(NARROW)
        )
        leg_moves.begin_move(NARROW, 'volume-1', elsewhere, SIZE, 10)
        leg_moves.complete_legs(NARROW, 'volume-1', elsewhere)

    def test_vdisks(self):
        self.create(WIDE)
        for uuid in (A, B):
            (vdisk,) = groups.require(uuid).vdisks
            self.assertEqual(
                ('volume-1', 2 * GIB, True, 1, False),
                (
                    vdisk.name,
                    vdisk.size_bytes,
                    vdisk.usable,
                    vdisk.minimum,
                    vdisk.moving,
                ),
            )
            self.assertEqual((A, A, B, B), vdisk.stripe)
        self.assertEqual(
            ['volume-1', 'volume-1.3'], volumes.legs(B, 'volume-1')
        )
        self.assertEqual([], volumes.legs(C, 'volume-1'))
        # a vdisk whose name looks like that of a leg
        volumes.create(C, 'volume-1', '1', None, GIB)
        volumes.create(C, 'volume-1.2', '2', None, GIB)
        self.assertEqual(
            ['volume-1', 'volume-1.2'],
            [vdisk.name for vdisk in groups.require(C).vdisks],
        )
        self.assertEqual(['volume-1'], volumes.legs(C, 'volume-1'))

    def test_move(self):
        self.create()
        self.activate()
        before = self.table()
        self.lvm.copied = 40
        self.begin()
        self.begin()
        (coming,) = groups.require(B).vdisks
        self.assertEqual(
            (False, True, 2 * GIB),
            (coming.usable, coming.moving, coming.size_bytes),
        )
        move = NARROW, 'volume-1', WIDE
        self.assertEqual(
            (2 * (GIB * 40 // 100), 2 * GIB), leg_moves.move_progress(*move)
        )
        error = self.assertRaises(
            exception.DiskError, leg_moves.complete_legs, *move
        )
        self.assertIn('not copied yet', str(error))
        # the geometry of the stripe does not change
        self.assertEqual(before.split()[:5], self.table().split()[:5])
        self.lvm.write_all('volume-1', 'late')
        self.assertEqual({'late'}, set(self.words(WIDE)))
        self.lvm.copied = 100
        leg_moves.move_progress(*move)
        leg_moves.complete_legs(*move)
        self.assertEqual(
            (NARROW, WIDE), leg_moves.interrupted_move(B, 'volume-1')
        )
        leg_moves.end_move(WIDE, 'volume-1', SIZE)
        self.assertEqual([DEVICE], list(self.lvm.devices))
        self.assertEqual(self.places(WIDE), self.lvm.places_of(DEVICE))
        leg_moves.settle_legs(WIDE, 'volume-1', NARROW, False)
        self.assertIsNone(leg_moves.interrupted_move(B, 'volume-1'))
        self.assertIsNone(leg_moves.interrupted_move(A, 'volume-1'))
        left = leg_moves.moving_legs(A, 'volume-1')
        self.assertEqual(['volume-1.2', 'volume-1.3'], left)
        for name in left:
            volumes.delete(A, name)
        for uuid in (A, B):
            (vdisk,) = groups.require(uuid).vdisks
            self.assertEqual(
                ((A, A, B, B), True, False, 2 * GIB),
                (vdisk.stripe, vdisk.usable, vdisk.moving, vdisk.size_bytes),
            )
        stripes.deactivate('volume-1')
        self.activate(WIDE)
        self.assertEqual(self.places(WIDE), self.lvm.places_of(DEVICE))

    def commands_of(self, call, *arguments):
        """Return the commands that a call runs."""
        with mock.patch.object(commands, 'run', wraps=commands.run) as run:
            call(*arguments)
        return [one.args for one in run.mock_calls]

    def test_legs_of_one_disk_move_to_one_disk(self):
        self.create(WIDE)
        for new in (WIDE, (A, A, C, A), (C, A, A, B), (A, A)):
            error = self.assertRaises(
                exception.DiskError,
                leg_moves.create_legs,
                WIDE,
                'volume-1',
                Location(new),
            )
            self.assertIn('is no step', str(error))
        for uuid in UUIDS:
            self.assertFalse(
                any(vdisk.moving for vdisk in groups.require(uuid).vdisks)
            )

    def test_a_place_that_fails_while_legs_are_copied(self):
        self.create()
        self.activate()
        leg_moves.create_legs(NARROW, 'volume-1', WIDE)
        begun = self.commands_of(
            leg_moves.begin_move, NARROW, 'volume-1', WIDE, SIZE, 10
        )
        mirrors = [
            table
            for _, what, *rest in begun
            if what == 'load'
            for table in [rest[1]]
            if ' mirror ' in table
        ]
        self.assertEqual(2, len(mirrors))
        for table in mirrors:
            # otherwise the kernel drops what a place did not take
            self.assertTrue(table.endswith(' 1 handle_errors'), table)
        # without this, the requests that wait for the other place fail
        moving = [
            (what, *rest)
            for _, what, *rest in self.commands_of(
                leg_moves.end_move, NARROW, 'volume-1', SIZE
            )
            if what == 'resume' and 'moving' in rest[-1]
        ]
        self.assertEqual(2, sum('--noflush' in one for one in moving))
        resumed = [one for one in moving if '--nolockfs' in one]
        self.assertEqual([True] * 2, ['--noflush' in one for one in resumed])

    def test_writes_that_wait_for_a_place_that_failed(self):
        """They are repeated there, without LVM: the disk may be gone."""
        for moved, uuid in ((False, A), (True, B)):
            self.lvm.copied = 40
            self.create()
            self.activate()
            self.begin()
            self.lvm.dead.add(uuid)
            run = self.commands_of(leg_moves.release_writes, 'volume-1', moved)
            self.assertEqual({'dmsetup'}, {words[0] for words in run})
            resumed = [words for words in run if words[1] == 'resume']
            self.assertEqual(
                [True] * 2, ['--noflush' in words for words in resumed]
            )
            self.assertEqual(
                self.places(WIDE if moved else NARROW),
                self.lvm.places_of(DEVICE),
            )
            # again
            run = self.commands_of(leg_moves.release_writes, 'volume-1', moved)
            self.assertEqual({'table'}, {words[1] for words in run})
            # the disk is back
            self.lvm.dead.clear()
            leg_moves.end_move(NARROW, 'volume-1', SIZE)
            self.assertEqual(self.places(NARROW), self.lvm.places_of(DEVICE))
            for uuid in (A, B):
                for name in volumes.legs(uuid, 'volume-1'):
                    volumes.delete(uuid, name)

    def test_zeros_are_durable_before_the_space_is_free(self):
        self.create()
        volumes.mark_deleted(A, 'volume-1')
        volumes.zero(A, 'volume-1')
        order = []
        flush, run = blockcopy.flush, commands.run
        with (
            mock.patch.object(
                blockcopy,
                'flush',
                lambda path: order.append('flush') or flush(path),
            ),
            mock.patch.object(
                commands,
                'run',
                lambda *words, **more: (
                    order.append(words[0]) or run(*words, **more)
                ),
            ),
        ):
            volumes.remove(A, 'volume-1', True)
        self.assertIn('flush', order[: order.index('lvremove')])

    def test_taken_back(self):
        self.create()
        self.activate()
        self.begin()
        self.lvm.dead.add(B)
        error = self.assertRaises(
            exception.DiskError,
            leg_moves.move_progress,
            NARROW,
            'volume-1',
            WIDE,
        )
        self.assertIn('a disk failed', str(error))
        self.lvm.dead.clear()
        leg_moves.end_move(NARROW, 'volume-1', SIZE)
        leg_moves.end_move(NARROW, 'volume-1', SIZE)
        self.assertEqual(self.places(NARROW), self.lvm.places_of(DEVICE))
        self.assertRaises(
            exception.DiskError,
            leg_moves.move_progress,
            NARROW,
            'volume-1',
            WIDE,
        )
        for name in leg_moves.moving_legs(B, 'volume-1'):
            volumes.delete(B, name)
        self.assertEqual((), groups.require(B).vdisks)
        # the device stays
        self.assertEqual([DEVICE], list(self.lvm.devices))
        self.assertEqual(
            [f'leg {number}' for number in range(4)], self.words(NARROW)
        )

    def test_a_copy_whose_host_was_booted_begins_anew(self):
        self.create()
        self.activate()
        self.begin()
        move = NARROW, 'volume-1', WIDE
        leg_moves.move_progress(*move)
        leg_moves.complete_legs(*move)
        self.lvm.reboot()
        self.activate()
        self.assertEqual(self.places(NARROW), self.lvm.places_of(DEVICE))
        self.lvm.write_all('volume-1', 'later')
        self.lvm.copied = 0
        self.begin()
        self.assertFalse(groups.require(B).vdisks[0].usable)
        self.assertEqual(0, leg_moves.move_progress(*move)[0])

    def test_a_copy_that_was_half_taken_back_begins_anew(self):
        self.create()
        self.activate()
        self.begin()
        for count in range(9):
            try:
                with self.lvm.killed_at(count):
                    leg_moves.end_move(NARROW, 'volume-1', SIZE)
            except fake_lvm.Killed:
                self.assertEqual(
                    self.places(NARROW),
                    [
                        place
                        for place in self.lvm.places_of(DEVICE)
                        if place[0] == A
                    ],
                )
            self.begin()
            leg_moves.move_progress(NARROW, 'volume-1', WIDE)
            self.assertEqual(6, len(self.lvm.places_of(DEVICE)))

    def test_attached_after_it_was_decided(self):
        """Tags still have the old location."""
        self.create()
        self.begin()
        move = NARROW, 'volume-1', WIDE
        leg_moves.move_progress(*move)
        self.assertRaises(exception.DiskError, self.activate, WIDE)
        leg_moves.complete_legs(*move)
        self.activate(WIDE)
        self.assertEqual(6, len(self.lvm.places_of(DEVICE)))
        self.lvm.reboot()
        self.activate(WIDE)
        self.assertEqual(self.places(WIDE), self.lvm.places_of(DEVICE))

    def test_deleted_meanwhile(self):
        self.create()
        self.activate()
        self.begin()
        for uuid in (A, B):
            for name in volumes.legs(uuid, 'volume-1'):
                volumes.delete(uuid, name)
            self.assertEqual({}, self.lvm.devices)
            self.assertEqual((), groups.require(uuid).vdisks)

    def block_sizes(self, used, target):
        """Return a patch by which a device and all disks have block sizes."""
        return mock.patch.object(
            sysfs,
            'logical_block_size',
            lambda path: target if path == fake_lvm.DEVICE else used,
        )

    def test_larger_blocks(self):
        move = NARROW, 'volume-1', WIDE
        self.create()
        self.activate()
        with self.block_sizes(512, 4096):
            error = self.assertRaises(
                exception.DiskError, leg_moves.create_legs, *move
            )
            self.assertIn('blocks of 4096 bytes', str(error))
            self.assertEqual((), groups.require(B).vdisks)
            stripes.deactivate('volume-1')
            leg_moves.create_legs(*move)
            # it is attached in this moment
            self.activate()
            before = self.table()
            self.assertRaises(
                exception.DiskError, leg_moves.begin_move, *move, SIZE, 10
            )
            self.assertEqual(before, self.table())
        for sizes in ((4096, 4096), (4096, 512)):
            with self.block_sizes(*sizes):
                self.begin()

    def test_refused(self):
        self.create()
        stripe_snapshots.snapshot_stripe(NARROW, 'volume-1', 'snapshot-s', 's')
        (_, frozen) = sorted(
            groups.require(A).vdisks, key=lambda one: one.name, reverse=True
        )
        self.assertEqual(
            ('snapshot-s', 4 * GIB, True),
            (frozen.name, frozen.size_bytes, frozen.usable),
        )
        error = self.assertRaises(
            exception.DiskError,
            leg_moves.create_legs,
            NARROW,
            'volume-1',
            WIDE,
        )
        self.assertIn('has snapshots', str(error))
        for name in volumes.legs(A, 'snapshot-s'):
            volumes.delete(A, name)
        volumes.create(B, 'volume-1', '1', None, GIB)
        error = self.assertRaises(
            exception.DiskError,
            leg_moves.create_legs,
            NARROW,
            'volume-1',
            WIDE,
        )
        self.assertIn('still has a vdisk volume-1', str(error))
