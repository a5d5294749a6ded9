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
import unittest
from unittest import mock

import hypothesis
import numpy as np
from hypothesis import strategies as st
from nova.objects import aggregate

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.scheduler import packing
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler import retries
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import test_plan

TOTAL = 100


def capacity(hosts, vdisks=None, **changes):
    """Return the free capacity of hosts with disks of 100 GiB.

    :param hosts: the free GiB of each disk, by host.
    """
    free = test_plan.capacity(hosts)
    fields = {
        'total_gb': np.full_like(free.free_gb, TOTAL),
        'vdisks': np.zeros_like(free.free_gb),
        **{name: np.array(value) for name, value in changes.items()},
    }
    if vdisks is not None:
        fields['vdisks'] = np.array(vdisks)
    return dataclasses.replace(free, **fields)


class PackingTest(unittest.TestCase):
    def setUp(self):
        conf.register_opts(conf.CONF)
        self.addCleanup(conf.CONF.reset)
        self.limits(0.6, 0.8)

    def limits(self, spread_up_to, pack_from):
        for name, value in (
            ('disk_spread_up_to', spread_up_to),
            ('disk_pack_from', pack_from),
        ):
            conf.CONF.set_override(name, value, 'diskplacer_scheduler')
            self.addCleanup(
                conf.CONF.clear_override, name, 'diskplacer_scheduler'
            )

    def pack(self, free, metadata=(), seed=None, **request):
        """Return the packing, without its random part if there is no seed."""
        hosts = [fakes.host_state(at) for at in range(len(free.free_gb))]
        for host, values in zip(hosts, metadata, strict=False):
            host.aggregates = [aggregate.Aggregate(metadata=values)]
        request = flavor.VDiskRequest(
            **{'vdisks': 1, 'vdisk_gb': 10, **request}
        )
        if seed is not None:
            return packing.of_request(free, request, hosts, seed)
        with mock.patch.object(
            retries, 'random_numbers', lambda count, _: np.zeros(count)
        ):
            return packing.of_request(free, request, hosts, '')

    def test_an_empty_fleet_spreads(self):
        self.assertIsNone(self.pack(capacity([[100, 100], [20, 100]])))

    def test_a_full_fleet_packs(self):
        packed = self.pack(capacity([[10, 30], [10, 10]]))
        self.assertEqual([1.0, 1.0], packed.share.tolist())
        self.assertAlmostEqual(0.85, packed.committed)
        low, high = packed.scores
        self.assertLess(low, high)

    def test_it_fades(self):
        packed = self.pack(capacity([[30, 30], [30, 30]]))
        self.assertAlmostEqual(0.5, packed.share[0])
        choice = plan.Choice(
            np.ones(2, dtype=bool), np.zeros((2, 2)), np.array([0.2, 0.4])
        )
        blended = packed.blend(choice).scores
        np.testing.assert_allclose(
            (choice.scores + packed.scores) / 2, blended
        )

    def test_few_vdisks_of_hosts_that_are_equally_full(self):
        packed = self.pack(capacity([[10, 10], [10, 10]], [[9, 9], [1, 1]]))
        many, few = packed.scores
        self.assertLess(many, few)

    def test_free_gib_of_unlike_hosts(self):
        """The smaller host is packed first, at the same committed share."""
        free = capacity(
            [[10, 10], [10, 0]],
            medium=[[1, 1], [1, 0]],
            total_gb=[[100, 100], [100, 0]],
        )
        large, small = self.pack(free).scores
        self.assertLess(large, small)

    def test_vdisks_count_by_the_size_of_disks(self):
        """A disk of twice the size may have twice as many vdisks."""
        free = capacity(
            [[10, 10], [20, 0]],
            [[1, 1], [4, 0]],
            medium=[[1, 1], [1, 0]],
            total_gb=[[100, 100], [200, 0]],
        )
        space = packing.space_of(free, flavor.VDiskRequest(1, 10))
        self.assertEqual([2 / 200, 4 / 200], space.vdisks.tolist())

    def test_many_disks_with_some_space_are_kept(self):
        """The free GiB are the same."""
        few, many = self.pack(capacity([[40, 0], [20, 20]])).scores
        self.assertLess(many, few)

    def test_requests_rank_alike_hosts_differently(self):
        free = capacity([[10, 10]] * 50)
        best = {
            int(self.pack(free, seed=f'server {at}').scores.argmax())
            for at in range(8)
        }
        self.assertGreater(len(best), 5)
        once, again = (self.pack(free, seed='one').scores for _ in range(2))
        np.testing.assert_array_equal(once, again)

    def test_the_random_part_is_small(self):
        """It never puts the emptiest host before the fullest."""
        free = capacity([[1, 1], [60, 60]])
        self.limits(0.0, 0.0)
        for at in range(100):
            full, empty = self.pack(free, seed=f'{at}').scores
            self.assertLess(empty, full)

    def test_disks_of_other_media_do_not_count(self):
        free = capacity([[10, 100], [20, 100]], medium=[[1, 2], [1, 2]])
        self.assertIsNone(self.pack(free, media='any'))
        self.assertAlmostEqual(0.85, self.pack(free, media='hdd').committed)
        self.assertIsNone(self.pack(free, media='ssd'))

    def test_disks_without_free_mbps(self):
        free = capacity(
            [[90, 90], [90, 90]],
            total_mbps=[[100, 100], [100, 100]],
            free_mbps=[[0, 0], [0, 50]],
        )
        self.assertIsNone(self.pack(free))
        packed = self.pack(free, vdisk_mbps=10)
        self.assertAlmostEqual(0.875, packed.committed)
        spent, some = packed.scores
        self.assertLess(some, spent)

    def test_always_and_never(self):
        full, empty = capacity([[1, 1]]), capacity([[99, 100]])
        self.limits(1.0, 1.0)
        self.assertIsNone(self.pack(full))
        self.limits(0.0, 0.0)
        self.assertEqual([1.0], self.pack(empty).share.tolist())

    def test_limits_the_wrong_way_round(self):
        self.limits(0.8, 0.5)
        self.assertIsNone(self.pack(capacity([[30, 30]])))
        self.assertEqual([1.0], self.pack(capacity([[10, 10]])).share.tolist())

    def test_metadata_of_aggregates(self):
        free = capacity([[30, 30], [30, 30], [30, 30]])
        packed = self.pack(
            free, [{}, {'disk_spread_up_to': '1'}, {'disk_pack_from': '0.6'}]
        )
        np.testing.assert_allclose([0.5, 0.0, 1.0], packed.share)

    def test_no_hosts_and_no_disks(self):
        self.assertIsNone(packing.of_request(capacity([[1]]), None, [], ''))
        free = test_plan.capacity([[], []])
        self.assertIsNone(self.pack(free))

    def test_the_words_of_the_log(self):
        packed = self.pack(capacity([[30, 30], [30, 30]]))
        self.assertEqual(
            ', 50% of it from pack score 0.40 as 70% of the disks are '
            'committed',
            packed.describe(0),
        )

    @hypothesis.given(
        st.lists(
            st.lists(st.integers(-5, TOTAL), min_size=3, max_size=3),
            min_size=1,
            max_size=5,
        ),
        st.data(),
    )
    def test_scores_are_from_0_to_1(self, hosts, data):
        vdisks = data.draw(
            st.lists(
                st.lists(st.integers(0, 40), min_size=3, max_size=3),
                min_size=len(hosts),
                max_size=len(hosts),
            )
        )
        packed = self.pack(capacity(hosts, vdisks), seed='server')
        hypothesis.assume(packed is not None)
        self.assertTrue(((packed.scores >= 0) & (packed.scores <= 1)).all())
        choice = plan.Choice(
            np.ones(len(hosts), dtype=bool),
            np.zeros((len(hosts), 3)),
            np.full(len(hosts), 0.25),
        )
        scores = packed.blend(choice).scores
        self.assertTrue(((scores >= 0) & (scores <= 1)).all())
