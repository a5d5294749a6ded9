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


import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import links

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
OTHER = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'
NAME = 'volume-1'


class LinksTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        os.mkdir(f'{self.root}/{DISK}')
        # an LVM disk
        os.symlink(f'/dev/diskplacer-{OTHER}', f'{self.root}/{OTHER}')
        self.path = links.path(self.root, NAME)

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
        with mock.patch('os.fsync', fsync):
            links.unlink(self.root, NAME)
        self.assertEqual([os.path.dirname(self.path)], synced)

    def test_removed(self):
        links.link(self.root, DISK, NAME)
        for _ in range(2):
            links.unlink(self.root, NAME)
            self.assertIsNone(links.linked_disk(self.root, NAME))
            self.assertEqual({}, links.all_links(self.root))

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

    def test_links_of_others(self):
        links.link(self.root, DISK, NAME)
        os.unlink(self.path)
        os.symlink('/dev/vda', self.path)
        self.assertIsNone(links.linked_disk(self.root, NAME))

    def test_bad_names(self):
        for name in ('', '..', 'a/b', '.new.x'):
            self.assertRaises(
                exception.DiskError, links.link, self.root, DISK, name
            )
        self.assertRaises(
            exception.DiskError, links.link, self.root, '..', NAME
        )
