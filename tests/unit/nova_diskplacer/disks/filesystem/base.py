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

import fixtures
import testtools

from nova_diskplacer.disks.filesystem import vdisks

MIB = 1 << 20


class DiskTestCase(testtools.TestCase):
    """A test on the disk at path ``disk``."""

    def setUp(self):
        super().setUp()
        self.disk = self.useFixture(fixtures.TempDir()).path
        vdisks.make_directory(self.disk)

    def create(self, name='volume-1', volume_id='1', server_id='s', mib=2):
        vdisks.create(self.disk, name, volume_id, server_id, mib * MIB)
