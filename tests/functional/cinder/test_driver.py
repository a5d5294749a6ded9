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

"""The life of volumes, through Cinder's API."""

import os

from tests.functional.cinder import base

GIB = 1 << 30


class ClaimedTestCase(base.CinderTestCase):
    def test_life(self):
        host = self.hosts['host1']
        disk = sorted(host.disks())[1]
        server = self.server(claims={disk: 2}, vdisks=1, vdisk_gb=2)
        volume = self.create(2, f'{server}-blank-vol')
        self.assertEqual('host1@vdisk#vdisk', volume['os-vol-host-attr:host'])
        self.assertEqual((), host.disks()[disk].vdisks)
        attachment, path = self.attach(volume, server)
        self.assertEqual(
            f'{host.root}/{disk}/vdisks/volume-{volume["id"]}', path
        )
        status = os.stat(path)
        self.assertEqual(2 * GIB, status.st_size)
        self.assertGreaterEqual(status.st_blocks * 512, 2 * GIB)
        self.assertEqual({0}, set(host.reserved().values()))
        self.detach(volume, attachment)
        attachment, again = self.attach(volume, server)
        self.assertEqual(path, again)
        self.detach(volume, attachment)
        self.delete(volume)
        self.assertFalse(os.path.exists(path))
