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

"""Test the geometry of thin pools."""

import testtools

from nova_diskplacer.disks.lvm import prepare as lvm_prepare

GIB = 1 << 30
TIB = 1 << 40


class GeometryTestCase(testtools.TestCase):
    def test_cases(self):
        for size, chunk_kib, metadata_mib in (
            (GIB, 64, 16),
            (8 * GIB, 64, 16),
            (100 * GIB, 64, 200),
            (TIB, 64, 2048),
            (2 * TIB, 128, 2048),
            (20 * TIB, 2048, 1280),
        ):
            self.assertEqual(
                (chunk_kib << 10, metadata_mib << 20),
                lvm_prepare.pool_geometry(size),
            )
