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

"""The loop devices that tests share, one after another."""

import os

import testtools

from nova_diskplacer.host import block_queue
from tests import loops
from tools.minicloud import disks

LEFT = {
    'scheduler': 'bfq',
    'wbt_lat_usec': '0',
    'max_sectors_kb': '256',
    'read_ahead_kb': '2048',
    'nomerges': '1',
    'rq_affinity': '2',
}


@loops.needs_root
class LoopDeviceTest(testtools.TestCase):
    def test_who_had_it_has_left_no_setting(self):
        device = os.path.basename(self.useFixture(loops.LoopDevice(1)).device)

        def read():
            values = block_queue.read(device).values
            return {name: values.get(name) for name in LEFT}

        before = read()
        for scheduler in ('bfq', 'none'):
            for name, value in {**LEFT, 'scheduler': scheduler}.items():
                if before[name] is not None:
                    block_queue.write(device, name, value)
            disks.reset_queue(device)
            self.assertEqual(before, read(), scheduler)
