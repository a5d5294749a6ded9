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

"""Moves of legs under load, that are killed, or whose target disk dies."""

import contextlib
from unittest import mock

from cinder_vdisk_mapper.moves import leg_steps
from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripes
from tests import shell
from tests.testbed.lvm import base
from tests.testbed.lvm_long import elastic
from tools.testbed import udev


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


class LongMovesTestCase(elastic.ElasticTestCase):
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
                elastic.run(move)
                killed = False
            self.writes.write(30)
            if count % 4 == 1:
                self.reboot()
                self.activate()
                self.writes.write(30)
            if killed and count % 2:
                leg_steps.take_back(move)
            else:
                elastic.run(move)
            self.assertWhole()
            if not killed:
                return count
        raise AssertionError('the move has too many steps')

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
        stripes.remove_devices(elastic.NAME)
        for uuid in self.uuids:
            shell.run('vgchange', '-an', naming.group_name(uuid))

    def test_the_target_dies(self):
        before = self.vdisk.location
        self.writes.write(200)
        self.vdisk.percent = 1
        failed = []

        def die():
            if not failed:
                shell.run(
                    'dmsetup', 'load', elastic.MORTAL,
                    '--table', f'0 {self.sectors} error',
                )  # fmt: skip
                shell.run('dmsetup', 'resume', '--noflush', elastic.MORTAL)
                failed.append(True)
            return False

        try:
            with self.writes.going_on():
                self.assertRaises(
                    exception.DiskError,
                    self.move,
                    (self.a, self.a, self.d, self.d),
                    die,
                )
                written = sum(self.writes.last)
                while sum(self.writes.last) < written + 100:
                    self.assertIsNone(self.writes.error)
        finally:
            shell.run(
                'dmsetup', 'load', elastic.MORTAL,
                '--table',
                f'0 {self.sectors} linear {self.mortal} {elastic.START}',
            )  # fmt: skip
            shell.run('dmsetup', 'resume', elastic.MORTAL)
        self.assertIsNone(self.writes.error)
        self.assertEqual([], self.writes.wrong())
        # what is left there goes when it is back
        self.assertEqual(before, self.vdisk.location)
        leg_steps.take_back(self.vdisk.move((self.a, self.a, self.d, self.d)))
        self.assertWhole()

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
            block = leg * naming.CHUNK_BYTES // elastic.BLOCK
            piece = naming.device_path(uuid, elastic.NAME)
            number = self.writes.last[block]
            self.assertEqual(
                self.writes.content(block, number), base.read(piece, 16)
            )
        places = base.places(self.b, elastic.NAME)
        stripes.deactivate(elastic.NAME)
        self.purge()
        self.assertTrue(base.is_zero(self.spare[1], places))
