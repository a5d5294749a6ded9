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

from cinder_vdisk_mapper.drain import plan
from tests.fakes.disks import make_disk
from tests.fakes.disks import make_vdisk

DISKS = tuple(make_disk(name, 10) for name in 'abc')
ROUND_ROBIN, CONSOLIDATED = 'round_robin', 'consolidated'


def item(name, size_gb=2, server='s', policy=ROUND_ROBIN, **values):
    return plan.Item(
        make_vdisk(name, server, size_gb), server, policy, **values
    )


def room(gb=10, mbps=100):
    return {disk.uuid: plan.Room(gb, mbps) for disk in DISKS}


def planned(items, room=None, held=None):
    return plan.plan(items, DISKS, room or globals()['room'](), held or {})


class PlanTestCase(unittest.TestCase):
    def test_no_vdisk(self):
        self.assertEqual(plan.Plan({}, {}), planned([]))

    def test_spread(self):
        found = planned([item(str(number)) for number in range(3)])
        self.assertEqual({}, found.refusals)
        self.assertEqual(['a', 'b', 'c'], sorted(found.targets.values()))

    def test_kept_together(self):
        found = planned(
            [item('1', policy=CONSOLIDATED), item('2', policy=CONSOLIDATED)],
            held={'s': {'b': {'volume-3'}}},
        )
        self.assertEqual(['b', 'b'], [*found.targets.values()])

    def test_round_robin_forbids(self):
        held = {'s': {disk.uuid: {'volume-x'} for disk in DISKS}}
        found = planned([item('1')], held=held)
        self.assertEqual({}, found.targets)
        reason = found.refusals['volume-1']
        for part in ('disk a', 'server s', 'round_robin allows 1'):
            self.assertIn(part, reason)
        found = planned([item('1', per_disk=2)], held=held)
        self.assertEqual({'volume-1'}, {*found.targets})

    def test_no_room(self):
        found = planned([item('1', 5)], room(3))
        self.assertIn('disk c lacks 2 GiB', found.refusals['volume-1'])

    def test_no_throughput(self):
        found = planned([item('1', mbps=30)], room(mbps=20))
        self.assertIn('disk b lacks 10 MB/s', found.refusals['volume-1'])

    def test_apart_from_other_parts(self):
        found = planned(
            [item('1', policy=CONSOLIDATED, apart_from=frozenset('ab'))],
            held={'s': {'b': {'volume-1'}}},
        )
        self.assertEqual({'volume-1': 'c'}, found.targets)
        found = planned([item('1', apart_from=frozenset('abc'))])
        self.assertIn(
            'disk c has another part of it', found.refusals['volume-1']
        )

    def test_not_where_its_server_awaits_vdisks(self):
        found = planned(
            [item('1', policy=CONSOLIDATED, awaited=frozenset('ab'))],
            held={'s': {'b': {'volume-2'}}},
        )
        self.assertEqual({'volume-1': 'c'}, found.targets)
        found = planned([item('1', awaited=frozenset('abc'))])
        self.assertIn(
            'disk c has space that server s claims for vdisks to come',
            found.refusals['volume-1'],
        )
        # it has taken the space
        found = planned([item('1', awaited=frozenset('b'), begun='b')])
        self.assertEqual({'volume-1': 'b'}, found.targets)

    def test_no_other_disk(self):
        found = plan.plan([item('1')], (), {}, {})
        self.assertIn('no other disk', found.refusals['volume-1'])

    def test_what_cannot_move(self):
        found = planned([item('1', refusal='it is a snapshot')])
        self.assertEqual({'volume-1': 'it is a snapshot'}, found.refusals)

    def test_what_was_begun_goes_on(self):
        # its copy has taken the room, and is counted
        found = planned(
            [item('1', begun='b')], room(0), {'s': {'b': {'volume-1'}}}
        )
        self.assertEqual({'volume-1': 'b'}, found.targets)

    @given(
        st.lists(
            st.tuples(
                st.integers(1, 6),
                st.sampled_from(('s', 't', None)),
                st.sampled_from((ROUND_ROBIN, CONSOLIDATED)),
                st.integers(1, 2),
                st.integers(0, 60),
            ),
            max_size=12,
        ),
        st.lists(
            st.tuples(st.integers(-2, 12), st.integers(-10, 120)),
            min_size=3,
            max_size=3,
        ),
    )
    def test_rules_hold(self, rows, rooms):
        items = {
            f'volume-{number}': item(
                str(number), size, server, policy, per_disk=limit, mbps=mbps
            )
            for number, (size, server, policy, limit, mbps) in enumerate(rows)
        }
        left = {
            disk.uuid: plan.Room(*one)
            for disk, one in zip(DISKS, rooms, strict=True)
        }
        found = planned(items.values(), left)
        self.assertEqual({*items}, {*found.targets} | {*found.refusals})
        self.assertFalse({*found.targets} & {*found.refusals})
        self.assertTrue(all(found.refusals.values()))
        for disk in 'abc':
            here = [
                items[name]
                for name, target in found.targets.items()
                if target == disk
            ]
            taken = sum(one.vdisk.size_gb for one in here)
            self.assertLessEqual(taken, max(0, left[disk].gb))
            if here:
                self.assertLessEqual(
                    sum(one.mbps for one in here), max(0, left[disk].mbps)
                )
            for one in here:
                if one.policy == ROUND_ROBIN and one.server:
                    alike = [
                        other
                        for other in here
                        if other.server == one.server
                        and other.policy == ROUND_ROBIN
                    ]
                    self.assertLessEqual(
                        len(alike), max(other.per_disk for other in alike)
                    )
