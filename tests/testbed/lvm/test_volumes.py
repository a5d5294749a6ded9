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

"""What is done to vdisks in volume groups, thick and thin."""

import os
import threading
from unittest import mock

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import blockcopy
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.vdisk import VDisk
from tests import shell
from tests.testbed.lvm import base
from tools.testbed import udev

MIB = base.MIB
SIZE = 16 * MIB


class Killed(BaseException):
    """The process was killed at this point."""


class VolumesTestCase(base.LVMTestCase):
    """What thick and thin volumes have in common."""

    thin: bool

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uuid, cls.other = (
            cls.prepared(device, thin).uuid
            for device, thin in zip(
                cls.spare, (cls.thin, not cls.thin), strict=True
            )
        )

    def setUp(self):
        super().setUp()
        for uuid in (self.uuid, self.other):
            self.addCleanup(base.purge, uuid)

    def group(self):
        return groups.require(self.uuid)

    def path(self, name, uuid=None):
        return naming.device_path(uuid or self.uuid, name)

    def create(self, name='volume-1', volume_id='1', size=SIZE):
        volumes.create(self.uuid, name, volume_id, 'server', size)
        return self.path(name)

    def delete(self, name):
        udev.settle()
        if volumes.mark_deleted(self.uuid, name):
            volumes.zero(self.uuid, name)
        volumes.remove(self.uuid, name, True)

    def assertHolds(self, expected, name, offset=0):
        found = base.read(self.path(name), len(expected), offset)
        self.assertTrue(expected == found, f'{name} at {offset}')

    def assertZero(self, name, start=0, end=None):
        end = self.group().find(name).size_bytes if end is None else end
        place = [(start, end - start)]
        self.assertTrue(base.is_zero(self.path(name), place), name)

    def assertVDisks(self, *expected):
        self.assertEqual(
            expected,
            tuple(
                (one.name, one.volume_id, one.server_id, one.size_bytes)
                for one in self.group().vdisks
            ),
        )

    def test_create_and_delete(self):
        device = self.spare[0]
        before = self.group()
        path = self.create()
        self.create()
        self.assertVDisks(('volume-1', '1', 'server', SIZE))
        self.assertZero('volume-1')
        self.assertEqual(SIZE, before.free_bytes - self.group().free_bytes)
        for volume_id in ('2', ''):
            self.assertRaises(
                exception.DiskError, self.create, 'volume-1', volume_id
            )
        places = [] if self.thin else base.places(self.uuid, 'volume-1')
        base.write(path, base.pattern('secret'), 0, SIZE - MIB)
        if not self.thin:
            self.assertFalse(base.is_zero(device, places))
        with open(path, 'rb'):
            # attached: it is kept
            self.assertRaises(exception.DiskError, self.delete, 'volume-1')
        self.assertHolds(base.pattern('secret'), 'volume-1')
        self.delete('volume-1')
        self.delete('volume-1')
        self.assertTrue(base.is_zero(device, places))
        self.assertEqual(before, self.group())
        # what was there is not seen by the next one
        self.create('volume-2', '2')
        self.assertZero('volume-2')

    def test_snapshot_of_a_device_in_use(self):
        path = self.create()
        base.write(path, base.pattern('before'))
        with open(path, 'rb'):
            copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
            copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
        self.assertVDisks(
            ('snapshot-1', 's', None, SIZE), ('volume-1', '1', 'server', SIZE)
        )
        # every block of the origin is overwritten, twice
        for seed in ('after', 'later'):
            base.write(path, base.pattern(seed), *range(0, SIZE, MIB))
        self.assertHolds(base.pattern('before'), 'snapshot-1')
        self.assertZero('snapshot-1', MIB)
        if self.thin:
            self.delete('volume-1')
        else:
            error = self.assertRaises(
                exception.DiskError, self.delete, 'volume-1'
            )
            self.assertIn('has snapshots: snapshot-1', str(error))
        free = self.group().free_bytes
        self.delete('snapshot-1')
        self.assertGreaterEqual(self.group().free_bytes, free + SIZE)
        for vdisk in self.group().vdisks:
            self.assertHolds(base.pattern('later'), vdisk.name, SIZE - MIB)

    def test_revert_and_clear(self):
        path = self.create()
        base.write(path, base.pattern('before'), 8 * MIB)
        copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
        volumes.extend(self.uuid, 'volume-1', 2 * SIZE)
        self.assertZero('volume-1', SIZE)
        base.write(path, base.pattern('after'), 0, 8 * MIB, 2 * SIZE - MIB)
        for _ in range(2):
            copies.revert(self.uuid, 'volume-1', 'snapshot-1')
            self.assertHolds(base.pattern('before'), 'volume-1', 8 * MIB)
            self.assertZero('volume-1', 0, 8 * MIB)
            self.assertZero('volume-1', 9 * MIB)
        self.assertHolds(base.pattern('before'), 'snapshot-1', 8 * MIB)
        udev.settle()
        with open(path, 'rb'):
            # attached
            for work, *arguments in (
                (copies.revert, 'snapshot-1'),
                (copies.clear,),
                (volumes.shrink, SIZE),
            ):
                self.assertRaisesRegex(
                    exception.DiskError,
                    'is in use',
                    work,
                    self.uuid,
                    'volume-1',
                    *arguments,
                )
        for _ in range(2):
            copies.clear(self.uuid, 'volume-1')
            self.assertZero('volume-1')
        self.assertHolds(base.pattern('before'), 'snapshot-1', 8 * MIB)
        self.assertVDisks(
            ('snapshot-1', 's', None, SIZE),
            ('volume-1', '1', 'server', 2 * SIZE),
        )

    def test_clone(self):
        path = self.create()
        base.write(path, base.pattern('before'), 8 * MIB)
        copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
        base.write(path, base.pattern('after'), 8 * MIB)
        for source, name, seed in (
            ('snapshot-1', 'volume-2', 'before'),
            ('volume-1', 'volume-3', 'after'),
        ):
            for _ in range(2):
                copies.clone(self.uuid, source, name, name[-1], 2 * SIZE)
            self.assertHolds(base.pattern(seed), name, 8 * MIB)
            self.assertZero(name, 9 * MIB)
            base.write(self.path(name), base.pattern('own'))
            self.assertZero(source, 0, MIB)
        self.assertVDisks(
            ('snapshot-1', 's', None, SIZE),
            ('volume-1', '1', 'server', SIZE),
            ('volume-2', '2', None, 2 * SIZE),
            ('volume-3', '3', None, 2 * SIZE),
        )
        self.assertRaises(
            exception.DiskError,
            copies.clone, self.uuid, 'volume-3', 'volume-4', '4', SIZE,
        )  # fmt: skip
        # what it was cloned from may go
        self.delete('snapshot-1')
        self.delete('volume-1')
        self.assertHolds(base.pattern('before'), 'volume-2', 8 * MIB)

    def test_copy(self):
        target = self.other
        path = self.create()
        base.write(path, base.pattern('content'), 4 * MIB)
        self.assertRaises(
            exception.DiskError, copies.copy, self.uuid, 'volume-1', target
        )
        volumes.create(target, 'volume-1', '1', 'server', 2 * SIZE)
        # what a copy that did not finish has left
        base.write(self.path('volume-1', target), base.pattern('old'))
        for _ in range(2):
            copies.copy(self.uuid, 'volume-1', target)
        copied = self.path('volume-1', target)
        self.assertTrue(
            base.pattern('content') == base.read(copied, MIB, 4 * MIB)
        )
        self.assertTrue(
            base.is_zero(copied, [(0, 4 * MIB), (5 * MIB, 2 * SIZE - 5 * MIB)])
        )
        volumes.create(target, 'volume-2', 'x', None, SIZE)
        volumes.create(self.uuid, 'volume-2', '2', None, SIZE)
        error = self.assertRaises(
            exception.DiskError, copies.copy, self.uuid, 'volume-2', target
        )
        self.assertIn("belongs to 'x'", str(error))

    def test_extend_and_shrink(self):
        path = self.create()
        base.write(path, base.pattern('content'))
        for size in (2 * SIZE, 2 * SIZE, SIZE):
            volumes.extend(self.uuid, 'volume-1', size)
            self.assertVDisks(('volume-1', '1', 'server', 2 * SIZE))
        volumes.shrink(self.uuid, 'volume-1', SIZE)
        volumes.shrink(self.uuid, 'volume-1', SIZE)
        self.assertVDisks(('volume-1', '1', 'server', SIZE))
        self.assertHolds(base.pattern('content'), 'volume-1')
        self.assertZero('volume-1', MIB)

    def test_never_more_than_there_is(self):
        free = self.group().free_bytes // (4 * MIB) * 4 * MIB
        self.create('volume-1', '1', free - 4 * SIZE)
        volumes.create(self.uuid, 'volume-2', '2', None, SIZE)
        for call in (
            (volumes.create, 'volume-3', '3', None, 4 * SIZE),
            (volumes.extend, 'volume-2', 8 * SIZE),
            (copies.snapshot, 'volume-1', 'snapshot-1', 's'),
            (copies.clone, 'volume-2', 'volume-3', '3', 4 * SIZE),
        ):
            work, *arguments = call
            error = self.assertRaises(
                exception.DiskError, work, self.uuid, *arguments
            )
            self.assertIn('bytes free', str(error))
        copies.snapshot(self.uuid, 'volume-2', 'snapshot-2', 's')
        held = sum(one.size_bytes for one in self.group().vdisks)
        self.assertLessEqual(held, self.group().size_bytes)
        self.assertEqual(free - 4 * SIZE + 2 * SIZE, held)

    def test_killed_before_any_step(self):
        def delete():
            self.delete('volume-1')
            self.assertVDisks()

        def create():
            self.create()
            self.assertVDisks(('volume-1', '1', 'server', SIZE))
            self.assertZero('volume-1')

        def snapshot():
            copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
            self.assertVDisks(
                ('snapshot-1', 's', None, SIZE),
                ('volume-1', '1', 'server', SIZE),
            )

        def extend():
            volumes.extend(self.uuid, 'volume-1', 2 * SIZE)
            self.assertZero('volume-1', SIZE)

        def clone():
            copies.clone(self.uuid, 'snapshot-1', 'volume-2', '2', 2 * SIZE)
            self.assertHolds(base.pattern('content'), 'volume-2')
            self.assertZero('volume-2', MIB)

        def rename():
            volumes.rename(self.uuid, 'volume-2', 'unmanaged-2', '')
            self.assertIn(
                VDisk('unmanaged-2', '', None, 2 * SIZE),
                self.group().vdisks,
            )

        def delete_others():
            self.delete('unmanaged-2')
            self.delete('snapshot-1')
            self.assertVDisks(('volume-1', '1', 'server', 2 * SIZE))

        before = self.group()
        self.kill(create)
        base.write(self.path('volume-1'), base.pattern('content'))
        for work in (snapshot, extend, clone, rename, delete_others, delete):
            self.kill(work)
        self.assertEqual(before, self.group())

    def kill(self, work):
        """Have work die before each of its steps in turn, then do it."""
        for steps in range(20):
            left = [steps]

            def step(real, left=left):
                def wrapped(*arguments, **options):
                    if arguments[0] != 'lvm':
                        left[0] -= 1
                    if left[0] < 0:
                        raise Killed
                    return real(*arguments, **options)

                return wrapped

            with (
                mock.patch.object(commands, 'run', step(commands.run)),
                mock.patch.object(blockcopy, 'zero', step(blockcopy.zero)),
                mock.patch.object(blockcopy, 'copy', step(blockcopy.copy)),
                mock.patch.object(blockcopy, 'clear', step(blockcopy.clear)),
            ):
                try:
                    return work()
                except Killed:
                    continue
        raise AssertionError('it never ends')


