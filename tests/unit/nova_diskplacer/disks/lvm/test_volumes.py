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
"""Test operations on vdisks in a volume group in memory."""

import dataclasses
import functools
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import sysfs
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm

GIB = fake_lvm.GIB
UUID = fake_lvm.UUID
ZERO = fake_lvm.ZERO
PART = 4  # extents of a GiB


class LVMTestCase(testtools.TestCase):
    content = 'old'

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.lvm = self.useFixture(fake_lvm.FakeLVM(content=self.content))

    def group(self):
        return groups.require(UUID)

    def create(self, name='volume-1', volume_id='1', size_gb=1):
        volumes.create(UUID, name, volume_id, None, size_gb * GIB)

    def usable(self):
        """Return the names of the usable vdisks."""
        return [one.name for one in self.group().vdisks if one.usable]

    def kill(self, work):
        """Kill work before each step in turn; yields the step's number."""
        for count in range(99):
            try:
                with self.lvm.killed_at(count):
                    work()
            except fake_lvm.Killed:
                yield count
            else:
                self.assertGreater(count, 1)
                return
        raise AssertionError('the work never ends')


class ActivateTestCase(LVMTestCase):
    def test_a_disk_that_came_back_as_another_device(self):
        self.create()
        path = naming.device_path(UUID, 'volume-1')
        for is_built_on, refreshed in ((True, []), (False, ['volume-1'])):
            with (
                mock.patch.object(os.path, 'exists', return_value=True),
                mock.patch.object(
                    sysfs, 'is_built_on', return_value=is_built_on
                ) as asked,
            ):
                self.assertEqual(path, volumes.activate(UUID, 'volume-1'))
            asked.assert_called_once_with(path, (fake_lvm.DEVICE,))
            self.assertEqual(refreshed, self.lvm.refreshed)

    def test_a_pool_on_another_device(self):
        """All of it is deactivated first, which fails if any is open."""
        self.create()
        volume = dataclasses.replace(
            self.group().require('volume-1'), thin=True
        )
        with (
            mock.patch.object(os.path, 'exists', return_value=True),
            mock.patch.object(sysfs, 'is_built_on', return_value=False),
            mock.patch.object(commands, 'run') as run,
        ):
            group_changes.activate(volume)
        self.assertEqual(
            [
                ('vgchange', '--activate', 'n', fake_lvm.GROUP),
                ('vgchange', '--activate', 'y', fake_lvm.GROUP),
                (
                    'lvchange',
                    '--activate',
                    'y',
                    '--ignoreactivationskip',
                    volume.path,
                ),
            ],
            [one.args for one in run.mock_calls],
        )

    def test_inactive(self):
        self.create()
        self.lvm.volumes['volume-1'].active = False
        volumes.activate(UUID, 'volume-1')
        self.assertTrue(self.lvm.volumes['volume-1'].active)
        self.assertEqual([], self.lvm.refreshed)


