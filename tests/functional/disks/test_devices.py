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
import glob
import mmap
import multiprocessing
import os
import re
import time
from unittest import mock

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.host import loop_devices
from nova_diskplacer.host import sysfs
from tests import shell
from tests.functional.disks import base

MIB = base.MIB
NAME = 'volume-1'


class DeviceTestCase(base.VDiskTestCase):
    """Loop devices of vdisks on a real XFS, on this kernel."""

    def setUp(self):
        super().setUp()
        self.create()

    def prepared(self):
        disk = super().prepared()
        self.addCleanup(self.detach_all, disk)
        return disk

    def detach_all(self, disk):
        """Make a failed test end: a bound device keeps its disk mounted."""
        for name in self.names(disk):
            vdisks.detach_device(disk, name)

    def bound(self):
        """Return the backing files on the disk of all loop devices."""
        found = []
        for path in glob.glob('/sys/block/loop*/loop/backing_file'):
            with contextlib.suppress(OSError), open(path) as stream:
                file = stream.read().strip()
                if file.startswith(self.disk + '/'):
                    found.append(file)
        return found

    def place(self, name=NAME):
        return devices.path(os.path.basename(self.disk), name)

    def node(self, name=NAME):
        """Return the node of the loop device of a vdisk."""
        return os.path.realpath(self.place(name))

    def attach(self, name=NAME):
        vdisks.attach_device(self.disk, name)
        return self.node(name)

    @contextlib.contextmanager
    def used(self, name=NAME):
        """Have the device open, for direct I/O as QEMU has."""
        device = os.open(self.place(name), os.O_RDWR | os.O_DIRECT)
        try:
            yield device
        finally:
            os.close(device)

    def write_device(self, device, text, mib=0):
        with mmap.mmap(-1, 4096) as page:
            page.write(text)
            os.pwrite(device, page, mib * MIB)

    def assertRefused(self, call, *arguments):
        error = self.assertRaises(exception.DiskError, call, *arguments)
        self.assertIn('it is in use', str(error))

    def assertNoDevice(self, *nodes):
        self.assertEqual([], self.bound())
        for node in nodes:
            self.assertFalse(os.path.exists(node), node)
        self.assertFalse(os.path.lexists(os.path.dirname(self.place())))

    def test_device_is_the_file(self):
        self.write(NAME, b'by file', 1)
        node = self.attach()
        self.assertEqual(node, self.attach())
        self.assertEqual([self.path()], self.bound())
        self.assertEqual([NAME], vdisks.with_device(self.disk))
        with self.used() as device:
            self.assertEqual(8 * MIB, os.lseek(device, 0, os.SEEK_END))
            with mmap.mmap(-1, 4096) as page:
                os.preadv(device, [page], MIB)
                self.assertEqual(b'by file', page[:7])
            self.write_device(device, b'by device', 2)
            self.assertEqual(b'by device', self.content()[2 * MIB :][:9])
            self.write(NAME, b'again', 2)
            with mmap.mmap(-1, 4096) as page:
                os.preadv(device, [page], 2 * MIB)
                self.assertEqual(b'againvice', page[:9])
        vdisks.detach_device(self.disk, NAME)
        vdisks.detach_device(self.disk, NAME)
        self.assertNoDevice(node)
        self.assertEqual([], vdisks.with_device(self.disk))
        self.assertEqual(b'againvice', self.content()[2 * MIB :][:9])

    def test_a_disk_with_blocks_of_4_kib(self):
        self.loop_options = ('--sector-size', '4096')
        self.disk = self.prepared()
        self.create()
        node = self.attach()
        self.assertEqual(4096, sysfs.logical_block_size(node))
        with self.used() as device:
            self.write_device(device, b'by device', 2)
        self.assertEqual(b'by device', self.content()[2 * MIB :][:9])

    def test_writes_are_seen(self):
        self.attach()
        before = vdisks.writes(self.disk, NAME)
        with self.used() as device:
            with mmap.mmap(-1, 4096) as page:
                os.preadv(device, [page], 0)
            self.assertEqual(before, vdisks.writes(self.disk, NAME))
            # the kernel's clock of files has ticks
            time.sleep(0.02)
            self.write_device(device, b'x')
            self.assertNotEqual(before, vdisks.writes(self.disk, NAME))
        self.assertTrue(vdisks.written(self.disk, NAME))

    def test_the_cgroup_of_the_user_pays(self):
        """The agent weighs servers on the disk by their cgroups."""
        self.attach()
        count = 1 << 20
        with _cgroup(self.node_of_disk()) as group:
            process = multiprocessing.get_context('fork').Process(
                target=_write_in, args=(group, self.place(), count)
            )
            process.start()
            process.join()
            self.assertEqual(0, process.exitcode)
            self.assertGreaterEqual(group.written(), count)

    def node_of_disk(self):
        number = os.stat(self.disk).st_dev
        return f'{os.major(number)}:{os.minor(number)}'

    def test_in_use(self):
        self.assertFalse(vdisks.in_use(self.disk, NAME))
        self.assertNoDevice()
        node = self.attach()
        for _ in range(3):
            self.assertFalse(vdisks.in_use(self.disk, NAME))
            self.assertEqual(node, self.node())
        with self.used() as device:
            self.assertTrue(vdisks.in_use(self.disk, NAME))
            self.assertEqual(node, self.node())
            # it outlasts its users
            self.write_device(device, b'x')
        self.assertEqual(node, self.attach())
        self.assertFalse(vdisks.in_use(self.disk, NAME))
        with open(self.path()):
            self.assertTrue(vdisks.in_use(self.disk, NAME))
            self.assertEqual(node, self.node())

    def test_users_of_a_short_time_are_waited_for(self):
        self.attach()
        process = multiprocessing.get_context('fork').Process(
            target=_hold, args=(self.place(), 0.2)
        )
        process.start()
        with open(self.place(), 'rb'):
            time.sleep(0.1)
        self.assertFalse(vdisks.in_use(self.disk, NAME))
        process.join()

    def test_nothing_is_changed_below_a_user(self):
        copies.snapshot(self.disk, NAME, 'snapshot-1', '1s')
        node = self.attach()
        with self.used() as device:
            for call, *arguments in (
                (vdisks.delete, NAME),
                (vdisks.detach_device, NAME),
                (vdisks.shrink, NAME, 4 * MIB),
                (vdisks.rename, NAME, 'unmanaged-1', ''),
                (copies.clear, NAME),
                (copies.revert, NAME, 'snapshot-1'),
            ):
                self.assertRefused(call, self.disk, *arguments)
                self.assertEqual(node, self.node())
            self.write_device(device, b'still here')
        self.assertEqual(b'still here', self.content()[:10])

    def test_changes_without_a_user(self):
        copies.snapshot(self.disk, NAME, 'snapshot-1', '1s')
        for call, *arguments in (
            (copies.clear, NAME),
            (copies.revert, NAME, 'snapshot-1'),
            (vdisks.rename, NAME, 'unmanaged-1', ''),
            (vdisks.rename, 'unmanaged-1', NAME, '1'),
            (vdisks.delete, NAME),
        ):
            node = self.attach(arguments[0])
            call(self.disk, *arguments)
            self.assertNoDevice(node)
        self.assertNotIn(NAME, self.names())

    def test_size(self):
        node = self.attach()
        with self.used() as device:
            vdisks.extend(self.disk, NAME, 16 * MIB)
            self.assertEqual(16 * MIB, os.lseek(device, 0, os.SEEK_END))
            self.write_device(device, b'end', 15)
        self.assertEqual(b'end', self.content()[15 * MIB :][:3])
        vdisks.shrink(self.disk, NAME, 8 * MIB)
        self.assertEqual(node, self.node())
        with self.used() as device:
            self.assertEqual(8 * MIB, os.lseek(device, 0, os.SEEK_END))

    def test_snapshot_and_clone_below_a_user(self):
        self.attach()
        with self.used() as device:
            self.write_device(device, b'before')
            copies.snapshot(self.disk, NAME, 'snapshot-1', '1s')
            copies.clone(self.disk, NAME, 'volume-2', '2', 8 * MIB)
            self.write_device(device, b'behind')
        self.assertEqual(b'behind', self.content()[:6])
        for name in ('snapshot-1', 'volume-2'):
            self.assertEqual(b'before', self.content(name)[:6])

    def test_copy(self):
        """A server that starts while its vdisk is copied finds it."""
        target = self.prepared()
        vdisks.create(target, NAME, '1', None, 8 * MIB)
        self.write(NAME, b'content')
        node = self.attach()
        vdisks.attach_device(target, NAME)
        self.assertIsNone(copies.copy(self.disk, NAME, target, 0))
        self.assertEqual(self.content(), self.content(disk=target))
        self.assertEqual(node, self.node())
        place = devices.path(os.path.basename(target), NAME)
        self.assertFalse(os.path.lexists(place))
        vdisks.attach_device(target, NAME)
        with open(place, 'rb'):
            self.assertRefused(copies.copy, self.disk, NAME, target, 0)
        vdisks.detach_device(target, NAME)

    def test_killed(self):
        """Whatever step is the last one, a repetition does the rest."""
        steps = (
            (loop_devices, '_configure'),
            (loop_devices, '_read'),
            (devices, '_link'),
            (os, 'rename'),
        )
        for module, step in steps:
            with base.killed_before(self, module, step):
                self.attach()
            node = self.attach()
            with self.used():
                self.assertTrue(vdisks.in_use(self.disk, NAME))
            vdisks.detach_device(self.disk, NAME)
            self.assertNoDevice(node)
        for module, step in (
            (loop_devices, 'release'),
            (loop_devices, 'remove'),
            (os, 'rmdir'),
        ):
            self.attach()
            with base.killed_before(self, module, step):
                vdisks.detach_device(self.disk, NAME)
            vdisks.detach_device(self.disk, NAME)
            self.assertNoDevice()
        for module, step in (
            (loop_devices, 'release'),
            (devices.loop_devices, 'bind_again'),
            (devices, '_link'),
        ):
            self.attach()
            with base.killed_before(self, module, step):
                vdisks.in_use(self.disk, NAME)
            self.attach()
            with self.used():
                self.assertTrue(vdisks.in_use(self.disk, NAME))

    def test_killed_while_it_looked_for_users(self):
        """The kernel would take the device away when its user closes it."""
        node = self.attach()
        with self.used():
            with base.killed_before(self, loop_devices, '_keep'):
                vdisks.in_use(self.disk, NAME)
            self.assertEqual(node, self.attach())
        self.assertEqual([self.path()], self.bound())
        with self.used():
            pass

    def test_others_devices_stay(self):
        """Files of one name on other disks and elsewhere are not this one."""
        other = self.prepared()
        vdisks.create(other, NAME, '1', None, 8 * MIB)
        elsewhere = os.path.join(self.directory, NAME)
        with open(elsewhere, 'wb') as stream:
            stream.truncate(MIB)
        vdisks.attach_device(other, NAME)
        place = devices.path(os.path.basename(other), NAME)
        node = shell.run('losetup', '--find', '--show', elsewhere)
        try:
            self.attach()
            self.assertFalse(vdisks.in_use(self.disk, NAME))
            vdisks.delete(self.disk, NAME)
            with open(place, 'rb') as one, open(node, 'rb') as two:
                self.assertEqual(8 * MIB, one.seek(0, os.SEEK_END))
                self.assertEqual(MIB, two.seek(0, os.SEEK_END))
        finally:
            shell.run('losetup', '--detach', node)
        vdisks.detach_device(other, NAME)

    def test_processes_at_once(self):
        """Each may attach and detach; nobody gets another's device."""
        for name in ('volume-2', 'volume-3'):
            self.create(name, name[-1])
        for name in ('volume-1', 'volume-2', 'volume-3'):
            self.write(name, name.encode())
        context = multiprocessing.get_context('fork')
        with context.Pool(4) as pool:
            results = pool.starmap(
                _attach_and_detach,
                [(self.disk, f'volume-{n % 3 + 1}', n) for n in range(24)],
            )
        self.assertEqual([], [wrong for wrong in results if wrong])

    def test_no_loop_devices(self):
        """What the operator has to do is said."""
        for target, value in (
            ('CONTROL', '/dev/none'),
            ('_add', lambda: 1 << 30),
        ):
            with mock.patch.object(loop_devices, target, value):
                error = self.assertRaises(
                    exception.DiskError,
                    vdisks.attach_device,
                    self.disk,
                    NAME,
                )
            self.assertIn('is missing: the kernel needs', str(error))

    def test_no_direct_io(self):
        """A loop device on a file in memory would be no disk."""
        directory = self.useFixture(fixtures.TempDir('/dev/shm')).path
        disk = os.path.join(directory, os.path.basename(self.disk))
        os.makedirs(os.path.join(disk, 'vdisks'))
        vdisks.create(disk, NAME, '1', None, MIB)
        real = loop_devices._read
        with mock.patch.object(
            loop_devices, '_read', side_effect=lambda d: _buffered(real(d))
        ):
            error = self.assertRaises(
                exception.DiskError, vdisks.attach_device, disk, NAME
            )
        self.assertIn('direct I/O', str(error))
        self.assertEqual(
            [],
            [
                path
                for path in glob.glob('/sys/block/loop*/loop/backing_file')
                if directory in open(path).read()
            ],
        )


