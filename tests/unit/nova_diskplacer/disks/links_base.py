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

"""A disk root with a disk of each kind, for tests of links."""

import os

import fixtures
import testtools

from nova_diskplacer.disks import links

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
OTHER = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d12'
NAME = 'volume-1'


class LinksTestCase(testtools.TestCase):
    """``path`` is that of the link of a vdisk, which is not there yet."""

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        os.mkdir(f'{self.root}/{DISK}')
        # an LVM disk
        os.symlink(f'/dev/diskplacer-{OTHER}', f'{self.root}/{OTHER}')
        self.path = links.path(self.root, NAME)
