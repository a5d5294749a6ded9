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


import errno
import os
from unittest import mock

from testtools import matchers

from nova_diskplacer import exception
from nova_diskplacer.disks import links
from tests.unit.nova_diskplacer.disks import links_base

DISK = links_base.DISK
OTHER = links_base.OTHER
NAME = links_base.NAME


class LinksTestCase(links_base.LinksTestCase):
    def test_both_kinds_of_disks(self):
        for disk, path in (
            (DISK, f'{self.root}/{DISK}/vdisks/{NAME}'),
            (OTHER, f'/dev/diskplacer-{OTHER}/{NAME}'),
        ):
            links.link(self.root, disk, NAME)
            self.assertEqual(path, os.readlink(self.path))
            self.assertEqual(path, links.resolve(self.path))
            self.assertEqual(disk, links.linked_disk(self.root, NAME))
            self.assertEqual({NAME: disk}, links.all_links(self.root))

    def test_it_is_durable(self):
        synced = []

        def fsync(descriptor):
            synced.append(os.readlink(f'/proc/self/fd/{descriptor}'))

        for disk in (DISK, OTHER):
            with mock.patch('os.fsync', fsync):
                links.link(self.root, disk, NAME)
            self.assertEqual(os.path.dirname(self.path), synced.pop())
        # the directory was new
        self.assertEqual([self.root], synced)
        synced.clear()
        with mock.patch('os.fsync', fsync):
            links.unlink(self.root, NAME)
        self.assertEqual([os.path.dirname(self.path)], synced)

    def test_removed(self):
        links.link(self.root, DISK, NAME)
        for _ in range(2):
            links.unlink(self.root, NAME)
            self.assertIsNone(links.linked_disk(self.root, NAME))
            self.assertEqual({}, links.all_links(self.root))

    def test_to_a_device(self):
        """The kind of a link is replaced with it, in one step."""
        for to_device, target in (
            (False, f'{self.root}/{DISK}/vdisks/{NAME}'),
            (True, f'/dev/diskplacer/{DISK}/{NAME}'),
            (False, f'{self.root}/{DISK}/vdisks/{NAME}'),
        ):
            links.link(self.root, DISK, NAME, to_device)
            self.assertEqual(target, os.readlink(self.path))
            self.assertEqual(target, links.resolve(self.path))
            self.assertEqual(DISK, links.linked_disk(self.root, NAME))
            self.assertEqual(to_device, links.is_to_device(self.root, NAME))
        links.unlink(self.root, NAME)
        self.assertFalse(links.is_to_device(self.root, NAME))

    def test_none_was_ever_made(self):
        self.assertIsNone(links.linked_disk(self.root, NAME))
        self.assertEqual({}, links.all_links(self.root))
        links.unlink(self.root, NAME)

    def test_what_a_killed_run_has_left(self):
        links.link(self.root, DISK, NAME)
        os.symlink('/left', f'{self.root}/by-volume/.new.{NAME}')
        self.assertEqual({NAME: DISK}, links.all_links(self.root))
        links.link(self.root, OTHER, NAME)
        self.assertEqual([NAME], os.listdir(f'{self.root}/by-volume'))

    def test_other_paths(self):
        for path in ('/dev/vda', f'{self.root}/{DISK}/vdisks/{NAME}'):
            self.assertEqual(path, links.resolve(path))
        # as the directory is searched for links only
        self.assertEqual(self.path, links.resolve(self.path))

    def assertUnknown(self, pattern):
        """The disk of the link is not known; those of others are."""
        error = self.assertRaises(
            exception.DiskError, links.linked_disk, self.root, NAME
        )
        self.assertThat(str(error), matchers.StartsWith(self.path))
        self.assertIn(pattern, str(error))
        links.link(self.root, OTHER, 'volume-2')
        self.assertEqual(
            {NAME: None, 'volume-2': OTHER}, links.all_links(self.root)
        )

    def test_links_of_others(self):
        links.link(self.root, DISK, NAME)
        for target in (
            '/dev/vda',
            'volume-2',
            '',
            f'{self.root}/{DISK}',
            f'{self.root}/{DISK}/vdisks/volume-2',
            f'{self.root}/{DISK}/{NAME}',
            f'{self.root}/{DISK}/vdisks/x/{NAME}',
            f'{self.root}/disk/vdisks/{NAME}',
            f'/root/{DISK}/vdisks/{NAME}',
            f'/dev/diskplacer-{DISK}/volume-2',
            f'/dev/diskplacer/{DISK}/volume-2',
            f'/dev/diskplacer/disk/{NAME}',
            f'/dev/diskplacer/x/{DISK}/{NAME}',
            f'/mnt/diskplacer/{DISK}/{NAME}',
            f'/dev/diskplacer-disk/{NAME}',
            f'/mnt/diskplacer-{DISK}/{NAME}',
            f'/proc/7/task/7/../../../../dev/diskplacer/{DISK}/{NAME}',
        ):
            os.unlink(self.path)
            if target:
                os.symlink(target, self.path)
            else:
                os.mknod(self.path)
            self.assertUnknown(
                f'leads to {target}' if target else 'Invalid argument'
            )

    def test_the_vdisk_of_another_host(self):
        target = '192.0.2.1:3260', f'iqn.x:{NAME}', 0
        device = links.device_of(*target)
        self.assertIsNone(links.remote_device(self.root, NAME))
        self.assertEqual([], links.remotes(self.root))
        for _ in range(2):
            links.add_remote(self.root, NAME, *target)
            links.link_remote(self.root, NAME)
        self.assertEqual(device, links.remote_device(self.root, NAME))
        self.assertEqual([NAME], links.remotes(self.root))
        # no disk has this name
        self.assertEqual(links.REMOTE, links.linked_disk(self.root, NAME))
        self.assertEqual({NAME: links.REMOTE}, links.all_links(self.root))
        self.assertRaises(
            exception.DiskError,
            links.vdisk_path,
            self.root,
            links.REMOTE,
            NAME,
        )
        remote = os.readlink(self.path)
        self.assertEqual(device, os.readlink(remote))
        # it leads here in one step, and the session is there until it ends
        links.link(self.root, DISK, NAME)
        self.assertEqual(DISK, links.linked_disk(self.root, NAME))
        self.assertEqual(device, links.remote_device(self.root, NAME))
        for _ in range(2):
            links.remove_remote(self.root, NAME)
            self.assertIsNone(links.remote_device(self.root, NAME))
        # of another vdisk
        os.unlink(self.path)
        os.symlink(remote.replace(NAME, 'volume-2'), self.path)
        self.assertUnknown('which is no vdisk')

    def test_targets(self):
        iqn = f'iqn.2010-10.org.openstack:{NAME}'
        for target in (
            ('192.0.2.1:3260', iqn, 0),
            ('[2001:db8::1]:3260', iqn, 12),
        ):
            self.assertEqual(target, links.target_of(links.device_of(*target)))
            links.add_remote(self.root, NAME, *target)
            made = links.remote_device(self.root, NAME)
        for target in (
            ('192.0.2.1', iqn, 0),
            ('', iqn, 0),
            ('192.0.2.1:3260', '', 0),
            ('192.0.2.1:3260', f'{iqn}\n', 0),
            ('192.0.2.1:3260', f'../../{iqn}', 0),
            ('../192.0.2.1:3260', iqn, 0),
            ('192.0.2.1:3260', iqn, -1),
            # of another volume
            ('192.0.2.1:3260', f'{iqn}1', 0),
            ('192.0.2.1:3260', f'{iqn}-lun-1', 0),
        ):
            self.assertRaises(
                exception.DiskError,
                links.add_remote,
                self.root,
                NAME,
                *target,
            )
            self.assertEqual(made, links.remote_device(self.root, NAME))
        for device in ('/dev/sda', '/dev/disk/by-path/x', ''):
            self.assertRaises(exception.DiskError, links.target_of, device)

    def test_the_disk_root_by_another_path(self):
        links.link(self.root, DISK, NAME)
        other = f'{self.root}.link'
        os.symlink(self.root, other)
        self.addCleanup(os.unlink, other)
        for root in (
            other,
            f'{self.root}/',
            f'{self.root}/../{os.path.basename(other)}',
        ):
            self.assertEqual(DISK, links.linked_disk(root, NAME))
            links.link(root, DISK, NAME)
            self.assertEqual(DISK, links.linked_disk(self.root, NAME))

    def test_links_that_cannot_be_read(self):
        links.link(self.root, DISK, NAME)
        readlink = os.readlink
        for number in (errno.EIO, errno.EACCES, errno.ESTALE, errno.ELOOP):

            def fail(path, number=number):
                if path == self.path:
                    raise OSError(number, os.strerror(number), path)
                return readlink(path)

            with mock.patch('os.readlink', fail):
                self.assertUnknown(os.strerror(number))

    def test_the_directory_cannot_be_read(self):
        os.mknod(os.path.dirname(self.path))
        for read in (
            lambda: links.linked_disk(self.root, NAME),
            lambda: links.all_links(self.root),
        ):
            error = self.assertRaises(exception.DiskError, read)
            self.assertIn('by-volume', str(error))
            self.assertIn('Not a directory', str(error))

    def test_bad_names(self):
        for name in ('', '..', 'a/b', '.new.x'):
            self.assertRaises(
                exception.DiskError, links.link, self.root, DISK, name
            )
        self.assertRaises(
            exception.DiskError, links.link, self.root, '..', NAME
        )
