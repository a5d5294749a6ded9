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

"""Prepared disks of loop devices, and looks at what vdisks contain."""

import contextlib
import os
from unittest import mock

import fixtures
import testtools

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from tests import loops
from tests import shell

MIB = 1 << 20


class Killed(BaseException):
    """The process was killed at this point."""


@contextlib.contextmanager
def killed_before(case, module, function):
    """Have the process die when it comes to a function."""
    with (
        mock.patch.object(module, function, side_effect=Killed),
        testtools.ExpectedException(Killed),
    ):
        yield


@loops.needs_root
class VDiskTestCase(testtools.TestCase):
    """Vdisks on real XFS; sizes are in MiB."""

    disk_gb = 1
    loop_options = ()

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(self.directory, 'disks')
        self.disk = self.prepared()

    def prepared(self):
        """Prepare a disk and return its path."""
        loop = loops.LoopDevice(self.disk_gb, *self.loop_options)
        self.device = self.useFixture(loop).device
        return prepare.prepare(
            self.root,
            self.device,
            fstab=os.path.join(self.directory, 'fstab'),
        ).path

    def look(self, disk=None):
        """Return the disk as it is found."""
        return discover.inspect(self.root, os.path.basename(disk or self.disk))

    def names(self, disk=None):
        """Return the names of the vdisks that are listed."""
        return [vdisk.name for vdisk in vdisks.scan(disk or self.disk)]

    def create(self, name='volume-1', volume_id='1', server_id='s', mib=8):
        vdisks.create(self.disk, name, volume_id, server_id, mib * MIB)

    def path(self, name='volume-1', disk=None):
        return vdisks.path(disk or self.disk, name)

    def write(self, name, text, mib=0):
        """Write at an offset, as a guest that syncs."""
        with open(self.path(name), 'r+b') as stream:
            stream.seek(mib * MIB)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())

    def fill(self, name, byte):
        """Write one byte all over a vdisk."""
        size = os.stat(self.path(name)).st_size
        self.write(name, byte * size)

    def punch(self, name, mib, count):
        """Discard a part of a vdisk, as a guest does."""
        shell.run(
            'fallocate', '--punch-hole', '--offset', str(mib * MIB),
            '--length', str(count * MIB), self.path(name),
        )  # fmt: skip

    def content(self, name='volume-1', disk=None):
        with open(self.path(name, disk), 'rb') as stream:
            return stream.read()

    def entries(self, disk=None):
        """Return all that is in the directory of vdisks."""
        return sorted(os.listdir(os.path.join(disk or self.disk, 'vdisks')))

    def assertAllocated(self, name='volume-1', disk=None):
        status = os.stat(self.path(name, disk))
        self.assertGreaterEqual(status.st_blocks * 512, status.st_size)
