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
            room = ledger.unfilled_gb(
                fake_disks.make_disk('d', held=held), server, claim
            )
            if room > 0:
                filled = [*held, fake_disks.make_vdisk('new', server, room)]
                self.assertEqual(reserved, ledger.reserved_gb(filled, claims))
                over = [*held, fake_disks.make_vdisk('new', server, room + 1)]
                self.assertEqual(
                    reserved + 1, ledger.reserved_gb(over, claims)
                )


class ClaimedDiskTestCase(testtools.TestCase):
    def test_cases(self):
        disks = [
            fake_disks.make_disk(
                'a', held=[fake_disks.make_vdisk('1', 'one', 10)]
            ),
            fake_disks.make_disk(
                'b', held=[fake_disks.make_vdisk('2', 'other', 10)]
            ),
            fake_disks.make_disk('c'),
        ]
        for claims, held, size, per_disk, chosen in (
            ({}, {}, 1, 9, None),
            ({'a': 10}, {'a': 1}, 1, 9, None),
            ({'a': 10, 'b': 10}, {'a': 1}, 10, 1, 'b'),
            ({'a': 20}, {'a': 1}, 10, 1, None),
            ({'a': 20}, {'a': 1}, 10, 2, 'a'),
            ({'a': 20, 'c': 10}, {'a': 1}, 10, 2, 'c'),
            ({'c': 9}, {}, 10, 1, None),
            ({'elsewhere': 99}, {}, 10, 1, None),
        ):
            self.assertEqual(
                chosen,
                ledger.claimed_disk(
                    disks, 'one', claims, held, size, per_disk
                ),
                (claims, held, size, per_disk),
            )

    @hypothesis.given(
        strategies.lists(strategies.integers(0, 4), min_size=1, max_size=6),
        strategies.integers(1, 10),
    )
    def test_what_was_claimed_is_filled_exactly(self, counts, size):
        disks = {str(n): [] for n in range(len(counts))}
        claims = {str(n): count * size for n, count in enumerate(counts)}
        for number in range(sum(counts)):
            held = {uuid: len(found) for uuid, found in disks.items()}
            chosen = ledger.claimed_disk(
                [
                    fake_disks.make_disk(uuid, held=on)
                    for uuid, on in disks.items()
                ],
                'one',
                claims,
                held,
                size,
                max(counts),
            )
            disks[chosen].append(
                fake_disks.make_vdisk(str(number), 'one', size)
            )
        self.assertEqual(counts, [len(found) for found in disks.values()])


class PolicyDiskTestCase(testtools.TestCase):
    def choose(self, room, held, size, policy, per_disk=1):
        return ledger.policy_disk(
            [fake_disks.make_disk(uuid) for uuid in sorted(room)],
            room,
            held,
            size,
            policy,
            per_disk,
        )

    def test_round_robin(self):
        for room, held, size, per_disk, chosen in (
            ({'a': 50, 'b': 60, 'c': 60}, {}, 10, 1, 'b'),
            ({'a': 50, 'b': 60}, {'b': 1}, 10, 1, 'a'),
            ({'a': 5, 'b': 60}, {'b': 1}, 10, 1, None),
            ({'a': 5, 'b': 60}, {'b': 1}, 10, 2, 'b'),
            ({'a': 50, 'b': 60}, {'a': 1, 'b': 2}, 10, 3, 'a'),
            ({}, {}, 10, 1, None),
        ):
            self.assertEqual(
                chosen, self.choose(room, held, size, 'round_robin', per_disk)
            )

    def test_consolidated(self):
        for room, held, size, chosen in (
            # a disk in use, and of those the fullest that holds it
            ({'a': 100, 'b': 60, 'c': 50, 'd': 5}, {}, 10, 'c'),
            # with the server's other vdisks before anything else
            ({'a': 100, 'b': 60, 'c': 50}, {'b': 1}, 10, 'b'),
            ({'a': 100, 'b': 5, 'c': 50}, {'b': 1}, 10, 'c'),
            ({'a': 100, 'b': 100}, {}, 10, 'a'),
            ({'a': 9}, {}, 10, None),
        ):
            self.assertEqual(
                chosen, self.choose(room, held, size, 'consolidated')
            )

    @hypothesis.given(
        strategies.dictionaries(
            strategies.sampled_from('abcdef'),
            strategies.tuples(
                strategies.integers(-5, 100), strategies.integers(0, 3)
            ),
        ),
        strategies.integers(1, 50),
        strategies.sampled_from(['round_robin', 'consolidated']),
        strategies.integers(1, 3),
    )
    def test_rules_hold(self, disks, size, policy, per_disk):
        room = {uuid: gb for uuid, (gb, _) in disks.items()}
        held = {uuid: count for uuid, (_, count) in disks.items()}
        allowed = {
            uuid
            for uuid in disks
            if room[uuid] >= size
            and (policy == 'consolidated' or held[uuid] < per_disk)
        }
        chosen = self.choose(room, held, size, policy, per_disk)
        if not allowed:
            self.assertIsNone(chosen)
            return
        self.assertIn(chosen, allowed)
        counts = [held[uuid] for uuid in allowed]
        if policy == 'round_robin':
            self.assertEqual(min(counts), held[chosen])
        else:
            self.assertEqual(max(counts) > 0, held[chosen] > 0)