class ThickVolumesTestCase(VolumesTestCase):
    thin = False

    def test_deleted_snapshot_leaves_nothing(self):
        path = self.create()
        base.write(path, base.pattern('secret'), MIB)
        copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
        base.write(path, base.pattern('other'), MIB)
        places = base.places(self.uuid, 'snapshot-1')
        self.assertFalse(base.is_zero(self.spare[0], places))
        self.delete('snapshot-1')
        self.assertTrue(base.is_zero(self.spare[0], places))

    def test_clone_of_a_device_in_use(self):
        """Every two writes are the same: the clone has both or none."""
        path = self.create()
        begun, ended = threading.Event(), threading.Event()

        def work():
            # open all the time, as a guest's: udev looks at what is closed
            with open(path, 'r+b', buffering=0) as device:
                for number in range(1 << 20):
                    if ended.is_set():
                        return
                    data = base.pattern(number, 4096)
                    for offset in (SIZE - MIB, 0):
                        os.pwrite(device.fileno(), data, offset)
                        os.fsync(device.fileno())
                    begun.set()

        writer = threading.Thread(target=work)
        writer.start()
        try:
            self.assertTrue(begun.wait(120))
            for name in ('volume-2', 'volume-3'):
                copies.clone(self.uuid, 'volume-1', name, name[-1], SIZE)
        finally:
            ended.set()
            writer.join()
        for name in ('volume-2', 'volume-3'):
            last = base.read(self.path(name), 4096, SIZE - MIB)
            first = base.read(self.path(name), 4096, 0)
            number = int(last.split(b'.')[0])
            self.assertIn(
                first,
                (base.pattern(number, 4096), base.pattern(number - 1, 4096)),
            )
        self.assertEqual(3, len(self.group().volumes))

    def test_rename(self):
        path = self.create()
        base.write(path, base.pattern('content'))
        for _ in range(2):
            volumes.rename(self.uuid, 'volume-1', 'unmanaged-1', '')
            self.assertVDisks(('unmanaged-1', '', None, SIZE))
        for _ in range(2):
            volumes.rename(self.uuid, 'unmanaged-1', 'snapshot-2', '2')
            self.assertVDisks(('snapshot-2', '2', None, SIZE))
        self.assertHolds(base.pattern('content'), 'snapshot-2')
        self.create('volume-3', '3')
        self.assertRaises(
            exception.DiskError,
            volumes.rename, self.uuid, 'snapshot-2', 'volume-3', '3',
        )  # fmt: skip


