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

import fixtures
import testtools

from nova_diskplacer.host import loop_devices
from nova_diskplacer.host import sysfs


class Kernel:
    """A loop device of Linux before 6.15, on a disk with such blocks.

    ``configured`` are the block sizes that were asked for.
    """

    def __init__(self, block_size):
        self.block_size = block_size
        self.configured = []
        self.is_direct = False

    def ioctl(self, device, request, argument=0):
        if request == loop_devices._CONFIGURE:
            _, size, *_ = loop_devices._CONFIG.unpack(argument)
            self.configured.append(size)
            self.is_direct = (size or 512) >= self.block_size
        elif request == loop_devices._GET_STATUS64:
            flags = loop_devices._DIRECT_IO if self.is_direct else 0
            argument[:] = loop_devices._INFO.pack(
                *(0,) * 8, flags, b'', b'', b'', 0, 0
            )
        return 0


class ConfigureTestCase(testtools.TestCase):
    def configure(self, block_size, node='/dev/sdb1', kernel=None):
        """Return the block size that the device of a file is given."""
        kernel = kernel or Kernel(block_size)
        directory = self.useFixture(fixtures.TempDir()).path
        file = os.open(directory, os.O_RDONLY)
        self.addCleanup(os.close, file)

        def find(number):
            self.assertEqual(os.stat(directory).st_dev, number)
            return sysfs.Block(node)

        with (
            mock.patch.object(loop_devices.fcntl, 'ioctl', kernel.ioctl),
            mock.patch.object(sysfs, 'find_by_number', find),
            mock.patch.object(
                sysfs, 'logical_block_size', {'/dev/sdb1': block_size}.get
            ),
        ):
            self.assertTrue(loop_devices._configure(1000, file))
        return kernel.configured

    def test_a_disk_with_blocks_of_4_kib(self):
        self.assertEqual([4096], self.configure(4096))

    def test_other_disks_have_what_the_kernel_chooses(self):
        self.assertEqual([0], self.configure(512))
        self.assertEqual([0], self.configure(512, node=''))

    def test_a_filesystem_without_direct_io(self):
        error = self.assertRaises(
            OSError, self.configure, 4096, kernel=Kernel(1 << 20)
        )
        self.assertEqual(errno.EOPNOTSUPP, error.errno)
