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

import ddt
import testtools

from tools.testbed import machine


@ddt.ddt
class DiskTest(testtools.TestCase):
    def test_slow_motion(self):
        disk = machine.Disk.parse('kind=hdd,slower=4')
        self.assertEqual(('hdd', 4), (disk.kind, disk.slower))

    @ddt.data('slower=4', 'kind=ssd,slower=4', 'kind=hdd,slower=0')
    def test_refused(self, text):
        error = self.assertRaises(ValueError, machine.Disk.parse, text)
        self.assertIn('slower ', str(error))
