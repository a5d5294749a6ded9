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
        self.assertEqual({GB: 2, MBPS: 10}, self.part(claim, 4, {}, 2))

    def test_repeated(self):
        self.assertEqual(
            {}, self.part({GB: 4, MBPS: 20}, 4, {GB: 2, MBPS: 10}, 2)
        )

    def test_without_a_claim(self):
        self.assertEqual({}, self.part({}, 0, {}, 2))

    def test_claims_of_others_stay(self):
        # a claim that is yet to be filled stays where no vdisk needs it
        self.assertEqual({}, self.part({GB: 4}, 2, {GB: 2}, 2))

    def test_no_more_than_leaves(self):
        # the other vdisk on the target is reserved, and 2 GiB are to come
        claim = {GB: 4, MBPS: 20}
        self.assertEqual({GB: 2, MBPS: 10}, self.part(claim, 2, {}, 4, 2))

    @given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
    def test_never_more_than_is_there_or_needed(
        self, claimed, mbps, filled, target, needed, leaving
    ):
        source = {GB: claimed, MBPS: mbps}
        held = filled + leaving
        part = self.part(source, held, {GB: target}, needed, leaving)
        gb = part.get(GB, 0)
        self.assertLessEqual(part.get(MBPS, 0), mbps)
        self.assertLessEqual(gb, max(0, claimed - filled))
        self.assertLessEqual(gb, max(0, needed - target))
        if leaving:
            self.assertLessEqual(gb, leaving)
        self.assertNotIn(0, part.values())


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
