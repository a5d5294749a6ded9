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

import os

import fixtures
import testtools

from nova_diskplacer.host import cgroups
from nova_diskplacer.monitor import disk_monitor

# as Linux 6.1 has it
STAT = """\
254:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0 cost.vrate=100.00 \
cost.usage=2500000
254:32 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0
"""


class IOCostUsageTest(testtools.TestCase):
    def test_read(self):
        root = self.useFixture(fixtures.TempDir()).path
        v2 = cgroups.Hierarchy(2, root)
        self.assertEqual({}, disk_monitor.read_charged_seconds(v2))
        with open(os.path.join(root, 'io.stat'), 'w') as stream:
            stream.write(STAT)
        self.assertEqual(
            {'254:16': 2.5}, disk_monitor.read_charged_seconds(v2)
        )
        self.assertEqual(
            {}, disk_monitor.read_charged_seconds(cgroups.Hierarchy(1, root))
        )
