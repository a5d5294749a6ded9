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

"""What a real XFS disk offers can be written, whatever vdisks share.

A unit of 64 MiB stands for the GiB, so that a disk is full soon.
"""

import fcntl
import mmap
import os
from unittest import mock

import fixtures

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks import vdisk
from nova_diskplacer.disks.filesystem import copies
from nova_diskplacer.disks.filesystem import locks
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.filesystem import vdisks
from tests import loops
from tests import shell
from tests.functional.disks import base

UNIT_MIB = 64
UNIT = UNIT_MIB * base.MIB
BLOCK = 4096


class SpaceTestCase(base.VDiskTestCase):
    def setUp(self):
        super().setUp()
        for module in (discover, space, vdisk):
            patch = mock.patch.object(module, 'GIB', UNIT)
            patch.start()
            self.addCleanup(patch.stop)

    def add(self, number):
        """Add a vdisk of a unit, written all over."""
        self.create(f'volume-{number}', str(number), None, UNIT_MIB)
        self.fill(f'volume-{number}', b'%d' % (number % 10))

    def share_to_the_last(self):
        """Fill what a disk offers with snapshots and clones in turn."""
        names = ['volume-0']
        self.add(0)
        for number in range(1, 100):
            if not self.look().free_gb:
                break
            kind = number % 3
            if kind == 0:
                self.add(number)
                names.append(f'volume-{number}')
                continue
            source = names[-1]
            if kind == 1:
                name = f'snapshot-{number}'
                copies.snapshot(self.disk, source, name, str(number))
            else:
                name = f'volume-{number}'
                copies.clone(self.disk, source, name, str(number), UNIT)
                names.append(name)
            if self.look().total_gb < len(self.names()):
                # the first snapshot costs the disk some of its space
                vdisks.delete(self.disk, name)
                break
        return names

    def overwrite(self, name, step=16 * BLOCK):
        """Write every block as QEMU does; every second step first."""
        text = mmap.mmap(-1, step)
        text.write(b'z' * step)
        descriptor = os.open(self.path(name), os.O_RDWR | os.O_DIRECT)
        try:
            for first in (0, step):
                for offset in range(first, UNIT, 2 * step):
                    os.pwrite(descriptor, text, offset)
        finally:
            os.close(descriptor)

    def check_all_can_be_written(self):
        volumes = self.share_to_the_last()
        disk = self.look()
        self.assertEqual(0, disk.free_gb)
        self.assertGreater(len(disk.vdisks), len(volumes))
        snapshots = {
            one.name: self.content(one.name)
            for one in disk.vdisks
            if one.is_snapshot
        }
        # one of them in the way that needs most extents
        self.overwrite(volumes[0], BLOCK)
        for name in volumes[1:]:
            self.overwrite(name)
        for name in volumes:
            self.assertEqual(b'z' * UNIT, self.content(name))
        for name, content in snapshots.items():
            self.assertEqual(content, self.content(name))
        return disk

    def test_device(self):
        before = self.look().total_gb
        disk = self.check_all_can_be_written()
        self.assertIn(before - disk.total_gb, (0, 1))
        after = self.look()
        self.assertEqual((disk.total_gb, 0), (after.total_gb, after.free_gb))

    def test_directory_with_files_of_others(self):
        target = self.useFixture(fixtures.TempDir()).path
        device = self.useFixture(loops.LoopDevice(1)).device
        shell.run('mkfs.xfs', '-q', device)
        shell.run('mount', device, target)
        shell.run('fallocate', '--length', '100MiB', target + '/other')
        self.disk = prepare.prepare(self.root, target).path
        before = self.look().total_gb
        shell.run('fallocate', '--length', '300MiB', target + '/other')
        self.assertIn(before - self.look().total_gb, (3, 4))
        self.check_all_can_be_written()

    def test_discard_offers_nothing(self):
        self.add(0)
        self.add(1)
        before = self.look()
        self.punch('volume-0', 0, UNIT_MIB)
        self.assertLess(before.free_bytes, self.look().free_bytes)
        for _ in range(2):
            after = self.look()
            self.assertEqual(
                (before.total_gb, before.free_gb),
                (after.total_gb, after.free_gb),
            )
            # nor when blocks are shared besides
            before = self.shared()
        self.check_all_can_be_written()

    def shared(self):
        """Return the disk with a snapshot on it, all of which is shared."""
        copies.snapshot(self.disk, 'volume-1', 'snapshot-x', 'x')
        self.overwrite('volume-0')
        before = self.look()
        self.punch('volume-0', 0, UNIT_MIB)
        return before

    def test_others_that_come_while_nothing_is_shared(self):
        self.add(0)
        before = self.look().total_gb
        shell.run('fallocate', '--length', str(3 * UNIT), self.disk + '/other')
        self.assertEqual(before - 3, self.look().total_gb)
        for number in range(4):
            copies.snapshot(
                self.disk, 'volume-0', f'snapshot-{number}', str(number)
            )
            self.assertIn(before - self.look().total_gb, (3, 4))

    def test_what_is_deleted_is_free_at_once(self):
        before = self.look()
        for _ in range(5):
            self.create(mib=5 * UNIT_MIB)
            vdisks.delete(self.disk, 'volume-1')
            after = self.look()
            self.assertEqual(
                (before.total_gb, before.free_gb),
                (after.total_gb, after.free_gb),
            )

    def test_what_is_being_freed_is_no_foreign_data(self):
        """XFS sets the size to 0 first, and then frees the blocks."""
        self.add(0)
        copies.snapshot(self.disk, 'volume-0', 'snapshot-0', '0s')
        before = self.look()
        doomed = self.disk + '/vdisks/.unfinished.x'
        open(doomed, 'w').close()
        shell.run(
            'fallocate', '--keep-size', '--length', str(5 * UNIT), doomed
        )
        self.assertEqual(before.total_gb, self.look().total_gb)
        directory = self.disk + '/vdisks'
        recorded = space.foreign_bytes(directory)
        with locks.locked(self.disk, fcntl.LOCK_EX) as descriptor:
            space.record_foreign_bytes(descriptor)
        self.assertEqual(recorded, space.foreign_bytes(directory))

    def test_what_a_killed_process_has_left_is_no_foreign_data(self):
        """XFS would free a removed file after the snapshot is made."""
        self.add(0)
        copies.snapshot(self.disk, 'volume-0', 'snapshot-0', '0s')
        directory = self.disk + '/vdisks'
        recorded = space.foreign_bytes(directory)
        for number in range(5):
            leftover = directory + '/.unfinished.x'
            shell.run('fallocate', '--length', str(5 * UNIT), leftover)
            copies.snapshot(
                self.disk, 'volume-0', f'snapshot-{number}', f'{number}s'
            )
            self.assertEqual(recorded, space.foreign_bytes(directory))

    def test_nothing_is_kept_beyond_the_end(self):
        """What writes like cinder-backup has XFS allocate in advance."""
        self.create(mib=5 * UNIT_MIB)
        path = vdisks.path(self.disk, 'volume-1')
        with open(path, 'wb') as stream:
            for _ in range(5 * UNIT_MIB):
                stream.write(bytes(base.MIB))
        self.assertGreater(os.stat(path).st_blocks * 512, 5 * UNIT)
        vdisks.extend(self.disk, 'volume-1', 5 * UNIT)
        self.assertEqual(5 * UNIT, os.stat(path).st_blocks * 512)

    def test_revert_needs_no_more_than_the_vdisk_has(self):
        self.add(0)
        copies.snapshot(self.disk, 'volume-0', 'snapshot-0', '0s')
        left = self.look().free_gb
        vdisks.extend(self.disk, 'volume-0', (1 + left) * UNIT)
        self.assertEqual(0, self.look().free_gb)
        before = self.content('snapshot-0')
        for _ in range(2):
            copies.revert(self.disk, 'volume-0', 'snapshot-0')
            self.assertAllocated('volume-0')
            self.assertEqual(before, self.content('volume-0')[:UNIT])
            copies.clear(self.disk, 'volume-0')
            self.assertAllocated('volume-0')

    def test_disk_of_which_nothing_was_recorded(self):
        """What was prepared before disks could share blocks."""
        self.assertNotIn(
            'user.diskplacer.others', os.listxattr(self.disk + '/vdisks')
        )
        self.assertEqual(discover.OK, self.look().health)
        self.add(0)
        before = self.look().total_gb
        copies.snapshot(self.disk, 'volume-0', 'snapshot-0', '0s')
        self.assertIn(before - self.look().total_gb, (0, 1))