class _Group:
    """A cgroup that counts what its processes write to a disk.

    It is one of the unified hierarchy if that has the I/O controller, or of
    the older one's controller, which counts where there is a limit.
    """

    def __init__(self, disk):
        self.disk = disk
        base = '/sys/fs/cgroup'
        self.is_unified = os.path.exists(f'{base}/cgroup.controllers')
        parent = base if self.is_unified else f'{base}/blkio'
        self.path = f'{parent}/diskplacer-test-{os.getpid()}'
        os.mkdir(self.path)
        if self.is_unified:
            with contextlib.suppress(OSError):
                self.put('+io', f'{base}/cgroup.subtree_control')
        else:
            self.put(f'{disk} {10**12}', 'blkio.throttle.write_bps_device')

    def put(self, text, name):
        with open(os.path.join(self.path, name), 'w') as stream:
            stream.write(text)

    def written(self):
        """Return the bytes written to the disk."""
        name = (
            'io.stat' if self.is_unified else 'blkio.throttle.io_service_bytes'
        )
        with open(f'{self.path}/{name}') as stream:
            text = stream.read()
        found = re.search(
            rf'^{self.disk} (?:Write |.*\bwbytes=)(\d+)', text, re.M
        )
        return int(found[1]) if found else 0


@contextlib.contextmanager
def _cgroup(disk):
    group = _Group(disk)
    try:
        yield group
    finally:
        os.rmdir(group.path)


def _write_in(group, place, count):
    group.put(str(os.getpid()), 'cgroup.procs')
    device = os.open(place, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, count) as page:
        os.pwrite(device, page, 0)


def _buffered(status):
    fields = list(status.fields)
    fields[loop_devices._FLAGS] &= ~loop_devices._DIRECT_IO
    return loop_devices._Status(tuple(fields))


def _hold(place, seconds):
    with open(place, 'rb'):
        time.sleep(seconds)


def _attach_and_detach(disk, name, number):
    """Return what went wrong."""
    for _ in range(5):
        vdisks.attach_device(disk, name)
        if number % 2:
            with contextlib.suppress(exception.DiskError):
                vdisks.detach_device(disk, name)
        try:
            with open(devices.path(os.path.basename(disk), name), 'rb') as one:
                if one.read(8) != name.encode():
                    return f'{name} is not at its path'
        except FileNotFoundError:
            # another process has detached it
            pass
    return ''
