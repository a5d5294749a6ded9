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

import testtools

from cinder_vdisk_mapper.backend import locations


class LocationsTestCase(testtools.TestCase):
    def test_location(self):
        for disks in ([], ['a'], ['b', 'a', 'c']):
            location = locations.location_of(disks)
            self.assertEqual(disks, locations.disks_of(location))
            self.assertEqual(len(disks) > 1, locations.is_striped(location))
        self.assertEqual([], locations.disks_of(None))

    def test_legs(self):
        location = locations.location_of(['a', 'a', 'b', 'a'])
        self.assertEqual(['a', 'b'], locations.disks_of(location))
        self.assertEqual(['a', 'a', 'b', 'a'], locations.legs_of(location))
        self.assertEqual({'a': 9, 'b': 3}, locations.pieces_gb(location, 10))
        self.assertTrue(locations.is_striped('a,a'))
        self.assertEqual({'a': 7}, locations.pieces_gb('a', 7))
        self.assertEqual({}, locations.pieces_gb(None, 7))
