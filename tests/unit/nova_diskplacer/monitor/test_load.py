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

import dataclasses

import testtools

from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import diskstats

MB = 10**6
HDD = Device('hdd', 'sda', '8:0', rotational=True, mbps=100)
SSD = Device('ssd', 'sdb', '8:16', rotational=False, mbps=400)


def work(mbps, busy=1.0, waited=1.0):
    return diskstats.Counters(
        round(mbps * 10), 0, round(mbps * MB), 0, busy, waited
    )


class UtilizationTest(testtools.TestCase):
    def full(self, device, done, depth=32, cost=0.0):
        return disk_monitor.utilization(device, depth, done, 1.0, cost)

    def test_rotational(self):
        self.assertEqual(0.4, self.full(HDD, work(1, busy=0.4)))
        # of a coarse clock
        self.assertEqual(1.0, self.full(HDD, work(1, busy=1.2)))

    def test_by_throughput(self):
        self.assertEqual(0.5, self.full(SSD, work(200)))
        # what it was said to give is not all
        self.assertEqual(1.0, self.full(SSD, work(900)))
        # in bursts
        self.assertEqual(0.2, self.full(SSD, work(200, busy=0.2)))

    def test_by_queue(self):
        """Many small requests fill it long before its throughput does."""
        self.assertEqual(0.5, self.full(SSD, work(20, waited=16.0)))
        self.assertEqual(1.0, self.full(SSD, work(20, waited=64.0)))
        self.assertEqual(0.05, self.full(SSD, work(20, waited=16.0), None))

    def test_nothing_known(self):
        device = dataclasses.replace(SSD, mbps=0)
        self.assertEqual(0.7, self.full(device, work(20, busy=0.7)))

    def test_held_back(self):
        self.assertEqual(0.9, self.full(HDD, work(1, busy=0.1), cost=0.9))
        self.assertEqual(1.0, self.full(SSD, work(1), cost=1.1))
