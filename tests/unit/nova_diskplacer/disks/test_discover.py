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

"""Disks found in a directory; what is mounted where is made up."""

import os
import uuid
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import sysfs
from nova_diskplacer.disks import vdisks


class DiscoverTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.mounted = set()
        patch = mock.patch.object(
            os.path, 'ismount', side_effect=self.mounted.__contains__
        )
        patch.start()
        self.addCleanup(patch.stop)
        block = sysfs.Block('/dev/sdx', 'Paper', True, 1)
        patch = mock.patch.object(sysfs, 'of_filesystem', return_value=block)
        patch.start()
        self.addCleanup(patch.stop)

    def add(self, name=None):
        """Add a healthy disk and return its UUID."""
        name = name or str(uuid.uuid4())
        path = os.path.join(self.root, name)
        os.makedirs(path)
        vdisks.make_directory(path)
        identity.write(path, identity.Identity(name, 'hdd', 90))
        self.mounted.add(path)
        return name

    def healths(self):
        """Return the health of each disk that is found."""
        return {
            disk.uuid: disk.health for disk in discover.discover(self.root)
        }

    def test_no_root(self):
        self.assertEqual([], discover.discover(self.root + '/none'))

    def test_healthy(self):
        name = self.add()
        vdisks.create(f'{self.root}/{name}', 'volume-1', '1', 's', 4096)
        (disk,) = discover.discover(self.root)
        status = os.statvfs(self.root)
        self.assertEqual(
            (name, f'{self.root}/{name}', '/dev/sdx', 'hdd', 'Paper', 1, 90),
            (
                disk.uuid,
                disk.path,
                disk.device,
                disk.medium,
                disk.model,
                disk.numa_node,
                disk.mbps,
            ),
        )
        self.assertEqual('ok', disk.health)
        self.assertEqual(status.f_blocks * status.f_frsize, disk.size_bytes)
        self.assertEqual(
            (vdisks.VDisk('volume-1', '1', 's', 4096),), disk.vdisks
        )

    def test_link_to_a_directory(self):
        elsewhere = os.path.join(self.root, 'srv')
        name = self.add()
        os.rename(os.path.join(self.root, name), elsewhere)
        os.symlink(elsewhere, os.path.join(self.root, name))
        self.assertEqual({name: 'missing'}, self.healths())
        self.mounted.add(elsewhere)
        self.assertEqual({name: 'ok'}, self.healths())

    def test_one_bad_disk_spoils_no_other(self):
        good = self.add()
        not_mounted = self.add()
        self.mounted.discard(os.path.join(self.root, not_mounted))
        no_identity = self.add()
        os.unlink(os.path.join(self.root, no_identity, identity.FILE))
        another = self.add()
        identity.write(
            os.path.join(self.root, another),
            identity.Identity(good, 'hdd', 90),
        )
        malformed = self.add()
        path = os.path.join(self.root, malformed, identity.FILE)
        with open(path, 'w') as stream:
            stream.write('{')
        no_vdisks = self.add()
        os.rmdir(os.path.join(self.root, no_vdisks, 'vdisks'))
        gone = str(uuid.uuid4())
        os.symlink('/no/such', os.path.join(self.root, gone))
        self.add('lost+found')
        self.assertEqual(
            {
                good: 'ok',
                not_mounted: 'missing',
                no_identity: 'missing',
                another: 'missing',
                malformed: 'missing',
                no_vdisks: 'missing',
                gone: 'missing',
            },
            self.healths(),
        )

    def test_failing_disk(self):
        name = self.add()
        with mock.patch.object(os, 'fstatvfs', side_effect=OSError(5, 'EIO')):
            self.assertEqual({name: 'missing'}, self.healths())

    def test_read_only(self):
        name = self.add()
        status = mock.Mock(
            f_blocks=1, f_frsize=1, f_bavail=1, f_flag=os.ST_RDONLY
        )
        with mock.patch.object(os, 'fstatvfs', return_value=status):
            self.assertEqual({name: 'read-only'}, self.healths())

    def test_a_missing_disk_is_logged_when_that_happens(self):
        name = self.add()
        path = os.path.join(self.root, name)
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(2):
            self.mounted.discard(path)
            for _ in range(3):
                self.healths()
            self.mounted.add(path)
            self.healths()
        self.assertEqual(
            [f'Disk {path} is missing: nothing is mounted there'] * 2,
            log.output.splitlines(),
        )
