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
import os

import fixtures
import testtools

from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import diskstats

STATS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
   8       0 sda 100 5 2000 400 50 6 1000 600 3 700 9000 1 2 3 4 5 6
   8       1 sda1 90 5 1900 300 50 6 1000 600 0 650 900
 259       0 nvme0n1 1 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0
"""


class DiskstatsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'diskstats'
        )
        with open(self.path, 'w') as stream:
            stream.write(STATS)

    def test_asked_for_only(self):
        found = diskstats.read({'8:0', '259:0', '9:9'}, self.path)
        self.assertEqual({'8:0', '259:0'}, found.keys())
        self.assertEqual(
            diskstats.Counters(100, 50, 1_024_000, 512_000, 0.7, 1.0),
            found['8:0'],
        )

    def test_nvme_multipath(self):
        """The sum of the paths; the head may count, or not."""
        with open(self.path, 'a') as stream:
            stream.write(
                ' 259 1 nvme1c0n1 3 0 8 10 1 0 16 20 0 1000 30\n'
                ' 259 2 nvme1c1n1 4 0 8 10 1 0 16 20 0 1000 30\n'
                ' 259 3 nvme1n1 0 0 0 0 0 0 0 0 0 0 0\n'
            )
        head = Device('a', 'nvme1n1', '259:3', False)
        for paths, expected in (
            ((), diskstats.Counters()),
            (
                ('nvme1c0n1', 'nvme1c1n1', 'nvme1c2n1'),
                diskstats.Counters(7, 2, 8192, 16384, 2.0, 0.06),
            ),
        ):
            device = dataclasses.replace(head, paths=paths)
            self.assertEqual(
                {'259:3': expected},
                diskstats.read_disks([device], self.path),
            )
        gone = dataclasses.replace(head, paths=('nvme9c0n1',))
        self.assertEqual({}, diskstats.read_disks([gone], self.path))

    def test_real(self):
        before = self.numbers()
        found = diskstats.read(before).keys()
        # others may have come or gone meanwhile
        stayed = before & self.numbers()
        self.assertNotEqual(set(), stayed)
        self.assertEqual(set(), stayed - found)

    def numbers(self):
        with open('/proc/diskstats') as stream:
            return {':'.join(line.split()[:2]) for line in stream}

    def test_since(self):
        before = diskstats.Counters(10, 5, 1000, 500, 1.0, 2.0)
        after = diskstats.Counters(11, 7, 2000, 500, 1.5, 4.0)
        self.assertEqual(
            diskstats.Counters(1, 2, 1000, 0, 0.5, 2.0), after.since(before)
        )

    def test_another_device(self):
        before = diskstats.Counters(10, 5, 1000, 500, 1.0, 2.0)
        after = diskstats.Counters(11, 4, 2000, 500, 1.5, 4.0)
        self.assertIsNone(after.since(before))

    def test_times_of_32_bits_begin_anew(self):
        full = 2**32 / 1000
        before = diskstats.Counters(10, 5, 1000, 500, full - 3, full - 1)
        for after, expected in (
            (
                diskstats.Counters(11, 6, 2000, 600, full - 2, 1.0),
                (1.0, 2.0),
            ),
            (
                diskstats.Counters(11, 6, 2000, 600, 0.5, full - 0.5),
                (3.5, 0.5),
            ),
        ):
            done = after.since(before)
            self.assertEqual((1, 1, 1000, 100), dataclasses.astuple(done)[:4])
            self.assertAlmostEqual(expected[0], done.busy_seconds)
            self.assertAlmostEqual(expected[1], done.request_seconds)

    def test_another_device_with_larger_counters(self):
        """The times are too short for what they would have been."""
        before = diskstats.Counters(10, 5, 1000, 500, 100.0, 200.0)
        after = diskstats.Counters(11, 6, 2000, 600, 50.0, 100.0)
        self.assertIsNone(after.since(before))
