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

import collections

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import totals
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import test_disk_monitor

PAIRS = st.sets(
    st.tuples(st.sampled_from('abc'), st.sampled_from('xy')), max_size=6
)


class TotalsTest(base.BaseTestCase):
    @given(st.data())
    def test_pairs_add_up_while_they_exist(self, data):
        counted = totals.Totals()
        expected = collections.Counter()
        pairs = ()
        for _ in range(data.draw(st.integers(1, 6))):
            if data.draw(st.booleans()):
                pairs = tuple(sorted(data.draw(PAIRS)))
            moved = [data.draw(st.integers(0, 10**15)) for _ in pairs]
            counted = counted.plus(example.make_sample(pairs, moved), 0.25, 3)
            expected = collections.Counter(
                {
                    pair: expected[pair] + count
                    for pair, count in zip(pairs, moved, strict=True)
                }
            )
        table = counted.pairs
        self.assertEqual(
            expected, dict(zip(table.pairs, table['read_bytes'], strict=True))
        )
        self.assertEqual(counted.intervals * 0.25, counted.cpu_seconds)
        self.assertEqual(counted.intervals * 3, counted.weight_changes)

    def test_disks_add_up_while_they_exist(self):
        counted = totals.Totals()
        for _ in range(3):
            counted = counted.plus(example.make_sample(), 0, 0)
        disk = counted.disks[example.HDD]
        self.assertEqual(606_000_000, disk.read_bytes)
        self.assertEqual(303_000_000, disk.write_bytes)
        self.assertEqual(6060, disk.reads)
        self.assertEqual(4.5, disk.busy_seconds)
        self.assertEqual(75.0, disk.request_seconds)
        gone = counted.plus(example.make_sample(disks={}), 0, 0)
        self.assertEqual({}, gone.disks)

    def test_earlier_totals_do_not_change(self):
        before = totals.Totals().plus(example.make_sample(), 0, 0)
        reads = before.pairs['reads'].tolist()
        before.plus(example.make_sample(), 0, 0)
        self.assertEqual(1, before.intervals)
        self.assertEqual(reads, before.pairs['reads'].tolist())


class MissingDiskTest(test_disk_monitor.DiskMonitorTestCase):
    def test_nothing_is_lost_with_a_disk_that_is_missing_once(self):
        """Its next interval is longer than the sample's."""
        counted, states = totals.Totals(), []
        work = test_disk_monitor.work(50, busy=0.5)
        for is_missing in (False, True, False):
            number = self.devices['hdd'].number
            before = self.counters[number]
            if is_missing:
                del self.counters[number]
            states.append(self.update(**({} if is_missing else {'hdd': work})))
            self.counters[number] = self.counters.get(number, before)
            sample = example.make_sample(
                seconds=1.0, disks=states[-1], devices=self.devices
            )
            counted = counted.plus(sample, 0, 0)
        self.assertEqual([True, False, True], ['hdd' in s for s in states])
        disk = counted.disks['hdd']
        end: diskstats.Counters = self.counters[self.devices['hdd'].number]
        self.assertEqual(end.read_bytes, disk.read_bytes)
        self.assertEqual(end.reads, disk.reads)
        self.assertAlmostEqual(end.busy, disk.busy_seconds)
        self.assertAlmostEqual(end.waited, disk.request_seconds)
