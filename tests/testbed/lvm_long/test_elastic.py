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

"""Moves of legs of striped vdisks on the real device mapper."""

import contextlib
import errno
import mmap
import os
import random
import threading
import types
from unittest import mock

import fixtures

from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.moves import leg_steps
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

MIB = base.MIB
DISKS = 4
LEGS = 4
LEG = 8 * MIB
SIZE = LEGS * LEG
BLOCK = 4096
NAME = 'volume-1'
DEVICE = naming.striped_device(NAME)
#: the disk that may die is this device over a spare one
MORTAL = 'mortal'
START = 2048
THROTTLE = '/sys/module/dm_mirror/parameters/raid1_resync_throttle'


class Writes:
    """Random writes to a device, and what each block of it must have.

    A block has its number and the number of the write.
    """

    def __init__(self, path):
        self.path = path
        self.last = [0] * (SIZE // BLOCK)
        self.error = None
        self._stopped = threading.Event()
        self._random = random.Random(1)

    def write(self, count):
        """Write to random blocks."""
        with self._opened() as descriptor:
            self._write(descriptor, count)

    def _write(self, descriptor, count):
        with mmap.mmap(-1, BLOCK) as buffer:
            for _ in range(count):
                block = self._random.randrange(len(self.last))
                number = self.last[block] + 1
                buffer[:16] = self.content(block, number)
                os.pwritev(descriptor, [buffer], block * BLOCK)
                self.last[block] = number

    @staticmethod
    def content(block, number):
        return (block if number else 0).to_bytes(8) + number.to_bytes(8)

    def wrong(self):
        """Return the blocks that do not have what was written last."""
        found = []
        with self._opened() as descriptor, mmap.mmap(-1, MIB) as buffer:
            for start in range(0, SIZE, MIB):
                os.preadv(descriptor, [buffer], start)
                data = buffer[:]
                for offset in range(0, MIB, BLOCK):
                    block = (start + offset) // BLOCK
                    wanted = self.content(block, self.last[block])
                    if data[offset : offset + 16] != wanted:
                        found.append(block)
        return found

    @contextlib.contextmanager
    def going_on(self):
        """Write in the background."""
        thread = threading.Thread(target=self._go_on)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _go_on(self):
        try:
            with self._opened() as descriptor:
                while not self._stopped.is_set():
                    self._write(descriptor, 50)
        except OSError as error:
            self.error = error

    @contextlib.contextmanager
    def _opened(self):
        descriptor = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class Vdisk:
    """A striped vdisk; ``location`` is what Cinder's database has.

    ``lost`` tells that the disk that its legs leave is missing.
    """

    def __init__(self, location):
        self.location = Location(location)
        self.percent = 100
        self.lost = False

    def move(self, new):
        """Return the steps of a move to a location, as ``LegSteps``."""
        old, new = self.location, Location(new)
        step = old.step_to(new)
        move = old, NAME, new

        def begin():
            leg_moves.create_legs(*move)
            leg_moves.begin_move(*move, SIZE, self.percent)

        def decide():
            leg_moves.complete_legs(*move)
            self.location = new

        def finish():
            leg_moves.end_move(move[2], NAME, SIZE)
            leg_moves.settle_legs(move[2], NAME, move[0], False)
            delete_moving(step.source)
            resync_throttle.release_throttle()

        def undo():
            if self.lost:
                leg_moves.release_writes(NAME, False)
                raise exception.DiskError('the source is missing')
            leg_moves.end_move(move[0], NAME, SIZE)
            delete_moving(step.target)
            resync_throttle.release_throttle()

        return types.SimpleNamespace(
            is_decided=lambda: self.location == new,
            begin=begin,
            copied=lambda: leg_moves.move_progress(*move),
            pace=lambda done: resync_throttle.limit_copies(self.percent),
            decide=decide,
            finish=finish,
            undo=undo,
        )


def run(move, stopped=lambda: False):
    leg_steps.run(move, lambda done, total: None, stopped)


def delete_moving(uuid):
    for leg in leg_moves.moving_legs(uuid, NAME):
        volumes.mark_deleted(uuid, leg)
        volumes.zero(uuid, leg)
    leg_moves.remove_legs(uuid, NAME, wiped=True)


class Killed(BaseException):
    """The process was killed at this point."""


@contextlib.contextmanager
def killed_at(count):
    """Kill the process before a command that changes something.

    :param count: of such commands, from 0.
    """
    run, left = commands.run, [count]

    def counted(*command):
        if command[0] != 'lvm' and command[1] not in ('table', 'status'):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        return run(*command)

    with mock.patch.object(commands, 'run', counted):
        yield


class ElasticTestCase(base.LVMTestCase):
    devices = DISKS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.mortal = cls.spare[-1]
        # so that LVM finds what is on it in one place only
        sectors = int(shell.run('blockdev', '--getsz', cls.mortal)) - START
        cls.sectors = sectors
        shell.run(
            'dmsetup', 'create', MORTAL,
            '--table', f'0 {sectors} linear {cls.mortal} {START}',
        )  # fmt: skip
        cls.addClassCleanup(shell.run, 'dmsetup', 'remove', '--retry', MORTAL)
        devices = [*cls.spare[:-1], f'/dev/mapper/{MORTAL}']
        cls.addClassCleanup(base.erase, devices[-1])
        cls.uuids = [cls.prepared(device).uuid for device in devices]

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._launcher',
                privsep_lvm._CONFINED,
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder_vdisk_mapper.moves.leg_steps._INTERVAL', 0.1
            )
        )
        self.addCleanup(self.purge)
        self.a, self.b, self.c, self.d = self.uuids
        self.make(Location((self.a,) * LEGS), 1)

    def make(self, location, minimum):
        self.vdisk = Vdisk(location)
        leg = SIZE // len(location)
        for uuid, suffix in self.pieces():
            volumes.create_piece(
                uuid,
                NAME + suffix,
                '1',
                'server',
                leg,
                self.vdisk.location,
                minimum,
            )
        self.activate()
        self.writes = Writes(DEVICE)

    def purge(self):
        udev.settle()
        for uuid in self.uuids:
            for leg in volumes.legs(uuid, NAME):
                volumes.delete(uuid, leg)

    def pieces(self):
        return naming.pieces(self.vdisk.location)

    def activate(self):
        return stripes.activate_stripe(self.vdisk.location, NAME, SIZE)

    def move(self, new, stopped=lambda: False):
        run(self.vdisk.move(new), stopped)

    def assertWhole(self):
        """Nothing was lost, and nothing is left of a move."""
        self.assertEqual([], self.writes.wrong())
        leg = SIZE // len(self.vdisk.location)
        for uuid in self.uuids:
            number = self.vdisk.location.count(uuid)
            self.assertEqual(
                [(number * leg, self.vdisk.location, True, False)]
                if number
                else [],
                [
                    (one.size_bytes, one.stripe, one.usable, one.moving)
                    for one in groups.require(uuid).vdisks
                ],
            )
        self.assertNotIn('diskplacer-moving', shell.run('dmsetup', 'ls'))
        self.assertEqual(
            f'0 {SIZE // 512} striped {len(self.vdisk.location)}',
            ' '.join(shell.run('dmsetup', 'table', DEVICE).split()[:4]),
        )

    def widths(self):
        """Return the locations from one disk to all and back."""
        found = [self.vdisk.location]
        for disk in self.uuids[1:]:
            found.append(found[-1].widened(disk))
        while narrower := found[-1].narrowed(1):
            found.append(narrower)
        return found[1:]

    def test_moved_under_load(self):
        found = self.widths()
        self.assertEqual([2, 3, 4, 3, 2, 1], [len({*one}) for one in found])
        with self.writes.going_on():
            for location in found:
                self.move(location)
        self.assertIsNone(self.writes.error)
        self.assertGreater(sum(self.writes.last), 200)
        self.assertWhole()
        # each byte is where the layout says, at the full width too
        self.move(found[0])
        self.move(found[1])
        self.move(found[2])
        self.assertWhole()
        for leg, (uuid, suffix) in enumerate(self.pieces()):
            self.assertEqual('', suffix)
            block = leg * naming.CHUNK_BYTES // BLOCK
            piece = naming.device_path(uuid, NAME)
            number = self.writes.last[block]
            self.assertEqual(
                self.writes.content(block, number), base.read(piece, 16)
            )
        places = base.places(self.b, NAME)
        stripes.deactivate(NAME)
        self.purge()
        self.assertTrue(base.is_zero(self.spare[1], places))

    def test_what_has_left_is_wiped(self):
        self.writes.write(4000)
        old = [
            place
            for suffix in ('.2', '.3')
            for place in base.places(self.a, NAME + suffix)
        ]
        self.assertFalse(base.is_zero(self.spare[0], old))
        self.move((self.a, self.a, self.b, self.b))
        self.assertTrue(base.is_zero(self.spare[0], old))
        self.assertWhole()

    def test_killed(self):
        """The process is killed at steps, and the host may be booted."""
        wide = self.a, self.a, self.b, self.b
        self.assertGreater(self.kill_to_and_fro(wide), 4)

    def kill_to_and_fro(self, other):
        """Kill moves to another location and back after more and more steps.

        :returns: how many were killed.
        """
        one = self.vdisk.location
        for count in range(99):
            move = self.vdisk.move(
                other if self.vdisk.location == one else one
            )
            killed = True
            with contextlib.suppress(Killed), killed_at(6 * count):
                run(move)
                killed = False
            self.writes.write(30)
            if count % 4 == 1:
                self.reboot()
                self.activate()
                self.writes.write(30)
            if killed and count % 2:
                leg_steps.take_back(move)
            else:
                run(move)
            self.assertWhole()
            if not killed:
                return count
        raise AssertionError('the move has too many steps')

    def test_a_piece_of_a_striped_vdisk(self):
        """It goes to another disk, as in a drain."""
        stripes.deactivate(NAME)
        self.purge()
        self.make((self.a, self.b), 0)
        with self.writes.going_on():
            self.move((self.c, self.b))
        self.assertIsNone(self.writes.error)
        self.assertWhole()

    def test_killed_while_the_kernel_copies(self):
        """It goes on, and another process finds it."""
        new = (self.a, self.a, self.b, self.b)
        with self.writes.going_on():
            self.vdisk.percent = 1
            self.vdisk.move(new).begin()
            self.assertIn('diskplacer-moving', shell.run('dmsetup', 'ls'))
            self.vdisk.percent = 100
            self.move(new)
        self.assertIsNone(self.writes.error)
        self.assertWhole()

    def reboot(self):
        """Have all devices go, as when the host is booted."""
        udev.settle()
        stripes.remove_devices(NAME)
        for uuid in self.uuids:
            shell.run('vgchange', '-an', naming.group_name(uuid))

    @contextlib.contextmanager
    def mortal_disk(self):
        """Yield what has the mortal disk die, and revive it afterwards."""
        failed = []

        def die():
            if not failed:
                shell.run(
                    'dmsetup', 'load', MORTAL,
                    '--table', f'0 {self.sectors} error',
                )  # fmt: skip
                shell.run('dmsetup', 'resume', '--noflush', MORTAL)
                failed.append(True)
            return False

        try:
            yield die
        finally:
            shell.run(
                'dmsetup', 'load', MORTAL,
                '--table', f'0 {self.sectors} linear {self.mortal} {START}',
            )  # fmt: skip
            shell.run('dmsetup', 'resume', MORTAL)

    def test_the_source_dies(self):
        """The server has an error, and does not wait for the disk."""
        stripes.deactivate(NAME)
        self.purge()
        self.make(Location((self.d,) * LEGS), 1)
        before = self.vdisk.location
        self.writes.write(200)
        self.vdisk.percent = 1
        new = (self.d, self.d, self.a, self.a)

        with self.mortal_disk() as die:

            def lose():
                self.vdisk.lost = True
                return die()

            with self.writes.going_on():
                self.assertRaises(exception.DiskError, self.move, new, lose)
            # the writer has ended, which one that waits never does
            self.assertEqual(errno.EIO, self.writes.error.errno)
        self.vdisk.lost = False
        self.assertEqual(before, self.vdisk.location)
        leg_steps.take_back(self.vdisk.move(new))
        # the write that failed may have arrived
        self.writes = Writes(DEVICE)
        self.writes.write(200)
        self.move(new)

    def test_the_target_dies(self):
        before = self.vdisk.location
        self.writes.write(200)
        self.vdisk.percent = 1

        with self.mortal_disk() as die, self.writes.going_on():
            self.assertRaises(
                exception.DiskError,
                self.move,
                (self.a, self.a, self.d, self.d),
                die,
            )
            written = sum(self.writes.last)
            while sum(self.writes.last) < written + 100:
                self.assertIsNone(self.writes.error)
        self.assertIsNone(self.writes.error)
        self.assertEqual([], self.writes.wrong())
        # what is left there goes when it is back
        self.assertEqual(before, self.vdisk.location)
        leg_steps.take_back(self.vdisk.move((self.a, self.a, self.d, self.d)))
        self.assertWhole()

    def test_throttle(self):
        self.vdisk.percent = 1
        new = (self.a, self.a, self.b, self.b)
        before = base.read(THROTTLE, 9) if os.path.exists(THROTTLE) else b''
        seen = []

        def stopped():
            with open(THROTTLE, encoding='ascii') as stream:
                seen.append(stream.read().strip())
            # it may be killed now
            return True

        with contextlib.suppress(exception.DiskPlacerError):
            self.move(new, stopped)
        if seen:
            self.assertEqual(['1'], seen)
        with open(THROTTLE, 'rb') as stream:
            self.assertEqual(before or b'100\n', stream.read())
        self.assertWhole()
