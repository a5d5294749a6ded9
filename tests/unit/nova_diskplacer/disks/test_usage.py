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

import dataclasses
import os
from unittest import mock

import fixtures
from oslotest import base

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import links
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import libvirt_servers
from tests.unit.nova_diskplacer.host import test_libvirt_servers

DISK = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'
OTHER = '1b5d8b51-5dc3-4b6d-9f4f-7b5ce3c6e402'
GROUP = '2c6e9c62-6ed4-4c7e-8f50-8c6df4d7f513'


class OnDisksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path

    def disk(self, uuid):
        return discover.missing(uuid, os.path.join(self.root, uuid))

    def server(self, *paths):
        return libvirt_servers.parse(
            test_libvirt_servers.make_xml(paths=paths), True
        )

    def test_loop_devices(self):
        links.link(self.root, DISK, 'volume-1', True)
        one = self.server(links.path(self.root, 'volume-1'))
        # where a move has led
        two = self.server(f'/dev/diskplacer/{OTHER}/volume-2')
        three = self.server('/dev/loop3', f'/dev/diskplacer/{GROUP}/volume-3')
        disks = [self.disk(DISK), self.disk(OTHER)]
        self.assertEqual(
            {DISK: [one], OTHER: [two]},
            usage.servers_by_disk([one, two, three], disks),
        )
        self.assertEqual(
            [True, True, False, True],
            [
                usage.is_made_device(path)
                for server in (one, two, three)
                for path in server.vdisks
            ],
        )

    def test_files(self):
        real = self.useFixture(fixtures.TempDir()).path
        os.makedirs(os.path.join(real, 'vdisks'))
        os.symlink(real, os.path.join(self.root, DISK))
        os.makedirs(os.path.join(self.root, OTHER, 'vdisks'))
        one = self.server(
            f'{self.root}/{DISK}/vdisks/volume-1',
            f'{real}/vdisks/volume-2',
            '/var/lib/nova/instances/1/disk',
        )
        two = self.server(f'{self.root}/{DISK}/not-a-vdisk')
        disks = [self.disk(DISK), self.disk(OTHER)]
        self.assertEqual(
            {DISK: [one]}, usage.servers_by_disk([one, two], disks)
        )

    def test_a_network_filesystem_that_is_away_is_not_read(self):
        os.makedirs(os.path.join(self.root, DISK, 'vdisks'))
        away = self.useFixture(fixtures.TempDir()).path
        server = self.server(
            f'{away}/1/disk', f'{self.root}/{DISK}/vdisks/volume-1'
        )
        lstat = os.lstat

        def hang(path, *args, **kwargs):
            self.assertFalse(os.fspath(path).startswith(away), path)
            return lstat(path, *args, **kwargs)

        with mock.patch.object(os, 'lstat', hang):
            self.assertEqual(
                {DISK: [server]},
                usage.servers_by_disk([server], [self.disk(DISK)]),
            )

    def test_striped(self):
        path = '/dev/mapper/diskplacer-striped-volume-1'
        one, two = self.server(path), self.server(path + '2')
        piece = VDisk(
            'volume-1', '1', None, 1, stripe=Location((GROUP, OTHER))
        )
        disks = [
            dataclasses.replace(self.disk(uuid), vdisks=(piece,))
            for uuid in (GROUP, OTHER)
        ]
        self.assertEqual(
            [(one, path, GROUP), (one, path, OTHER)],
            list(usage.vdisks_in_use([one, two], disks)),
        )

    def test_links(self):
        os.makedirs(os.path.join(self.root, DISK, 'vdisks'))
        links.link(self.root, DISK, 'volume-1')
        os.symlink(f'/dev/diskplacer-{GROUP}', f'{self.root}/{GROUP}')
        links.link(self.root, GROUP, 'volume-2')
        server = self.server(
            links.path(self.root, 'volume-1'),
            links.path(self.root, 'volume-2'),
            links.path(self.root, 'volume-3'),
        )
        self.assertEqual(
            {DISK: [server], GROUP: [server]},
            usage.servers_by_disk(
                [server], [self.disk(DISK), self.disk(GROUP)]
            ),
        )

    def test_logical_volumes(self):
        os.symlink(f'/dev/diskplacer-{GROUP}', f'{self.root}/{GROUP}')
        one = self.server(f'/dev/diskplacer-{GROUP}/volume-1')
        two = self.server(f'/dev/diskplacer-{OTHER}/volume-1')
        self.assertEqual(
            {GROUP: [one]},
            usage.servers_by_disk([one, two], [self.disk(GROUP)]),
        )
