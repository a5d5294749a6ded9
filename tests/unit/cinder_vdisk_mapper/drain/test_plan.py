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


def to_move(name, size_gb=2, server='s', mapping=ROUND_ROBIN, **values):
    return plan.VDiskToMove(
        make_vdisk(name, server, size_gb), server, mapping, **values
    )


def room(gb=10, mbps=100):
    return {disk.uuid: plan.Room(gb, mbps) for disk in DISKS}


def planned(vdisks, room=None, server_vdisks=None):
    return plan.plan(
        vdisks, DISKS, room or globals()['room'](), server_vdisks or {}
    )


class PlanTestCase(unittest.TestCase):
    def test_no_vdisk(self):
        self.assertEqual(plan.Plan({}, {}), planned([]))

    def test_spread(self):
        found = planned([to_move(str(number)) for number in range(3)])
        self.assertEqual({}, found.refusals)
        self.assertEqual(['a', 'b', 'c'], sorted(found.targets.values()))

    def test_kept_together(self):
        found = planned(
            [
                to_move('1', mapping=CONSOLIDATED),
                to_move('2', mapping=CONSOLIDATED),
            ],
            server_vdisks={'s': {'b': {'volume-3'}}},
        )
        self.assertEqual(['b', 'b'], [*found.targets.values()])

    def test_round_robin_forbids(self):
        server_vdisks = {'s': {disk.uuid: {'volume-x'} for disk in DISKS}}
        found = planned([to_move('1')], server_vdisks=server_vdisks)
        self.assertEqual({}, found.targets)
        reason = found.refusals['volume-1']
        for part in ('disk a', 'server s', 'round_robin allows 1'):
            self.assertIn(part, reason)
        found = planned(
            [to_move('1', per_disk=2)], server_vdisks=server_vdisks
        )
        self.assertEqual({'volume-1'}, {*found.targets})

    def test_no_room(self):
        found = planned([to_move('1', 5)], room(3))
        self.assertIn('disk c lacks 2 GiB', found.refusals['volume-1'])

    def test_no_throughput(self):
        found = planned([to_move('1', mbps=30)], room(mbps=20))
        self.assertIn('disk b lacks 10 MB/s', found.refusals['volume-1'])

    def test_apart_from_other_parts(self):
        found = planned(
            [to_move('1', mapping=CONSOLIDATED, apart_from=frozenset('ab'))],
            server_vdisks={'s': {'b': {'volume-1'}}},
        )
        self.assertEqual({'volume-1': 'c'}, found.targets)
        found = planned([to_move('1', apart_from=frozenset('abc'))])
        self.assertIn(
            'disk c has another part of it', found.refusals['volume-1']
        )

    def test_not_where_its_server_awaits_vdisks(self):
        found = planned(
            [
                to_move(
                    '1', mapping=CONSOLIDATED, unfilled_claims=frozenset('ab')
                )
            ],
            server_vdisks={'s': {'b': {'volume-2'}}},
        )
        self.assertEqual({'volume-1': 'c'}, found.targets)
        found = planned([to_move('1', unfilled_claims=frozenset('abc'))])
        self.assertIn(
            'disk c has space that server s claims for vdisks to come',
            found.refusals['volume-1'],
        )
        # it has taken the space
        found = planned(
            [to_move('1', unfilled_claims=frozenset('b'), begun_target='b')]
        )
        self.assertEqual({'volume-1': 'b'}, found.targets)

    def test_no_other_disk(self):
        found = plan.plan([to_move('1')], (), {}, {})
        self.assertIn('no other disk', found.refusals['volume-1'])

    def test_what_cannot_move(self):
        found = planned([to_move('1', refusal='it is a snapshot')])
        self.assertEqual({'volume-1': 'it is a snapshot'}, found.refusals)

    def test_what_was_begun_goes_on(self):
        # its copy has taken the room, and is counted
        found = planned(
            [to_move('1', begun_target='b')],
            room(0),
            {'s': {'b': {'volume-1'}}},
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
        vdisks = {
            f'volume-{number}': to_move(
                str(number), size, server, mapping, per_disk=limit, mbps=mbps
            )
            for number, (size, server, mapping, limit, mbps) in enumerate(rows)
        }
        left = {
            disk.uuid: plan.Room(*one)
            for disk, one in zip(DISKS, rooms, strict=True)
        }
        found = planned(vdisks.values(), left)
        self.assertEqual({*vdisks}, {*found.targets} | {*found.refusals})
        self.assertFalse({*found.targets} & {*found.refusals})
        self.assertTrue(all(found.refusals.values()))
        for disk in 'abc':
            here = [
                vdisks[name]
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
                if one.mapping == ROUND_ROBIN and one.server:
                    alike = [
                        other
                        for other in here
                        if other.server == one.server
                        and other.mapping == ROUND_ROBIN
                    ]
                    self.assertLessEqual(
                        len(alike), max(other.per_disk for other in alike)
                    )
