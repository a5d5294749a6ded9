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

from nova_diskplacer.monitor import totals
from tests.unit.nova_diskplacer.monitor import example

PAIRS = st.sets(
    st.tuples(st.sampled_from('abc'), st.sampled_from('xy')), max_size=6
)


class TotalsTest(base.BaseTestCase):
    @given(st.data())
    def test_pairs_add_up_while_they_are_there(self, data):
        counted = totals.Totals()
        expected = collections.Counter()
        pairs = ()
        for _ in range(data.draw(st.integers(1, 6))):
            if data.draw(st.booleans()):
                pairs = tuple(sorted(data.draw(PAIRS)))
            bytes_ = [data.draw(st.integers(0, 10**15)) for _ in pairs]
            round_ = example.round_(1.0, pairs, bytes_)
            counted = totals.add(counted, round_, {}, 0.25, 3)
            expected = collections.Counter(
                {
                    pair: expected[pair] + count
                    for pair, count in zip(pairs, bytes_, strict=True)
                }
            )
        self.assertEqual(
            expected,
            dict(zip(counted.pairs, counted.read_bytes, strict=True)),
        )
        self.assertEqual(counted.rounds * 0.25, counted.cpu_seconds)
        self.assertEqual(counted.rounds * 3, counted.weight_changes)

    def test_disks_add_up_while_they_are_there(self):
        counted = totals.Totals()
        for _ in range(3):
            counted = totals.add(
                counted, example.round_(2.0), example.states(), 0, 0
            )
        disk = counted.disks[example.HDD]
        self.assertEqual(606_000_000, disk.read_bytes)
        self.assertEqual(303_000_000, disk.write_bytes)
        self.assertEqual(6060, disk.reads)
        self.assertEqual(4.5, disk.busy_seconds)
        self.assertEqual(75.0, disk.request_seconds)
        gone = totals.add(counted, example.round_(), {}, 0, 0)
        self.assertEqual({}, gone.disks)

    def test_who_has_the_totals_of_before_keeps_them(self):
        before = totals.add(
            totals.Totals(), example.round_(), example.states(), 0, 0
        )
        reads = before.reads.copy()
        totals.add(before, example.round_(), example.states(), 0, 0)
        self.assertEqual(1, before.rounds)
        self.assertEqual(reads.tolist(), before.reads.tolist())