class DirtyTestCase(LVMTestCase):
    """The free space holds data of others."""

    def assertNoOldData(self):
        for name in self.usable():
            self.assertNotIn('old', self.lvm.read(name))

    def test_create(self):
        for _ in self.kill(self.create):
            self.assertNoOldData()
        self.assertEqual(['volume-1'], self.usable())
        self.assertNoOldData()

    def test_extend(self):
        self.create()
        self.lvm.write('volume-1', 'own')

        def extend():
            volumes.extend(UUID, 'volume-1', 3 * GIB)

        for _ in self.kill(extend):
            self.assertNoOldData()
        self.assertEqual(['volume-1'], self.usable())
        self.assertEqual(
            ['own'] * PART + [ZERO] * 2 * PART, self.lvm.read('volume-1')
        )

    def test_shorter_extension_finishes_an_interrupted_one(self):
        self.create()
        with (
            self.lvm.killed_at(3),
            testtools.ExpectedException(fake_lvm.Killed),
        ):
            volumes.extend(UUID, 'volume-1', 3 * GIB)
        self.assertEqual([], self.usable())
        volumes.extend(UUID, 'volume-1', 2 * GIB)
        self.assertEqual(['volume-1'], self.usable())
        self.assertNoOldData()

    def test_shrink_ends_an_interrupted_extension(self):
        self.create()
        with (
            self.lvm.killed_at(3),
            testtools.ExpectedException(fake_lvm.Killed),
        ):
            volumes.extend(UUID, 'volume-1', 3 * GIB)
        volumes.shrink(UUID, 'volume-1', GIB)
        self.assertEqual(['volume-1'], self.usable())
        self.assertNoOldData()

    def test_extend_while_zeroing(self):
        self.create()
        zero = self.lvm.zero

        def extend_first(*arguments):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'nova_diskplacer.disks.lvm.blockcopy.zero', zero
                )
            )
            zero(*arguments)
            # another process is killed before it zeroes its part
            with (
                self.lvm.killed_at(1),
                testtools.ExpectedException(fake_lvm.Killed),
            ):
                volumes.extend(UUID, 'volume-1', 4 * GIB)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.blockcopy.zero', extend_first
            )
        )
        volumes.extend(UUID, 'volume-1', 2 * GIB)
        self.assertEqual([], self.usable())
        volumes.extend(UUID, 'volume-1', 2 * GIB)
        self.assertNoOldData()
        self.assertEqual(['volume-1'], self.usable())

    def test_clone(self):
        self.create()
        self.lvm.write('volume-1', 'own')

        def clone():
            copies.clone(UUID, 'volume-1', 'volume-2', '2', 2 * GIB)

        for _ in self.kill(clone):
            self.assertNoOldData()
            self.assertNotIn('volume-2', self.usable())
        self.assertEqual(
            ['own'] * PART + [ZERO] * PART, self.lvm.read('volume-2')
        )
        self.assertIn('volume-2', self.usable())

    def test_unusable_vdisks_are_refused(self):
        self.create()
        copies.snapshot(UUID, 'volume-1', 'snapshot-1', 's')
        for tag in (
            naming.INCOMPLETE,
            naming.DELETED,
            f'{naming.DIRTY_FROM}=0',
        ):
            self.create('volume-2', '2')
            self.lvm.volumes['volume-2'].tags.add(tag)
            for work, *arguments in (
                (copies.snapshot, 'volume-2', 'snapshot-2', '2s'),
                (copies.clone, 'volume-2', 'volume-3', '3', GIB),
                (copies.revert, 'volume-1', 'volume-2'),
                (copies.revert, 'volume-2', 'snapshot-1'),
                (copies.clear, 'volume-2'),
                (copies.copy, 'volume-2', UUID),
            ):
                error = self.assertRaises(
                    exception.DiskError, work, UUID, *arguments
                )
                self.assertIn('vdisk volume-2 in diskplacer-', str(error))
            volumes.delete(UUID, 'volume-2')

    def test_incomplete_clone_is_no_volume(self):
        self.create()
        copies.allocate_clone(UUID, 'volume-1', 'volume-2', '2', GIB)
        for work, *arguments in (
            (volumes.create, 'volume-2', '2', None, GIB),
            (volumes.extend, 'volume-2', 2 * GIB),
        ):
            error = self.assertRaises(
                exception.DiskError, work, UUID, *arguments
            )
            self.assertIn('is a clone that is not complete', str(error))
        copies.clone(UUID, 'volume-1', 'volume-2', '2', GIB)
        self.create('volume-2', '2')

    def test_lowest_of_several_tags_counts(self):
        self.create(size_gb=2)
        self.lvm.write('volume-1', 'old')
        self.lvm.volumes['volume-1'].tags |= {
            f'{naming.DIRTY_FROM}={GIB}',
            f'{naming.DIRTY_FROM}=0',
        }
        self.assertEqual([], self.usable())
        volumes.extend(UUID, 'volume-1', 2 * GIB)
        self.assertEqual(['volume-1'], self.usable())
        self.assertNoOldData()

    def test_shrink(self):
        self.create(size_gb=2)
        for size, reason in (
            (-GIB, f'cannot have a size of {-GIB} bytes'),
            (0, 'cannot have a size of 0 bytes'),
            (3 * GIB, f'cannot be shrunk to {3 * GIB}'),
        ):
            error = self.assertRaises(
                exception.DiskError, volumes.shrink, UUID, 'volume-1', size
            )
            self.assertIn(reason, str(error))
        self.lvm.open.add('volume-1')
        self.assertRaises(
            exception.DiskError, volumes.shrink, UUID, 'volume-1', GIB
        )
        self.lvm.open.clear()
        volumes.shrink(UUID, 'volume-1', GIB)
        self.assertEqual(GIB, self.group().find('volume-1').size_bytes)

    def test_vdisk_in_use_does_not_change(self):
        self.create()
        copies.snapshot(UUID, 'volume-1', 'snapshot-1', 's')
        self.lvm.write('volume-1', 'own')
        self.lvm.open.add('volume-1')
        for work, *arguments in (
            (copies.revert, 'volume-1', 'snapshot-1'),
            (copies.clear, 'volume-1'),
            (copies.copy, 'volume-1', UUID),
            (volumes.delete, 'volume-1'),
        ):
            self.assertRaises(exception.DiskError, work, UUID, *arguments)
        self.assertEqual(['own'] * PART, self.lvm.read('volume-1'))

    def test_no_vdisk_has_the_name_of_the_pool(self):
        for work in (volumes.legs, volumes.delete, volumes.writes):
            error = self.assertRaises(
                exception.DiskError, work, UUID, naming.POOL
            )
            self.assertIn('cannot be the name of a vdisk', str(error))

    def test_clone_of_what_is_written_to_meanwhile(self):
        """The temporary snapshot goes, whether it can be copied or not."""
        self.create()
        self.lvm.write('volume-1', 'own')
        real = copies.blockcopy.copy
        failed = exception.DiskError('copy failed')
        for second, names in (
            ([failed], ['volume-1', 'volume-2']),
            ([None], ['volume-1', 'volume-2']),
        ):
            results = iter([None, *second])

            def copy(*arguments, results=results):
                real(*arguments)
                result = next(results)
                if result:
                    raise result

            with (
                mock.patch.object(
                    copies.blockcopy,
                    'write_counters',
                    side_effect=[('1', '0'), ('2', '0')],
                ),
                mock.patch.object(copies.blockcopy, 'copy', copy),
            ):
                clone = functools.partial(
                    copies.clone, UUID, 'volume-1', 'volume-2', '2', GIB
                )
                if second == [failed]:
                    self.assertRaises(exception.DiskError, clone)
                else:
                    clone()
            self.assertEqual(
                names, sorted(one.name for one in self.group().volumes)
            )
        self.assertEqual(['own'] * PART, self.lvm.read('volume-2'))

    def test_copy_of_what_is_written_to_meanwhile(self):
        self.create()
        copies.copy(UUID, 'volume-1', UUID)
        with mock.patch.object(
            copies.blockcopy,
            'write_counters',
            side_effect=[('1', '0'), ('2', '0')],
        ):
            error = self.assertRaises(
                exception.DiskError, copies.copy, UUID, 'volume-1', UUID
            )
        self.assertIn('written to while it was copied', str(error))


