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

from nova_diskplacer.placement import claim_moves
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from nova_diskplacer.placement.client import Allocations

AMOUNTS = st.integers(0, 20)


def held(gb, filled_gb, mbps=0):
    return claim_moves.Held({GB: gb, MBPS: mbps}, gb - filled_gb)


class PartTestCase(unittest.TestCase):
    def assertMoved(self, part, *arguments):
        self.assertEqual(part, claim_moves.part_to_move(*arguments))

    def test_a_vdisk_that_leaves(self):
        for unfilled in (0, None):
            self.assertMoved(
                {GB: 2, MBPS: 10}, held(6, 6, 30), held(0, 2), 2, unfilled
            )

    def test_repeated(self):
        for unfilled in (0, None):
            self.assertMoved({}, held(4, 6), held(2, 2), 2, unfilled)

    def test_without_a_claim(self):
        for unfilled in (-2, None):
            self.assertMoved({}, held(0, 2), held(0, 2), 2, unfilled)

    def test_no_more_than_leaves(self):
        # the other vdisk on the target is reserved, and 2 GiB are to come
        for unfilled in (2, None):
            self.assertMoved(
                {GB: 2, MBPS: 10}, held(4, 2, 20), held(0, 4), 2, unfilled
            )

    def test_what_is_to_come_stays_when_it_is_repeated(self):
        # as before, after the first time
        self.assertMoved({}, held(2, 2), held(2, 4), 2, 2)

    def test_one_is_to_come_to_the_target(self):
        self.assertMoved({GB: 2}, held(2, 2), held(2, 2), 2, 0)

    def test_returned(self):
        claim = {GB: 2, MBPS: 10}
        for source, unfilled, part in (
            # a vdisk to come has a claim, too
            (held(2, 2), 2, claim),
            (held(0, 2), 0, claim),
            (held(0, 2), None, claim),
            # it never had a claim: that on the target is to come
            (held(0, 2), -2, {}),
            # it is back, or was never moved
            (held(4, 2), 2, {}),
            (held(2, 2), 0, {}),
        ):
            for coming in (0, 2):
                found = claim_moves.part_to_return(
                    source, held(2, coming, 10), 2, unfilled, coming
                )
                self.assertEqual(part, found)
        # another vdisk there is reserved
        for unfilled, part in ((0, {GB: 2}), (None, {})):
            found = claim_moves.part_to_return(
                held(0, 2), held(2, 2), 2, unfilled
            )
            self.assertEqual(part, found)

    @given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
    def test_each_vdisk_keeps_what_it_has(
        self, claimed, beside, size, target, others
    ):
        """Moves the claim any number of times, there and back."""
        unfilled = claimed - beside - size
        gb = claim_moves.claimed_gb(size, unfilled)
        claims = [claimed, target]

        def disks():
            return held(claims[0], beside + size), held(claims[1], others)

        for is_repeated in (False, True):
            source, beside_it = disks()
            coming = held(claims[1], others + size)
            cautious = claim_moves.part_to_move(source, coming, size)
            part = claim_moves.part_to_move(source, coming, size, unfilled)
            moved = part.get(GB, 0)
            self.assertEqual(0 if is_repeated else gb, moved)
            if not is_repeated:
                self.assertLessEqual(cautious.get(GB, 0), gb)
            claims = [claims[0] - moved, claims[1] + moved]
        # what is to come stays, and the rest covers the other vdisks
        self.assertEqual(max(0, unfilled), max(0, claims[0] - beside))
        for _ in range(2):
            part = claim_moves.part_to_return(*disks(), size, unfilled)
            back = part.get(GB, 0)
            claims = [claims[0] + back, claims[1] - back]
            self.assertEqual([claimed, target], claims)


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
