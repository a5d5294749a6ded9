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


class ChoiceTestCase(testtools.TestCase):
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
            chosen = disk_choice.claimed_disks(
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

    def test_claimed_disks(self):
        disks = [fake_disks.make_disk(uuid) for uuid in 'abc']
        claims = {'a': 10, 'b': 9, 'c': 20}
        for held, number, expected in (
            ({}, 2, ['c', 'a']),
            ({'c': 1}, 2, []),
            ({}, 3, []),
        ):
            self.assertEqual(
                expected,
                disk_choice.claimed_disks(
                    disks, 's', claims, held, 10, 1, number
                ),
            )

    def test_free_disks(self):
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
                disk_choice.free_disks(disks, room, held, 10, 1, number),
            )