class ThinVolumesTestCase(VolumesTestCase):
    thin = True

    def test_full_pool(self):
        """A pool has room for all that its volumes may come to hold."""
        device = base.spare_devices()[-1]
        self.assertNotIn(device, self.spare)
        base.erase(device)
        self.addCleanup(base.erase, device)
        uuid = self.prepared(device, thin=True).uuid
        group = groups.require(uuid)
        size = group.size_bytes // 3 // (4 * MIB) * 4 * MIB
        volumes.create(uuid, 'volume-1', '1', None, size)
        path = self.path('volume-1', uuid)
        self.fill(path, size, 'before')
        copies.snapshot(uuid, 'volume-1', 'snapshot-1', 's')
        copies.clone(uuid, 'snapshot-1', 'volume-2', '2', size)
        self.fill(path, size, 'after')
        self.fill(self.path('volume-2', uuid), size, 'clone')
        data, metadata, health = shell.run(
            'lvs', '--noheadings', '-o',
            'data_percent,metadata_percent,lv_health_status',
            '--separator', '|', f'{group.name}/{naming.POOL}',
        ).split('|')  # fmt: skip
        self.assertGreater(float(data), 98)
        self.assertLessEqual(float(data), 100)
        self.assertLess(float(metadata), 90)
        self.assertEqual('', health)
        for name, seed in (
            ('snapshot-1', 'before'),
            ('volume-1', 'after'),
            ('volume-2', 'clone'),
        ):
            held = base.read(self.path(name, uuid), 65536, size - 65536)
            self.assertTrue(base.pattern(seed, 65536) == held, name)

    def fill(self, path, size, seed):
        """Touch each chunk of a volume."""
        data = base.pattern(seed, 65536)
        descriptor = os.open(path, os.O_WRONLY)
        try:
            for offset in range(0, size, 65536):
                os.pwrite(descriptor, data, offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class DirtyVolumesTestCase(base.LVMTestCase):
    """Thick volumes where what is free does not read as zeros."""

    devices = 1

    def test_create_and_extend(self):
        (device,) = self.spare
        base.write(device, base.pattern('old'), *range(MIB, 256 * MIB, MIB))
        self.uuid = self.prepared(device, zeroed=False).uuid
        self.addCleanup(base.purge, self.uuid)
        path = naming.device_path(self.uuid, 'volume-1')
        with mock.patch.object(blockcopy, 'zero', side_effect=Killed):
            self.assertRaises(
                Killed, volumes.create, self.uuid, 'volume-1', '1', None, SIZE
            )
        self.assertFalse(base.is_zero(path, [(MIB, MIB)]))
        volumes.create(self.uuid, 'volume-1', '1', None, SIZE)
        self.assertTrue(base.is_zero(path, [(0, SIZE)]))
        base.write(path, base.pattern('own'), SIZE - MIB)
        with mock.patch.object(blockcopy, 'zero', side_effect=Killed):
            self.assertRaises(
                Killed, volumes.extend, self.uuid, 'volume-1', 2 * SIZE
            )
        self.assertFalse(base.is_zero(path, [(SIZE, SIZE)]))
        volumes.extend(self.uuid, 'volume-1', 2 * SIZE)
        self.assertTrue(base.is_zero(path, [(SIZE, SIZE)]))
        self.assertTrue(
            base.pattern('own') == base.read(path, MIB, SIZE - MIB)
        )
        copies.clone(self.uuid, 'volume-1', 'volume-2', '2', 3 * SIZE)
        copied = naming.device_path(self.uuid, 'volume-2')
        self.assertTrue(
            base.is_zero(copied, [(0, SIZE - MIB), (SIZE, 2 * SIZE)])
        )


class ReturnedDiskTestCase(base.LVMTestCase):
    """A disk that was lost comes back as another device."""

    devices = 1

    #: one place on the disk has these two devices, one after the other
    LOST, BACK = '/dev/mapper/lost', '/dev/mapper/back'
    START = 2048

    def setUp(self):
        super().setUp()
        sectors = int(shell.run('blockdev', '--getsz', self.spare[0]))
        self.sectors = sectors - self.START
        self.line = f'0 {self.sectors} linear {self.spare[0]} {self.START}'
        self.table(self.LOST, self.line)

    def table(self, device, line):
        """Make a device, or replace what it is made of."""
        name = os.path.basename(device)
        if not os.path.exists(device):
            shell.run('dmsetup', 'create', name, '--table', line)
            self.addCleanup(shell.run, 'dmsetup', 'remove', '--retry', name)
            return
        shell.run('dmsetup', 'load', name, '--table', line)
        shell.run('dmsetup', 'resume', '--noflush', name)

    def prepare(self, thin):
        """Make a disk with a vdisk and its snapshot; returns their paths."""
        self.uuid = self.prepared(self.LOST, thin).uuid
        volumes.create(self.uuid, 'volume-1', '1', 'server', SIZE)
        path = self.activate('volume-1')
        base.write(path, base.pattern('old'))
        copies.snapshot(self.uuid, 'volume-1', 'snapshot-1', 's')
        base.write(path, base.pattern('new'))
        return path, self.activate('snapshot-1')

    def activate(self, name):
        return volumes.activate(self.uuid, name)

    def lose(self, path):
        """Lose the disk, which comes back."""
        self.table(self.LOST, f'0 {self.sectors} error')
        self.table(self.BACK, self.line)
        self.addCleanup(base.erase, self.BACK)
        self.addCleanup(base.purge, self.uuid)
        udev.settle()
        self.assertEqual((self.BACK,), groups.require(self.uuid).devices)
        self.assertRaises(OSError, base.read, path, MIB)

    def assertHeld(self, path, frozen):
        self.assertEqual(base.pattern('old'), base.read(frozen, MIB))
        self.assertEqual(base.pattern('new'), base.read(path, MIB))
        base.write(path, base.pattern('more'))
        self.assertEqual(base.pattern('old'), base.read(frozen, MIB))
        with mock.patch.object(commands, 'run') as run:
            for name in ('volume-1', 'snapshot-1'):
                self.activate(name)
        # all is well
        run.assert_not_called()

    def test_thick(self):
        path, frozen = self.prepare(False)
        with open(path, 'rb') as user:
            self.lose(path)
            for name in ('snapshot-1', 'volume-1'):
                self.activate(name)
            # a server that has it open sees it, too
            self.assertEqual(base.pattern('new'), user.read(MIB))
            self.assertHeld(path, frozen)

    def test_thin(self):
        path, frozen = self.prepare(True)
        with open(path, 'rb'):
            self.lose(path)
            self.assertRaises(exception.DiskError, self.activate, 'snapshot-1')
            # nobody waits for it
            self.assertRaises(OSError, base.read, path, MIB)
        for name in ('snapshot-1', 'volume-1'):
            self.activate(name)
        self.assertHeld(path, frozen)


# it is for those that inherit from it only
del VolumesTestCase
