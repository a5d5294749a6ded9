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

"""Striped vdisks on the real device mapper, with the helper's capabilities."""

import os
import threading
import time
from unittest import mock

import fixtures

from cinder_vdisk_mapper import privsep_lvm
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripe_snapshots
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

MIB = base.MIB
CHUNK = naming.CHUNK_BYTES
DISKS = 3
# not a whole number of rows
SIZE = 10 * MIB
PIECE = 4 * MIB


class Killed(BaseException):
    """The process was killed at this point."""


class StripedTestCase(base.LVMTestCase):
    devices = DISKS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uuids = [cls.prepared(device).uuid for device in cls.spare]
        cls.location = Location(cls.uuids)

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._launcher',
                privsep_lvm._CONFINED,
            )
        )
        for uuid in self.uuids:
            self.addCleanup(base.purge, uuid)

    def create(self, name='volume-1', volume_id='1'):
        for uuid in self.uuids:
            volumes.create_piece(
                uuid, name, volume_id, 'server', PIECE, self.location, 0
            )
        return stripes.activate_stripe(self.location, name, SIZE)

    def read(self, path, offset, size=4096):
        return base.read(path, size, offset)

    def fill(self, path):
        """Write the number of each chunk at its begin."""
        with open(path, 'r+b', buffering=0) as stream:
            for number in range(SIZE // CHUNK):
                os.pwrite(
                    stream.fileno(), number.to_bytes(512), number * CHUNK
                )
            os.fsync(stream.fileno())
        udev.settle()

    def assertFilled(self, path):
        found = [
            int.from_bytes(self.read(path, number * CHUNK, 512))
            for number in range(SIZE // CHUNK)
        ]
        self.assertEqual(list(range(SIZE // CHUNK)), found)

    def delete(self, name):
        udev.settle()
        for uuid in self.uuids:
            volumes.delete(uuid, name)

    def test_life(self):
        path = self.create()
        self.assertEqual(path, self.create())
        self.assertEqual(SIZE, int(shell.run('blockdev', '--getsize64', path)))
        self.fill(path)
        self.assertFilled(path)
        # each chunk is where the layout says
        for number in (0, 1, 2, 3, SIZE // CHUNK - 2, SIZE // CHUNK - 1):
            row, column = divmod(number, DISKS)
            piece = naming.device_path(self.uuids[column], 'volume-1')
            self.assertEqual(
                number, int.from_bytes(self.read(piece, row * CHUNK, 512))
            )
        for uuid in self.uuids:
            (vdisk,) = groups.require(uuid).vdisks
            self.assertEqual(tuple(self.uuids), vdisk.stripe)
            self.assertEqual(('server', PIECE), (vdisk.server_id, PIECE))
        with open(path, 'rb'):
            # attached
            self.assertRaises(
                exception.DiskError, volumes.delete, self.uuids[0], 'volume-1'
            )
            self.assertRaises(
                exception.DiskError, stripes.deactivate, 'volume-1'
            )
        self.assertFilled(path)
        # the host is booted
        stripes.deactivate('volume-1')
        stripes.deactivate('volume-1')
        self.assertFalse(os.path.exists(path))
        for uuid in self.uuids:
            commands.run('lvchange', '-an', f'diskplacer-{uuid}/volume-1')
        stripes.activate_stripe(self.location, 'volume-1', SIZE)
        self.assertFilled(path)
        # extended, by more than a piece had left
        stripes.deactivate('volume-1')
        for uuid in self.uuids:
            volumes.extend(uuid, 'volume-1', 2 * PIECE)
        larger = SIZE + 8 * MIB
        stripes.activate_stripe(self.location, 'volume-1', larger)
        self.assertFilled(path)
        self.assertTrue(base.is_zero(path, [(SIZE, larger - SIZE)]))
        places = {
            device: base.places(uuid, 'volume-1')
            for device, uuid in zip(self.spare, self.uuids, strict=True)
        }
        for device, place in places.items():
            self.assertFalse(base.is_zero(device, place))
        self.delete('volume-1')
        self.assertFalse(os.path.exists(path))
        for device, place in places.items():
            self.assertTrue(base.is_zero(device, place))
        for uuid in self.uuids:
            self.assertEqual((), groups.require(uuid).volumes)
            self.assertTrue(groups.require(uuid).zeroed)

    def test_incomplete(self):
        for uuid in self.uuids[:2]:
            volumes.create_piece(
                uuid, 'volume-1', '1', None, PIECE, self.location, 0
            )
        self.assertRaises(
            exception.DiskError,
            stripes.activate_stripe,
            self.location,
            'volume-1',
            SIZE,
        )
        self.create()
        stripes.deactivate('volume-1')
        for location, size in (
            (Location(reversed(self.uuids)), SIZE),
            (Location(self.uuids[:2]), MIB),
            (self.location, DISKS * PIECE + CHUNK),
        ):
            self.assertRaises(
                exception.DiskError,
                stripes.activate_stripe,
                location,
                'volume-1',
                size,
            )

    def snapshot(self):
        stripe_snapshots.snapshot_stripe(
            self.location, 'volume-1', 'snapshot-s', 's'
        )

    def test_snapshot(self):
        path = self.create()
        self.fill(path)
        stopped = threading.Event()

        def write():
            # to one disk, then to the next one
            with open(path, 'r+b', buffering=0) as stream:
                number = 0
                while not stopped.is_set():
                    number += 1
                    for offset in (0, CHUNK):
                        data = number.to_bytes(512)
                        os.pwrite(stream.fileno(), data, offset)
                        os.fsync(stream.fileno())
                    # leave the disks to LVM meanwhile
                    time.sleep(0.05)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            made = []
            snapshot = copies.snapshot

            def kill_second(*arguments, **keywords):
                made.append(arguments)
                if len(made) == 2:
                    raise Killed
                snapshot(*arguments, **keywords)

            with mock.patch.object(copies, 'snapshot', kill_second):
                self.assertRaises(Killed, self.snapshot)
            piece = groups.require(self.uuids[0]).require('snapshot-s')
            self.assertFalse(piece.vdisk.usable)
            self.snapshot()
            self.snapshot()
        finally:
            stopped.set()
            writer.join()
        self.assertIn('ACTIVE', shell.run('dmsetup', 'info', path))
        first, second = (
            int.from_bytes(
                self.read(naming.device_path(uuid, 'snapshot-s'), 0, 512)
            )
            for uuid in self.uuids[:2]
        )
        self.assertIn(first - second, (0, 1))
        self.assertGreater(first, 1)
        for uuid in self.uuids:
            piece = groups.require(uuid).require('snapshot-s').vdisk
            self.assertTrue(piece.usable)
            self.assertEqual(tuple(self.uuids), piece.stripe)
        # a clone of it, larger
        for uuid in self.uuids:
            copies.clone(uuid, 'snapshot-s', 'volume-2', '2', PIECE + 4 * MIB)
        clone = stripes.activate_stripe(
            self.location, 'volume-2', SIZE + 8 * MIB
        )
        self.assertEqual(first, int.from_bytes(self.read(clone, 0, 512)))
        self.assertEqual(second, int.from_bytes(self.read(clone, CHUNK, 512)))
        for number in range(2, SIZE // CHUNK):
            self.assertEqual(
                number, int.from_bytes(self.read(clone, number * CHUNK, 512))
            )
        self.assertTrue(base.is_zero(clone, [(SIZE, 8 * MIB)]))
        # reverted
        stripes.deactivate('volume-1')
        for uuid in self.uuids:
            copies.revert(uuid, 'volume-1', 'snapshot-s')
        stripes.activate_stripe(self.location, 'volume-1', SIZE)
        self.assertEqual(first, int.from_bytes(self.read(path, 0, 512)))
        for name in ('snapshot-s', 'volume-2', 'volume-1'):
            self.delete(name)

    def test_suspended_by_a_killed_snapshot(self):
        path = self.create()
        commands.run('dmsetup', 'suspend', os.path.basename(path))
        self.assertIn('SUSPENDED', shell.run('dmsetup', 'info', path))
        stripes.resume_stripes()
        self.assertIn('ACTIVE', shell.run('dmsetup', 'info', path))
        commands.run('dmsetup', 'suspend', os.path.basename(path))
        self.create()
        self.assertIn('ACTIVE', shell.run('dmsetup', 'info', path))

    def test_nobody_looks_into_it(self):
        path = self.create()
        base.write(path, b'x' * MIB)
        shell.run('mkfs.ext4', '-q', '-F', path)
        udev.settle()
        known = shell.run('udevadm', 'info', '--query=property', path)
        self.assertIn('DM_UDEV_DISABLE_OTHER_RULES_FLAG=1', known)
        self.assertNotIn('ID_FS_TYPE', known)
        # LVM takes no volume group of a tenant for one of the host
        error = self.assertRaises(
            exception.DiskError, commands.run, 'pvcreate', '--yes', path
        )
        self.assertRegex(str(error), 'filter|Cannot use|not found')
