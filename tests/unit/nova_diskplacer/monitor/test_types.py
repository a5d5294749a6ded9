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

import numpy
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.monitor import types

PAIRS = st.lists(
    st.tuples(st.sampled_from('abcd'), st.sampled_from('xyz')), unique=True
)


class PairsTest(base.BaseTestCase):
    @given(PAIRS)
    def test_rows_of_disks(self, pairs):
        pairs = types.Pairs(pairs)
        self.assertEqual(
            [uuid for _, uuid in pairs],
            [pairs.disks[row] for row in pairs.disk_rows],
        )
        self.assertEqual(sorted({uuid for _, uuid in pairs}), [*pairs.disks])


class PairTableTest(base.BaseTestCase):
    def make_table(self, pairs):
        count = numpy.arange(1, len(pairs) + 1)
        both = numpy.stack((count, count * 10), axis=1) / 2
        return types.PairTable(types.Pairs(pairs), count=count, both=both)

    @given(PAIRS, PAIRS)
    def test_rows_are_carried_over(self, before, after):
        table = self.make_table(before)
        found = table.aligned(types.Pairs(after))
        self.assertEqual(after, [*found.pairs])
        rows = {pair: row for row, pair in enumerate(before, 1)}
        self.assertEqual(
            [rows.get(pair, 0) for pair in after], found['count'].tolist()
        )
        self.assertEqual(
            [[rows.get(p, 0) / 2, rows.get(p, 0) * 5] for p in after],
            found['both'].tolist(),
        )
        self.assertEqual(table['count'].dtype, found['count'].dtype)

    def test_the_same_pairs_cost_nothing(self):
        table = self.make_table([('a', 'x')])
        self.assertIs(table, table.aligned(table.pairs))
