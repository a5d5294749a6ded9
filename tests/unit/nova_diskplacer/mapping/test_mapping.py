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

"""Property-based and table tests of the mapping policies."""

import itertools
import operator
import unittest

import hypothesis
import numpy as np
from hypothesis import strategies as st

from nova_diskplacer import mapping
from nova_diskplacer.mapping import plugins


@st.composite
def hosts(draw, max_disks=6, max_slots=5):
    height = draw(st.integers(1, 4))
    width = draw(st.integers(1, max_disks))
    slots = draw(
        st.lists(
            st.lists(
                st.integers(0, max_slots), min_size=width, max_size=width
            ),
            min_size=height,
            max_size=height,
        )
    )
    load = draw(
        st.lists(
            st.lists(
                st.sampled_from((0.0, 0.25, 0.5, 1.0)),
                min_size=width,
                max_size=width,
            ),
            min_size=height,
            max_size=height,
        )
    )
    return np.array(slots), np.array(load)


def fewest_disks(slots, vdisks):
    """By brute force: the least number of disks that hold the vdisks."""
    for number in range(len(slots) + 1):
        for disks in itertools.combinations(slots, number):
            if sum(disks) >= vdisks:
                return number
    return None


class RoundRobinTest(unittest.TestCase):
    def setUp(self):
        self.policy = plugins.load('round_robin')

    @hypothesis.given(hosts(), st.integers(1, 8), st.integers(1, 3))
    def test_places_exactly_and_evenly(self, host, vdisks, per_disk):
        slots, load = host
        counts = self.policy.place(slots, load, vdisks, per_disk)
        for row in range(len(slots)):
            room = np.minimum(slots[row], per_disk)
            if room.sum() < vdisks:
                self.assertFalse(counts[row].any())
                continue
            self.assertEqual(vdisks, counts[row].sum())
            self.assertTrue((counts[row] <= room).all())
            # even: a disk that could take one more is at most one behind
            could = counts[row] < room
            if could.any():
                self.assertLessEqual(
                    counts[row].max() - counts[row][could].min(), 1
                )

    def test_least_committed_disks_first(self):
        counts = self.policy.place(
            np.array([[3, 3, 3, 3]]), np.array([[0.5, 0.0, 0.9, 0.1]]), 2, 1
        )
        self.assertEqual([[0, 1, 0, 1]], counts.tolist())

    def test_score_prefers_least_committed(self):
        load = np.array([[0.5, 0.5], [0.1, 0.1], [0.0, 1.0]])
        counts = np.array([[1, 1], [1, 1], [1, 0]])
        self.assertEqual(
            [0.5, 0.9, 1.0], self.policy.score(counts, load).tolist()
        )


class StripedTest(unittest.TestCase):
    @hypothesis.given(
        hosts(), st.integers(1, 4), st.integers(2, 4), st.integers(1, 4)
    )
    def test_distinct_disks_for_each_vdisk(
        self, host, vdisks, number, per_disk
    ):
        slots, load = host
        per_disk = min(per_disk, vdisks)
        counts = plugins.load('striped').place(
            slots, load, vdisks * number, per_disk
        )
        for row, room in zip(counts.tolist(), slots.tolist(), strict=True):
            room = [min(one, per_disk) for one in room]
            self.assertTrue(all(map(operator.le, row, room)))
            if sum(room) < vdisks * number:
                self.assertFalse(any(row))
                continue
            # dealt out disk by disk, no vdisk has two pieces on one disk
            pieces = [disk for disk, one in enumerate(row) for _ in range(one)]
            for first in range(vdisks):
                stripe = pieces[first::vdisks]
                self.assertEqual(number, len(stripe))
                self.assertEqual(number, len(set(stripe)))

    def test_least_committed_first_and_ties_by_column(self):
        for load, expected in (
            ([0.5, 0.0, 0.9, 0.1], [0, 1, 0, 1]),
            ([0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0]),
        ):
            counts = plugins.load('striped').place(
                np.array([[3, 3, 3, 3]]), np.array([load]), 2, 1
            )
            self.assertEqual([expected], counts.tolist())


class ConsolidatedTest(unittest.TestCase):
    def setUp(self):
        self.policy = plugins.load('consolidated')

    @hypothesis.given(hosts(), st.integers(1, 12))
    def test_fewest_disks(self, host, vdisks):
        slots, load = host
        counts = self.policy.place(slots, load, vdisks, 1)
        for row in range(len(slots)):
            fewest = fewest_disks(slots[row].tolist(), vdisks)
            if fewest is None:
                self.assertFalse(counts[row].any())
                continue
            self.assertEqual(vdisks, counts[row].sum())
            self.assertTrue((counts[row] <= slots[row]).all())
            self.assertEqual(fewest, np.count_nonzero(counts[row]))

    def test_prefers_a_disk_in_use_then_the_fullest(self):
        for slots, load, expected in (
            ([4, 4, 4], [0.0, 0.3, 0.0], [0, 4, 0]),
            ([9, 6, 4], [0.1, 0.2, 0.3], [0, 0, 4]),
            ([4, 9, 3], [0.0, 0.1, 0.9], [0, 4, 0]),
        ):
            counts = self.policy.place(
                np.array([slots]), np.array([load]), 4, 1
            )
            self.assertEqual([expected], counts.tolist())

    def test_score_prefers_disks_in_use(self):
        load = np.array([[0.5, 0.0], [0.5, 0.0], [0.5, 0.2]])
        counts = np.array([[0, 4], [2, 2], [2, 2]])
        self.assertEqual(
            [0.0, 0.5, 1.0], self.policy.score(counts, load).tolist()
        )


class LoadTest(unittest.TestCase):
    def test_unknown_names_the_installed(self):
        with self.assertRaisesRegex(ValueError, ', '.join(mapping.names())):
            plugins.load('scattered')
