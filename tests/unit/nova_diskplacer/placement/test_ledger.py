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

"""Claims and vdisks."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_diskplacer.placement import ledger
from tests.fakes import disks as fake_disks

SERVERS = ('one', 'other', None)

VDISKS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(SERVERS), strategies.integers(1, 20)
    ),
    max_size=8,
).map(
    lambda found: [
        fake_disks.make_vdisk(f'v{number}', server, size)
        for number, (server, size) in enumerate(found)
    ]
)
CLAIMS = strategies.dictionaries(
    strategies.sampled_from(SERVERS[:2]), strategies.integers(1, 60)
)

GB = strategies.integers(0, 20)


class ReservedTestCase(testtools.TestCase):
    def test_cases(self):
        held = [
            fake_disks.make_vdisk('a', 'one', 10),
            fake_disks.make_vdisk('b', 'one', 10),
            fake_disks.make_vdisk('c', 'other', 5),
            fake_disks.make_vdisk('d', None, 3),
        ]
        for claims, reserved in (
            ({}, 28),
            ({'one': 20}, 8),
            ({'one': 10}, 18),
            ({'one': 50, 'other': 5}, 3),
            ({'stranger': 50}, 28),
        ):
            self.assertEqual(reserved, ledger.reserved_gb(held, claims))

    def test_a_part_of_a_gib_counts_as_one(self):
        held = fake_disks.make_vdisk('a', None, 1)
        held = type(held)('n', 'a', None, fake_disks.GIB + 1)
        self.assertEqual(2, ledger.reserved_gb([held], {}))

    @hypothesis.given(VDISKS, CLAIMS)
    def test_ledger_covers_what_is_there_and_what_is_claimed(
        self, held, claims
    ):
        reserved = ledger.reserved_gb(held, claims)
        taken = sum(vdisk.size_gb for vdisk in held)
        claimed = sum(claims.values())
        # never less than either, never more than both
        self.assertGreaterEqual(reserved + claimed, max(taken, claimed))
        self.assertLessEqual(reserved, taken)
        # binding what is claimed, and only that, changes nothing
        for server, claim in claims.items():
            room = ledger.unfilled_gb(held, server, claim)
            if room > 0:
                filled = [*held, fake_disks.make_vdisk('new', server, room)]
                self.assertEqual(reserved, ledger.reserved_gb(filled, claims))
                over = [*held, fake_disks.make_vdisk('new', server, room + 1)]
                self.assertEqual(
                    reserved + 1, ledger.reserved_gb(over, claims)
                )


class ClaimTestCase(testtools.TestCase):
    @hypothesis.given(GB, GB, GB, GB, GB, strategies.data())
    def test_the_ledger_holds_what_exists_and_what_is_to_come(
        self, bound, new, others_vdisks, others_claim, spare, data
    ):
        held = data.draw(strategies.integers(0, bound))
        others = {'other': others_vdisks}
        claims = {'other': others_claim}
        reserved = ledger.reserved_of(others, claims) + held
        free = spare + (bound + new if new else bound - held)
        total = reserved + others_claim + free
        claim = ledger.claim_gb(bound, new, held, free)
        # Placement accepts it beside what was reserved before
        self.assertLessEqual(claim, free)
        claims['one'] = claim
        taken = {**others, 'one': bound}
        after = ledger.reserved_of(taken, claims) + sum(claims.values())
        self.assertEqual(bound + new + max(others_vdisks, others_claim), after)
        self.assertLessEqual(after, total)
