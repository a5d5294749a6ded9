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

"""Room for the new volumes that come along with vdisks."""

import itertools
import unittest

import hypothesis
import numpy as np
from hypothesis import strategies as st

from nova_diskplacer import flavor
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler.server_volumes import BootVolume

SSD = 2


def capacity(hosts, medium=1):
    """Return the free capacity of hosts, by the GiB of their disks.

    The integers are as wide as those of the cache.
    """
    free_gb = np.array(hosts, dtype=np.int32)
    return plan.FreeCapacity(
        total_gb=free_gb,
        free_gb=free_gb,
        total_mbps=np.zeros_like(free_gb),
        free_mbps=np.zeros_like(free_gb),
        vdisks=np.zeros_like(free_gb),
        medium=np.full_like(free_gb, medium),
        load=np.zeros(free_gb.shape),
        reserved_gb=np.zeros_like(free_gb),
        numa_node=np.zeros_like(free_gb),
        can_stripe=np.ones(free_gb.shape, dtype=bool),
        disks=[
            tuple(f'{row} {at}' for at in range(free_gb.shape[1]))
            for row in range(len(free_gb))
        ],
        cache_mode=np.full(len(free_gb), ''),
    )


def hold(left_gb, volumes):
    """Return whether disks hold volumes, by trying all ways."""
    for way in itertools.product(range(len(left_gb)), repeat=len(volumes)):
        left = list(left_gb)
        for at, size_gb in zip(way, volumes, strict=True):
            left[at] -= size_gb
        if min(left) >= 0:
            return True
    return False


gib = st.integers(0, 12)
requests = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 3),
    vdisk_gb=st.integers(1, 6),
    vdisks_per_disk=st.integers(1, 2),
    mapping=st.sampled_from(['round_robin', 'consolidated']),
)


class BesideTest(unittest.TestCase):
    def fits(self, hosts, beside, allowed=None, medium=1, **request):
        """Return which hosts fit; both vdisks are of 10 GiB."""
        chosen = plan.DiskPlan(
            flavor.VDiskRequest(2, 10, **request), beside_gb=beside
        ).choose(capacity(hosts, medium), allowed)
        return chosen.fits.tolist()

    def test_a_host_without_room_for_the_root(self):
        hosts = [[10, 10, 0], [10, 10, 5], [15, 10, 0], [10, 10, 4]]
        self.assertEqual([True] * 4, self.fits(hosts, ()))
        self.assertEqual([False, True, True, False], self.fits(hosts, (5,)))
        self.assertEqual([False] * 4, self.fits(hosts, (5, 1)))
        self.assertEqual([True], self.fits([[16, 14, 0]], (4, 6)))

    def test_other_disks_for_the_vdisks(self):
        """The mapping's own choice would leave the root no room."""
        free = capacity([[30, 20, 10]])
        free.load[:] = [[0.0, 0.1, 0.9]]
        request = flavor.VDiskRequest(2, 10)
        alone = plan.DiskPlan(request).choose(free)
        self.assertEqual([[1, 1, 0]], alone.counts.tolist())
        chosen = plan.DiskPlan(request, beside_gb=(30,)).choose(free)
        self.assertEqual([True], chosen.fits.tolist())
        self.assertEqual([[0, 1, 1]], chosen.counts.tolist())
        self.assertEqual([False], self.fits([[30, 10, 9]], (30,)))

    def test_disks_of_another_medium(self):
        for media, fits in (('ssd', True), ('hdd', False), ('any', True)):
            found = self.fits([[10, 10, 5]], (5,), medium=SSD, media=media)
            self.assertEqual([fits], found)

    def test_it_may_be_on_disks_that_vdisks_may_not(self):
        allowed = np.array([[True, True, False]])
        self.assertEqual([True], self.fits([[10, 10, 5]], (5,), allowed))

    def test_no_hosts_and_no_disks(self):
        self.assertEqual([], self.fits(np.zeros((0, 3), dtype=int), (5,)))
        self.assertEqual([False], self.fits(np.zeros((1, 0), dtype=int), (5,)))

    @hypothesis.given(
        requests,
        st.lists(st.lists(gib, min_size=3, max_size=3), min_size=1),
        st.lists(st.integers(1, 8), max_size=3).map(tuple),
    )
    def test_what_fits_has_room(self, request, hosts, beside):
        free = capacity(hosts)
        before = free.free_gb.copy()
        alone = plan.DiskPlan(request).choose(free)
        found = plan.DiskPlan(request, beside_gb=beside).choose(free)
        np.testing.assert_array_equal(before, free.free_gb)
        for row in range(len(hosts)):
            left = free.free_gb[row] - found.counts[row] * request.vdisk_gb
            if found.fits[row]:
                self.assertTrue(alone.fits[row])
                self.assertEqual(request.vdisks, found.counts[row].sum())
                self.assertTrue(hold(left, beside))
            left = free.free_gb[row] - alone.counts[row] * request.vdisk_gb
            if len(beside) < 2 and alone.fits[row] and hold(left, beside):
                self.assertTrue(found.fits[row])
                np.testing.assert_array_equal(
                    alone.counts[row], found.counts[row]
                )


class NewVolumesTest(unittest.TestCase):
    """Which volumes of a boot are on the disks beside the vdisks."""

    def beside(self, volume_type, *volumes):
        return disk_request._beside(
            flavor.VDiskRequest(2, 10, volume_type=volume_type), volumes
        )

    def test_which_count(self):
        root = BootVolume(20, 'vdisk', True, True)
        extra = BootVolume(5, 'vdisk', False, True)
        same = BootVolume(10, 'vdisk', True, True)
        self.assertEqual((20, 5, 10), self.beside('vdisk', root, extra, same))
        for changes in (
            # a vdisk, one that exists, another backend or an unknown one
            {'size_gb': 10, 'bootable': False},
            {'is_new': False},
            {'volume_type': 'ceph'},
            {'volume_type': None},
            {'size_gb': None},
        ):
            other = root._replace(**changes)
            self.assertEqual((), self.beside('vdisk', other), changes)
        # both get the project's default type
        untyped = root._replace(volume_type=None)
        self.assertEqual((20,), self.beside(None, untyped, root))
