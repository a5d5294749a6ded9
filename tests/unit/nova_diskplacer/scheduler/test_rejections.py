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

"""The reasons why hosts are rejected."""

import dataclasses
import unittest

import hypothesis
import numpy as np
from hypothesis import strategies as st

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler import rejections
from nova_diskplacer.scheduler.rejections import Reason

HDD = 1
SSD = 2
SERVER = '5e1f0000-0000-4000-8000-000000000001'


def capacity(free_gb, **changes):
    """Return the free capacity of hosts; one value is that of all disks."""
    free_gb = np.array(free_gb, dtype=np.int32)
    fields = {
        'total_gb': 4000,
        'total_mbps': 150,
        'free_mbps': 150,
        'vdisks': 0,
        'medium': HDD,
        'load': 0.0,
        'reserved_gb': 0,
        'numa_node': 0,
        'can_stripe': True,
        **changes,
    }
    cache_mode = np.array(fields.pop('cache_mode', [''] * len(free_gb)))
    return plan.FreeCapacity(
        free_gb=free_gb,
        **{
            name: np.broadcast_to(np.array(values), free_gb.shape).copy()
            for name, values in fields.items()
        },
        disks=[
            tuple(f'disk {row} {at}' for at in range(free_gb.shape[1]))
            for row in range(len(free_gb))
        ],
        cache_mode=cache_mode,
    )


def bound(disk, size_gb=10, server=SERVER):
    """Return a vdisk of the server that is bound to a disk."""
    return plan.BoundVDisk(f'on {disk}', 'host', disk, server, size_gb, 'host')


