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


import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.placement import claim_moves
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Allocations

AMOUNTS = st.integers(0, 20)


class PartTestCase(unittest.TestCase):
    def part(self, *arguments):
        return claim_moves.part_to_move(*arguments)

    def test_a_vdisk_that_leaves(self):
        claim = {GB: 6, MBPS: 30}
        for unfilled in (0, None):
            self.assertEqual(
                {GB: 2, MBPS: 10}, self.part(claim, 6, {}, 2, 2, unfilled)
            )

    def test_repeated(self):
        left, moved = {GB: 4, MBPS: 20}, {GB: 2, MBPS: 10}
        for unfilled in (0, None):
            self.assertEqual({}, self.part(left, 6, moved, 2, 2, unfilled))

    def test_without_a_claim(self):
        self.assertEqual({}, self.part({}, 2, {}, 2, 2, -2))
        self.assertEqual({}, self.part({}, 2, {}, 2, 2))

    def test_no_more_than_leaves(self):
        # the other vdisk on the target is reserved, and 2 GiB are to come
        claim = {GB: 4, MBPS: 20}
        for unfilled in (2, None):
            part = self.part(claim, 2, {}, 4, 2, unfilled)
            self.assertEqual({GB: 2, MBPS: 10}, part)

    def test_what_is_to_come_stays_when_it_is_repeated(self):
        # as before, after the first time
        moved = {GB: 2, MBPS: 10}
        self.assertEqual({}, self.part({GB: 2}, 2, moved, 4, 2, 2))

    def test_one_is_to_come_to_the_target(self):
        claim = {GB: 2, MBPS: 10}
        self.assertEqual(claim, self.part(claim, 2, {GB: 2}, 2, 2, 0))

    def test_returned(self):
        claim = {GB: 2, MBPS: 10}
        for source, unfilled, part in (
            # a vdisk to come has a claim, too
            ({GB: 2}, 2, claim),
            ({}, 0, claim),
            ({}, None, claim),
            # it never had a claim: that on the target is to come
            ({}, -2, {}),
            # it is back, or was never moved
            ({GB: 4}, 2, {}),
            ({GB: 2}, 0, {}),
        ):
            found = claim_moves.part_to_return(
                claim, 0, source, 2, 2, unfilled
            )
            self.assertEqual(part, found)
        # its copy is still there
        self.assertEqual({}, claim_moves.part_to_return(claim, 2, {}, 2, 2, 0))

    @given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
    def test_each_vdisk_keeps_what_it_has(
        self, claimed, beside, size, target, others
    ):
        """Moves the claim any number of times, there and back."""
        filled, needed = beside + size, others + size
        unfilled = claimed - filled
        gb = claim_moves.claimed_gb(size, unfilled)
        source, coming = {GB: claimed}, {GB: target}
        for _ in range(2):
            part = self.part(source, filled, coming, needed, size, unfilled)
            cautious = self.part(source, filled, coming, needed, size)
            if source[GB] == claimed:
                self.assertEqual(gb, part.get(GB, 0))
                self.assertLessEqual(cautious.get(GB, 0), gb)
            else:
                self.assertEqual({}, part)
            self.move(part, source, coming)
        to_come = max(0, unfilled)
        self.assertEqual(to_come, max(0, source[GB] - beside))
        for _ in range(2):
            part = claim_moves.part_to_return(
                coming, others, source, filled, size, unfilled
            )
            self.move(part, coming, source)
            # another vdisk there that is reserved may fill it now
            returned = min(gb, max(0, gb + target - others))
            self.assertEqual(claimed - gb + returned, source[GB])

    def move(self, part, source, target):
        source[GB] -= part.get(GB, 0)
        target[GB] += part.get(GB, 0)


class FitsTestCase(unittest.TestCase):
    def test_what_fits(self):
        for reserved, claimed, mbps, fits in (
            (40, 60, 150, True),
            (41, 60, 150, False),
            (40, 61, 150, False),
            (40, 60, 151, False),
        ):
            figures = inventory.DiskFigures(100, reserved, claimed, 150, mbps)
            if fits:
                claim_moves._check_fits('disk', figures)
                continue
            with self.assertRaisesRegex(exception.DiskError, 'disk disk'):
                claim_moves._check_fits('disk', figures)


class MovedTestCase(unittest.TestCase):
    @given(
        st.dictionaries(st.sampled_from('ab'), st.integers(1, 9), min_size=1),
        st.integers(1, 9),
    )
    def test_nothing_is_lost(self, claims, node):
        before = Allocations(
            'project',
            {
                'node': {'VCPU': node},
                **{
                    disk: {GB: gb, MBPS: 2 * gb} for disk, gb in claims.items()
                },
            },
            'user',
            3,
        )
        source = min(claims)
        for gb in range(1, claims[source] + 1):
            after = claim_moves.moved(
                before, source, 'c', {GB: gb, MBPS: 2 * gb}
            )
            self.assertEqual(
                ('project', 'user', 3),
                (after.project_id, after.user_id, after.generation),
            )
            self.assertEqual({'VCPU': node}, after.resources['node'])
            self.assertEqual({GB: gb, MBPS: 2 * gb}, after.resources['c'])
            left = claims[source] - gb
            self.assertEqual(
                {GB: left, MBPS: 2 * left} if left else None,
                after.resources.get(source),
            )
