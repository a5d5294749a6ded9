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

"""Test vdisks as files, on the filesystem of the temporary directory."""

import contextlib
import fcntl
import os
import threading
from unittest import mock

import testtools

from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import files
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks
from tests.unit.nova_diskplacer.disks.filesystem import base

MIB = base.MIB


class LocksTestCase(base.DiskTestCase):
    def is_locked(self, mode):
        """Tell whether another process would wait for the lock."""
        directory = os.open(os.path.join(self.disk, 'vdisks'), os.O_RDONLY)
        try:
            fcntl.flock(directory, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(directory)
        return False

    def new_snapshot(self):
        """Return a thread that makes a snapshot of one of two vdisks."""
        self.create()
        self.create('volume-2', '2')
        return threading.Thread(
            target=copies.snapshot,
            args=(self.disk, 'volume-1', 'snapshot-1', 's'),
        )

    @contextlib.contextmanager
    def while_freed(self, event):
        """Have something happen before the first file is truncated."""
        truncate = os.ftruncate

        def free(descriptor, size):
            if patched.call_count == 1:
                event()
            truncate(descriptor, size)

        with mock.patch.object(os, 'ftruncate', side_effect=free) as patched:
            yield
        patched.assert_called()

    def test_changes_lock_the_directory(self):
        found = []
        open_vdisk = files.open_vdisk

        def check(*arguments):
            found.append(self.is_locked(fcntl.LOCK_SH))

        def check_and_open(*arguments, **options):
            check()
            return open_vdisk(*arguments, **options)

        with mock.patch.object(files, 'set_owners', check):
            self.create()
        with mock.patch.object(files, 'allocate', check):
            vdisks.extend(self.disk, 'volume-1', 3 * MIB)
        with mock.patch.object(files, 'open_vdisk', check_and_open):
            vdisks.delete(self.disk, 'volume-1')
        self.assertEqual([True] * 3, found)
        self.assertFalse(self.is_locked(fcntl.LOCK_EX))

    def test_directory_is_unlocked_while_blocks_are_freed(self):
        self.create(mib=40)
        directory = f'{self.disk}/vdisks'
        inode = os.stat(f'{directory}/volume-1').st_ino

        def change():
            self.assertFalse(self.is_locked(fcntl.LOCK_EX))
            self.assertEqual((), vdisks.scan(self.disk))
            # blocks count until they are free
            self.assertGreaterEqual(space.allocated_bytes(directory), 40 * MIB)
            open(f'{directory}/.unfinished.x', 'w').close()
            # the next change removes only the leftover without a lock
            self.create('volume-2', '2')
            self.assertEqual(
                [f'.unfinished.volume-1.{inode}', 'volume-2'],
                sorted(os.listdir(directory)),
            )

        with self.while_freed(change):
            vdisks.delete(self.disk, 'volume-1')
        self.assertEqual(2 * MIB, space.allocated_bytes(directory))
        self.assertEqual(['volume-2'], os.listdir(directory))

    def test_blocks_are_shared_when_none_are_being_freed(self):
        """What is on its way would be recorded as foreign data."""
        directory = f'{self.disk}/vdisks'
        found = []
        thread = self.new_snapshot()

        def share():
            thread.start()
            thread.join(0.5)
            self.assertTrue(thread.is_alive())
            self.assertFalse(self.is_locked(fcntl.LOCK_EX))
            self.assertEqual([], found)

        with (
            mock.patch.object(fcntl, 'ioctl'),
            mock.patch.object(
                space,
                'record_foreign_bytes',
                lambda descriptor: found.append(sorted(os.listdir(directory))),
            ),
        ):
            with self.while_freed(share):
                vdisks.delete(self.disk, 'volume-2')
            thread.join()
        self.assertEqual([['volume-1']], found)
        self.assertEqual(
            ['snapshot-1', 'volume-1'], sorted(os.listdir(directory))
        )

    def test_who_frees_blocks_is_killed(self):
        """Whoever waits for it frees them."""
        thread = self.new_snapshot()

        def die():
            thread.start()
            thread.join(0.1)
            raise KeyboardInterrupt

        with mock.patch.object(fcntl, 'ioctl'):
            with (
                self.while_freed(die),
                testtools.ExpectedException(KeyboardInterrupt),
            ):
                vdisks.delete(self.disk, 'volume-2')
            thread.join()
        self.assertEqual(
            ['snapshot-1', 'volume-1'],
            sorted(os.listdir(f'{self.disk}/vdisks')),
        )

    def test_leftovers_are_truncated(self):
        """XFS would free their blocks after they are gone."""
        leftover = f'{self.disk}/vdisks/.unfinished.x'
        for work, *arguments in ((locks.sweep,), (vdisks.delete, 'none')):
            with open(leftover, 'wb') as stream:
                stream.write(bytes(MIB))
            with open(leftover, 'rb') as stream:
                work(self.disk, *arguments)
                status = os.fstat(stream.fileno())
            self.assertEqual((0, 0), (status.st_nlink, status.st_blocks))

    def test_namesake_is_deleted_meanwhile(self):
        self.create()
        directory = f'{self.disk}/vdisks'

        def again():
            self.create(volume_id='2')
            vdisks.delete(self.disk, 'volume-1')
            # the first one is still being freed, and counts
            self.assertGreaterEqual(space.allocated_bytes(directory), 2 * MIB)

        with self.while_freed(again):
            vdisks.delete(self.disk, 'volume-1')
        self.assertEqual([], os.listdir(directory))

    def test_reads_go_on_while_blocks_are_shared(self):
        self.create()
        found = []

        def clone(new, request, source):
            found.append(self.is_locked(fcntl.LOCK_SH))
            found.append(self.is_locked(fcntl.LOCK_EX))

        with mock.patch.object(fcntl, 'ioctl', clone):
            copies.snapshot(self.disk, 'volume-1', 'snapshot-1', 's')
        self.assertEqual([False, True], found)

    def test_waiting_reader_is_called_back(self):
        waited = []

        def waiting():
            waited.append(True)
            held.close()

        held = contextlib.ExitStack()
        held.enter_context(locks.locked(self.disk, fcntl.LOCK_EX))
        with locks.locked(self.disk, fcntl.LOCK_SH, waiting):
            self.assertEqual([True], waited)

    def test_readers_block_changes_only(self):
        with locks.locked(self.disk, fcntl.LOCK_SH):
            self.assertTrue(self.is_locked(fcntl.LOCK_EX))
            self.assertFalse(self.is_locked(fcntl.LOCK_SH))