class ReasonTest(unittest.TestCase):
    def assert_reasons(self, expected, free, beside_gb=(), own=(), **request):
        """Check the reasons for a request of two vdisks of 10 GiB."""
        wanted = {'vdisks': 2, 'vdisk_gb': 10, **request}
        planned = plan.DiskPlan(
            flavor.VDiskRequest(**wanted), own, beside_gb=beside_gb
        )
        self.assertEqual(
            [reason.name for reason in expected],
            [Reason(r).name for r in rejections.of_plan(planned, free)],
        )
        return planned

    def test_hosts_that_fit_have_none(self):
        self.assert_reasons([Reason.NONE] * 2, capacity([[10, 10], [90, 10]]))

    def test_no_hosts(self):
        free = capacity(np.zeros((0, 2)))
        planned = self.assert_reasons([], free)
        found = rejections.of_rejected(planned, free, free)
        self.assertEqual('', rejections.summary(found))
        self.assertEqual([], rejections.examples(found, 5))

    def test_cache_mode(self):
        free = capacity([[10, 10]] * 3, cache_mode=['none', 'writeback', ''])
        planned = self.assert_reasons(
            [Reason.NONE, Reason.CACHE_MODE, Reason.CACHE_MODE],
            free,
            cache_mode='none',
        )
        self.assertEqual(
            'another cache mode (writeback, not none)',
            rejections.describe(planned, free.of_host(1), Reason.CACHE_MODE),
        )
        self.assertIn(
            'unknown, not none',
            rejections.describe(planned, free.of_host(2), Reason.CACHE_MODE),
        )

    def test_disks(self):
        free = capacity([[10, 10]] * 3, medium=[[1, 1], [1, 2], [1, 0]])
        planned = self.assert_reasons(
            [Reason.NONE, Reason.DISKS, Reason.DISKS], free, media='hdd'
        )
        self.assertEqual(
            'too few disks with the medium (1 disks that may be used)',
            rejections.describe(planned, free.of_host(1), Reason.DISKS),
        )

    def test_disks_that_hold_vdisks_of_the_server(self):
        free = capacity([[10, 10]])
        self.assert_reasons(
            [Reason.DISKS], free, own=(bound('disk 0 0'),), vdisks=3
        )
        self.assert_reasons(
            [Reason.NONE], free, own=(bound('disk 0 0'),), vdisks=2
        )

    def test_disks_that_cannot_be_striped(self):
        free = capacity([[10, 10]] * 2, can_stripe=[[True] * 2, [True, False]])
        planned = self.assert_reasons(
            [Reason.NONE, Reason.DISKS],
            free,
            mapping='striped',
            stripe_disks=2,
            vdisks=1,
        )
        self.assertIn(
            '1 disks that may be used',
            rejections.describe(planned, free.of_host(1), Reason.DISKS),
        )

    def test_free_gib(self):
        free = capacity([[10, 9], [25, 0]], reserved_gb=0)
        planned = self.assert_reasons([Reason.GB] * 2, free)
        self.assertEqual(
            'not enough free GiB (25 GiB on 2 disks, at most 25 on one)',
            rejections.describe(planned, free.of_host(1), Reason.GB),
        )
        self.assert_reasons(
            [Reason.GB, Reason.NONE], free, mapping='consolidated'
        )

    def test_free_gib_of_bound_vdisks(self):
        """A disk that gets no new vdisk may lack room for the claim."""
        for size_gb, reason in ((5, Reason.NONE), (6, Reason.GB)):
            self.assert_reasons(
                [reason],
                capacity([[5, 10, 10]]),
                own=(bound('disk 0 0', size_gb),),
                vdisks=3,
            )

    def test_reserved(self):
        free = capacity([[10, 4], [10, 4]], reserved_gb=[[0, 6], [0, 5]])
        planned = self.assert_reasons([Reason.RESERVED, Reason.GB], free)
        self.assertEqual(
            'not enough free GiB beside what is reserved '
            '(14 GiB free on 2 disks, at most 10 on one; '
            '6 GiB reserved on 2 disks, at most 6 on one)',
            rejections.describe(planned, free.of_host(0), Reason.RESERVED),
        )

    def test_free_mbps(self):
        free = capacity([[10, 10]] * 2, free_mbps=[[50, 50], [50, 49]])
        planned = self.assert_reasons(
            [Reason.NONE, Reason.MBPS], free, vdisk_mbps=50
        )
        self.assertEqual(
            'not enough free MB/s (99 MB/s on 2 disks, at most 50 on one)',
            rejections.describe(planned, free.of_host(1), Reason.MBPS),
        )

    def test_volumes_beside_the_vdisks(self):
        free = capacity([[10, 10, 5], [10, 10, 4], [10, 9, 9]])
        planned = self.assert_reasons(
            [Reason.NONE, Reason.BESIDE, Reason.GB], free, beside_gb=(5,)
        )
        self.assertEqual(
            'no room for new volumes beside the vdisks (5 GiB)',
            rejections.describe(planned, free.of_host(1), Reason.BESIDE),
        )

    def test_numa(self):
        """The plan fits, and only the cells of the vCPUs can be why not."""
        free = capacity([[10, 10], [10, 0]])
        for numa, reason in (
            ('required', Reason.NUMA),
            ('none', Reason.CHANGED),
        ):
            planned = plan.DiskPlan(flavor.VDiskRequest(2, 10, numa=numa))
            self.assertEqual(
                [reason, Reason.GB],
                rejections.of_rejected(planned, free, free).tolist(),
            )

    def test_room_that_was_just_chosen(self):
        planned = plan.DiskPlan(flavor.VDiskRequest(2, 10, numa='required'))
        self.assertEqual(
            [Reason.PENDING, Reason.NUMA, Reason.GB],
            rejections.of_rejected(
                planned,
                capacity([[10, 0], [10, 10], [9, 0]]),
                capacity([[10, 10], [10, 10], [9, 9]]),
            ).tolist(),
        )

    def test_each_has_words(self):
        planned = plan.DiskPlan(flavor.VDiskRequest(2, 10))
        self.assertEqual(set(Reason) - {Reason.NONE}, set(rejections.WORDS))
        for reason, words in rejections.WORDS.items():
            self.assertIn(
                words,
                rejections.describe(planned, capacity([[1, 1]]), reason),
            )

    def test_summary_counts_hosts(self):
        reasons = np.array([Reason.GB, Reason.NO_REPORT, Reason.GB])
        self.assertEqual(
            'not enough free GiB: 2, no fresh report from diskplacer-agent: 1',
            rejections.summary(reasons),
        )

    def test_examples_show_each_reason_first(self):
        reasons = np.array(
            [Reason.GB] * 6 + [Reason.NO_REPORT, Reason.CACHE_MODE]
        )
        self.assertEqual([0, 1, 2, 6, 7], rejections.examples(reasons, 5))
        self.assertEqual([6, 7], rejections.examples(reasons, 2))
        self.assertEqual([0, 1], rejections.examples(reasons[:2], 5))