class ZeroedTestCase(LVMTestCase):
    """The free space reads as zeros, and the tag ZEROED says so."""

    content = ZERO

    def setUp(self):
        super().setUp()
        group_changes.mark_zeroed(UUID)

    def by_hand(self, *command):
        """Run a command of LVM as an administrator."""
        self.lvm.run(*command)

    def remove_by_hand(self):
        """Remove a volume with a secret by hand."""
        self.create('volume-9', '9')
        self.lvm.write('volume-9', 'secret')
        self.by_hand('lvremove', '--yes', fake_lvm.GROUP + '/volume-9')

    def assertZeroes(self):
        """Check that a vdisk on reused space reads as zeros."""
        self.create('volume-5', '5', 2)
        self.assertEqual([ZERO] * 2 * PART, self.lvm.read('volume-5'))

    def test_operations_without_zeroing(self):
        def run_all():
            self.create()
            self.lvm.write('volume-1', 'own')
            volumes.extend(UUID, 'volume-1', 2 * GIB)
            copies.snapshot(UUID, 'volume-1', 'snapshot-1', 's')
            copies.clone(UUID, 'snapshot-1', 'volume-2', '2', 3 * GIB)
            copies.revert(UUID, 'volume-1', 'snapshot-1')
            volumes.rename(UUID, 'volume-2', 'unmanaged-2', '')
            volumes.delete(UUID, 'snapshot-1')
            volumes.shrink(UUID, 'unmanaged-2', 2 * GIB)
            volumes.create_temporary(UUID, GIB)
            self.lvm.write(volumes.TEMPORARY, 'measured')
            volumes.remove_temporary(UUID)

        run_all()
        self.assertTrue(self.group().zeroed)
        for name in ('volume-1', 'unmanaged-2'):
            volumes.delete(UUID, name)
        self.assertTrue(self.group().zeroed)
        self.assertEqual({ZERO}, set(self.lvm.content))
        zeroed = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.blockcopy.zero', zeroed.append
            )
        )
        self.create()
        self.assertEqual([], zeroed)
        self.assertEqual('', self.log.output)

    def test_volume_removed_by_hand(self):
        self.remove_by_hand()
        self.assertZeroes()
        self.assertIn('was changed by another program', self.log.output)

    def test_volume_made_and_removed_by_hand(self):
        self.by_hand(
            'lvcreate', '--name', 'theirs', '--size', f'{GIB}b', 'group'
        )
        self.lvm.write('theirs', 'secret')
        self.by_hand('lvremove', '--yes', fake_lvm.GROUP + '/theirs')
        self.assertZeroes()

    def test_extension_after_a_removal_by_hand(self):
        self.create()
        self.remove_by_hand()
        volumes.extend(UUID, 'volume-1', 2 * GIB)
        self.assertEqual([ZERO] * 2 * PART, self.lvm.read('volume-1'))

    def test_volume_removed_by_hand_during_a_change(self):
        self.create('volume-9', '9')
        self.lvm.write('volume-9', 'secret')

        def step(what):
            self.lvm.step = lambda what: None
            path = fake_lvm.GROUP + '/volume-9'
            self.by_hand('lvremove', '--yes', path)

        self.lvm.step = step
        self.create()
        self.assertZeroes()
        self.assertFalse(self.group().zeroed)

    def test_shrink_zeroes(self):
        self.create(size_gb=2)
        self.lvm.write('volume-1', 'own')
        volumes.shrink(UUID, 'volume-1', GIB)
        self.assertEqual(['own'] * PART, self.lvm.read('volume-1'))
        self.assertZeroes()

    def test_removed_without_wiping(self):
        self.create()
        self.lvm.write('volume-1', 'secret')
        volumes.mark_deleted(UUID, 'volume-1')
        volumes.remove(UUID, 'volume-1', wiped=False)
        self.assertZeroes()

    def test_killed_at_any_step(self):
        """No vdisk ever shows data of others."""

        def run_all():
            self.create()
            self.lvm.write('volume-1', 'own')
            volumes.extend(UUID, 'volume-1', 2 * GIB)
            volumes.delete(UUID, 'volume-1')

        for _ in self.kill(run_all):
            self.create('volume-2', '2', 2)
            self.assertEqual([ZERO] * 2 * PART, self.lvm.read('volume-2'))
            for name in ('volume-1', 'volume-2'):
                volumes.delete(UUID, name)

    def test_tag_without_a_number(self):
        self.lvm.tags = {
            one for one in self.lvm.tags if not one.startswith(naming.ZEROED)
        } | {naming.ZEROED}
        self.assertFalse(self.group().zeroed)
