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

"""Connections of volumes, as Cinder drivers make them and Nova keeps them."""

import json
import unittest

from nova import objects

from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler.server_volumes import AttachedVolume


class AttachedTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def attached(self, connection):
        """Return a volume of a server by its connection, None for none."""
        text = None if connection is None else json.dumps(connection)
        mapping = objects.BlockDeviceMapping(
            volume_id='v',
            source_type='volume',
            destination_type='volume',
            boot_index=None,
            volume_size=10,
            connection_info=text,
        )
        (volume,) = server_volumes._attached([mapping])
        return volume

    def of_vdisk(self, kind='local', **vdisk):
        return self.attached(
            {
                'driver_volume_type': kind,
                'data': {'device_path': '/by-volume/v', 'vdisk': vdisk},
            }
        )

    def test_a_vdisk(self):
        self.assertEqual(
            AttachedVolume('v', 'host0', size_gb=10),
            self.of_vdisk(disk='disk0', host='host0'),
        )

    def test_a_file(self):
        volume = self.of_vdisk('gpfs', disk='disk0', host='host0')
        self.assertTrue(volume.is_file)

    def test_several_legs(self):
        """Those of an elastic vdisk may be on one disk."""
        for disks in ('disk0,disk1', 'disk0,disk0'):
            volume = self.of_vdisk(disk=disks, host='host0')
            self.assertTrue(volume.is_striped)

    def test_a_vdisk_that_has_come_from_another_host(self):
        volume = self.of_vdisk(disk='disk1', host='host1', moving_from='host0')
        self.assertEqual('host0', volume.moving_from)
        self.assertEqual('host1', volume.host)

    def test_volumes_that_are_no_vdisks(self):
        for connection in (
            None,
            {},
            {'driver_volume_type': 'gpfs', 'data': None},
            {'driver_volume_type': 'gpfs', 'data': {'device_path': '/f'}},
            {'driver_volume_type': 'rbd', 'data': {'vdisk': 'a name'}},
        ):
            self.assertEqual(
                AttachedVolume('v', None, size_gb=10),
                self.attached(connection),
            )