amounts = st.integers(0, 12)
figures = st.lists(amounts, min_size=3, max_size=3)
requests = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 3),
    vdisk_gb=st.integers(1, 6),
    vdisk_mbps=st.integers(0, 6),
    vdisks_per_disk=st.integers(1, 2),
    media=st.sampled_from(['hdd', 'any']),
    cache_mode=st.sampled_from([None, 'none']),
    mapping=st.sampled_from(['round_robin', 'consolidated']),
) | st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 2),
    vdisk_gb=st.integers(1, 6),
    mapping=st.just('striped'),
    stripe_disks=st.just(2),
)
bound_vdisks = st.lists(
    st.builds(
        bound,
        st.sampled_from(['disk 0 0', 'disk 0 1', 'disk 1 0']),
        st.integers(1, 6),
    ),
    max_size=2,
    unique_by=lambda vdisk: vdisk.volume_id,
).map(tuple)
hosts = st.lists(
    st.tuples(
        figures,
        figures,
        figures,
        st.lists(st.sampled_from([0, HDD, SSD]), min_size=3, max_size=3),
        st.lists(st.booleans(), min_size=3, max_size=3),
        st.sampled_from(['', 'none', 'writeback']),
    ),
    min_size=1,
    max_size=4,
)


def capacity_of(drawn):
    free_gb, free_mbps, reserved_gb, medium, can_stripe, modes = zip(
        *drawn, strict=True
    )
    return capacity(
        free_gb,
        free_mbps=free_mbps,
        reserved_gb=reserved_gb,
        medium=medium,
        can_stripe=can_stripe,
        cache_mode=modes,
    )


class AgreementTest(unittest.TestCase):
    @hypothesis.given(
        requests,
        hosts,
        bound_vdisks,
        bound_vdisks,
        st.lists(st.integers(1, 8), max_size=2).map(tuple),
    )
    def test_hosts_that_do_not_fit_have_a_reason(
        self, request, drawn, own, others, beside_gb
    ):
        free = capacity_of(drawn)
        before = dataclasses.replace(free, free_gb=free.free_gb.copy())
        planned = plan.DiskPlan(request, own, others, beside_gb=beside_gb)
        fits = planned.choose(free).fits
        reasons = rejections.of_plan(planned, free)
        np.testing.assert_array_equal(fits, reasons == Reason.NONE)
        np.testing.assert_array_equal(before.free_gb, free.free_gb)
        for row, reason in enumerate(reasons.tolist()):
            if reason != Reason.NONE:
                text = rejections.describe(
                    planned, free.of_host(row), Reason(reason)
                )
                self.assertIn(rejections.WORDS[Reason(reason)], text)
        rejected = np.flatnonzero(~fits)
        if not len(rejected):
            return
        alone = capacity_of([drawn[row] for row in rejected])
        alone.disks[:] = [free.disks[row] for row in rejected]
        np.testing.assert_array_equal(
            reasons[rejected], rejections.of_rejected(planned, alone, alone)
        )
