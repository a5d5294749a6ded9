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

"""Marks of disks; tests/functional/disks has the rest, on devices."""

import dataclasses
import os
import stat
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import block
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.host import commands
from nova_diskplacer.host import fstab
from nova_diskplacer.host import mounts

UUID = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class MarksTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.disk = self.useFixture(fixtures.TempDir()).path
        for name, value in (
            ('_check_directory', mock.Mock(return_value=UUID)),
            ('_write_identity', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(prepare, name, value))

    def prepare(self):
        return prepare.prepare(self.root, self.disk)

    def test_after_a_killed_forget(self):
        class Killed(BaseException):
            pass

        self.prepare()
        path = os.path.join(self.root, UUID)
        for before in (False, True):
            discover.set_draining(self.root, UUID, before)
            for entry in (True, False):
                with mock.patch.object(
                    prepare, '_remove_entry', side_effect=Killed
                ):
                    self.assertRaises(Killed, prepare.forget, self.root, UUID)
                if not entry:
                    os.unlink(path)
                self.assertFalse(self.prepare().draining)
                self.assertEqual([UUID], os.listdir(self.root))

    def test_of_a_disk_that_is_drained(self):
        self.prepare()
        discover.set_draining(self.root, UUID, True)
        self.assertTrue(self.prepare().draining)


class WipeTestCase(testtools.TestCase):
    """What holds a disk of this host is not wiped while it is unmounted."""

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.device = os.path.join(self.root, 'sdb')
        with open(self.device, 'w'):
            pass
        self.fstab = os.path.join(self.root, 'fstab')
        self.entry = os.path.join(self.root, UUID)
        self.prepared = block.Device(
            self.device, signatures=(('xfs', block.LABEL, UUID),)
        )
        self.devices = {self.device: self.prepared}
        self.wiped = mock.Mock(side_effect=exception.DiskError('wiping'))
        locks = self.useFixture(fixtures.TempDir()).path
        name = 'nova_diskplacer.host.files._lock_directory'
        self.useFixture(fixtures.MonkeyPatch(name, locks))
        for where, name, value in (
            (stat, 'S_ISBLK', lambda mode: stat.S_ISREG(mode)),
            (block, 'inspect', lambda path: self.devices[path]),
            (block, 'wipe', self.wiped),
            (commands, 'run', mock.Mock(return_value='')),
            (commands, 'require', mock.Mock()),
            (lvm_prepare, 'release', mock.Mock()),
        ):
            self.useFixture(fixtures.MockPatchObject(where, name, value))

    def prepare(self, options=None):
        """Return why ``prepare --wipe`` of the device fails."""
        return str(
            self.assertRaises(
                exception.DiskError,
                prepare.prepare,
                self.root,
                self.device,
                medium='hdd',
                wipe=True,
                fstab=self.fstab,
                lvm_options=options,
            )
        )

    def make_disk(self):
        os.mkdir(self.entry)
        fstab.add(self.fstab, UUID, self.entry)

    def test_a_disk_that_is_not_mounted(self):
        self.make_disk()
        for options in (None, lvm_prepare.Options()):
            self.assertEqual(
                f'{self.device} is in use: it is disk {UUID}; forget that '
                'first',
                self.prepare(options),
            )
        self.wiped.assert_not_called()

    def test_a_partition_with_a_disk(self):
        self.make_disk()
        part = f'{self.device}1'
        self.devices = {
            self.device: block.Device(self.device, partitions=(part,)),
            part: self.prepared,
        }
        self.assertIn(f'{part} is in use: it is disk', self.prepare())

    def test_a_disk_of_a_killed_run(self):
        """It has a mount point at most, but no line in fstab."""
        self.assertEqual('wiping', self.prepare())
        os.mkdir(self.entry)
        self.assertEqual('wiping', self.prepare())
        self.assertFalse(os.path.exists(self.entry))

    def test_a_disk_that_is_gone_from_here(self):
        fstab.add(self.fstab, UUID, self.entry)
        self.assertEqual('wiping', self.prepare())

    def test_a_directory_that_is_not_mounted(self):
        """Only fstab tells that its filesystem belongs there."""
        self.devices[self.device] = block.Device(
            self.device, signatures=(('ext4', 'data', UUID),)
        )
        os.symlink('/srv/data', self.entry)
        for source in (
            f'UUID={UUID}',
            f'UUID="{UUID}"',
            'LABEL=data',
            self.device,
            self.device.replace('s', '\\163'),
        ):
            with open(self.fstab, 'w') as stream:
                stream.write(f'# {source} /mnt xfs\n{source} /srv/data ext4\n')
            self.assertEqual(
                f'{self.device} is in use: {self.fstab} has it mounted at '
                '/srv/data; remove that line first, if nobody needs it',
                self.prepare(),
            )
        with open(self.fstab, 'w') as stream:
            stream.write('UUID=other /srv/data ext4\nLABEL= /x ext4\n')
        self.assertEqual('wiping', self.prepare())

    def test_a_disk_with_another_signature_too(self):
        self.make_disk()
        for signatures in (
            (('gpt', '', ''), *self.prepared.signatures),
            (('xfs', 'renamed', UUID),),
        ):
            self.devices[self.device] = block.Device(
                self.device, signatures=signatures
            )
            self.assertIn(f'mounted at {self.entry};', self.prepare())

    def test_the_root_disk(self):
        with open(self.fstab, 'w') as stream:
            stream.write(f'{self.device} /boot/efi vfat noauto\n')
        self.devices[self.device] = block.Device(
            self.device, on_root_disk=True
        )
        self.assertIn('is on the root disk', self.prepare())

    def test_a_mounted_disk(self):
        """It can be completed while it has no identity."""
        self.make_disk()
        self.devices[self.device] = block.Device(
            self.device,
            mountpoints=(self.entry,),
            signatures=self.prepared.signatures,
        )
        with mock.patch.object(
            prepare, '_write_identity', side_effect=exception.DiskError('on')
        ):
            self.assertEqual('on', self.prepare())
        identity.write(self.entry, identity.Identity(UUID, 'hdd', 150))
        self.assertIn('in use: mounted at', self.prepare())
        self.wiped.assert_not_called()


class DirectoryTestCase(testtools.TestCase):
    """A subvolume of btrfs is no filesystem of its own."""

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.mounted = {'/': '/dev/sda2', self.directory: '/dev/sdb'}
        numbers = {'/': 40}

        def stat_(path):
            # each subvolume has a number of its own
            number = numbers.setdefault(path, 41 + len(numbers))
            return mock.Mock(st_dev=number)

        for where, name, value in (
            (mounts, 'is_mount_point', self.mounted.__contains__),
            (os, 'stat', stat_),
            (mounts, 'device', self.mounted.get),
        ):
            self.useFixture(fixtures.MockPatchObject(where, name, value))

    def refused(self):
        error = self.assertRaises(
            exception.DiskError,
            prepare._check_directory,
            self.root,
            self.directory,
        )
        return str(error)

    def test_of_a_subvolume_that_is_not_mounted(self):
        del self.mounted[self.directory]
        self.assertIn('is not a mount point', self.refused())

    def test_of_the_root_disk(self):
        self.mounted[self.directory] = '/dev/sda2'
        self.assertIn('is on the root disk', self.refused())

    def test_of_another_disk(self):
        path = os.path.join(self.root, UUID)
        disk = dataclasses.replace(
            discover.missing(UUID, path), health=discover.OK
        )
        with (
            mock.patch.object(discover, 'discover', return_value=[disk]),
            mock.patch.object(os.path, 'samefile', return_value=False),
            mock.patch.object(identity, 'read', return_value=None),
        ):
            prepare._check_directory(self.root, self.directory)
            self.mounted[path] = '/dev/sdb'
            self.assertIn(f'filesystem as disk {UUID}', self.refused())

    def test_without_a_device(self):
        self.mounted.update(dict.fromkeys(self.mounted))
        with (
            mock.patch.object(discover, 'discover', return_value=[]),
            mock.patch.object(identity, 'read', return_value=None),
        ):
            prepare._check_directory(self.root, self.directory)
