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

import testtools
from hypothesis import given
from hypothesis import strategies as st

from cinder_vdisk_mapper.attach import disk_choice
from tests.fakes import disks as fake_disks

UUIDS = 'abcdef'


class StripeTestCase(testtools.TestCase):
    @given(st.integers(1, 4), st.integers(2, 4), st.data())
    def test_all_vdisks_find_distinct_claimed_disks(
        self, vdisks, number, data
    ):
        """Whatever the scheduler has claimed: in any order of binding."""
        order = data.draw(st.permutations(UUIDS))
        pieces = vdisks * number
        most = data.draw(st.integers(-(-pieces // len(UUIDS)), 4))
        most = min(most, vdisks)
        if most * len(UUIDS) < pieces:
            return
        counts = dict.fromkeys(UUIDS, 0)
        for _ in range(pieces):
            choices = [uuid for uuid in order if counts[uuid] < most]
            counts[data.draw(st.sampled_from(choices))] += 1
        disks = {uuid: fake_disks.make_disk(uuid) for uuid in UUIDS}
        claims = {uuid: 10 * count for uuid, count in counts.items()}
        held = dict.fromkeys(UUIDS, 0)
        for volume in range(vdisks):
            chosen = disk_choice.claimed_stripe(
                list(disks.values()), 's', claims, held, 10, most, number
            )
            self.assertEqual(number, len(set(chosen)))
            for uuid in chosen:
                held[uuid] += 1
                disks[uuid] = fake_disks.make_disk(
                    uuid,
                    held=(
                        *disks[uuid].vdisks,
                        fake_disks.make_vdisk(f'{volume}', 's', 10),
                    ),
                )
        self.assertEqual(counts, held)

    def test_claimed(self):
        disks = [fake_disks.make_disk(uuid) for uuid in 'abc']
        claims = {'a': 10, 'b': 9, 'c': 20}
        for held, number, expected in (
            ({}, 2, ['c', 'a']),
            ({'c': 1}, 2, []),
            ({}, 3, []),
        ):
            self.assertEqual(
                expected,
                disk_choice.claimed_stripe(
                    disks, 's', claims, held, 10, 1, number
                ),
            )

    def test_free(self):
        disks = [fake_disks.make_disk(uuid) for uuid in 'abcd']
        room = {'a': 10, 'b': 50, 'c': 9, 'd': 50}
        for held, number, expected in (
            ({}, 2, ['b', 'd']),
            ({'b': 1}, 2, ['d', 'a']),
            ({}, 3, ['b', 'd', 'a']),
            ({}, 4, []),
        ):
            self.assertEqual(
                expected,
                disk_choice.free_stripe(disks, room, held, 10, 1, number),
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
                disk_choice.claimed_disk(
                    disks, 'one', claims, held, size, per_disk
                ),
                (claims, held, size, per_disk),
            )

    @given(
        st.lists(st.integers(0, 4), min_size=1, max_size=6),
        st.integers(1, 10),
    )
    def test_what_was_claimed_is_filled_exactly(self, counts, size):
        disks = {str(n): [] for n in range(len(counts))}
        claims = {str(n): count * size for n, count in enumerate(counts)}
        for number in range(sum(counts)):
            held = {uuid: len(found) for uuid, found in disks.items()}
            chosen = disk_choice.claimed_disk(
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


class FreeDiskTestCase(testtools.TestCase):
    def choose(self, room, held, size, policy, per_disk=1):
        return disk_choice.free_disk(
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

    @given(
        st.dictionaries(
            st.sampled_from('abcdef'),
            st.tuples(st.integers(-5, 100), st.integers(0, 3)),
        ),
        st.integers(1, 50),
        st.sampled_from(['round_robin', 'consolidated']),
        st.integers(1, 3),
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
