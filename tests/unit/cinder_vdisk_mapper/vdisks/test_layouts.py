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

from unittest import mock

import fixtures
import testtools

from cinder_vdisk_mapper.vdisks import layouts
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer.disks import links
from nova_diskplacer.disks.location import Location


class OneDiskTestCase(testtools.TestCase):
    def test_the_device_is_made_where_the_vdisk_is(self):
        hold = self.useFixture(fixtures.MockPatchObject(locks, 'hold')).mock
        hold.return_value = mock.MagicMock()
        for location, linked, disk in (
            ('a', 'a', 'a'),
            # it has moved since it was read
            ('a', 'b', 'b'),
            # it has no server, as that of a backup
            ('a', None, 'a'),
            ('a', links.REMOTE, None),
        ):
            operations = mock.Mock()
            operations.backend.linked_disk.return_value = linked
            vdisk = layouts.OneDisk(
                operations, Location.parse(location), 'volume-1'
            )
            vdisk.activate(mock.Mock(id='1'))
            attach = operations.backend.attach_device
            if disk:
                attach.assert_called_once_with(disk, 'volume-1')
            else:
                attach.assert_not_called()
            hold.assert_called_with('volume-1')
