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

"""Claims, vdisks, and the choice of a disk."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_diskplacer.placement import claimed_space

GB = strategies.integers(0, 20)


class ClaimTestCase(testtools.TestCase):
    @hypothesis.given(GB, GB, GB, GB, GB, strategies.data())
    def test_the_ledger_holds_what_exists_and_what_is_to_come(
        self, bound, new, others_vdisks, others_claim, spare, data
    ):
        held = data.draw(strategies.integers(0, bound))
        others = {'other': others_vdisks}
        claims = {'other': others_claim}
        reserved = claimed_space.reserved_of(others, claims) + held
        free = spare + (bound + new if new else bound - held)
        total = reserved + others_claim + free
        claim = claimed_space.claim_gb(bound, new, held, free)
        # Placement accepts it beside what was reserved before
        self.assertLessEqual(claim, free)
        claims['one'] = claim
        taken = {**others, 'one': bound}
        after = claimed_space.reserved_of(taken, claims) + sum(claims.values())
        self.assertEqual(bound + new + max(others_vdisks, others_claim), after)
        self.assertLessEqual(after, total)
