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

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer.client import capacity
from nova_diskplacer.client import fleet
from tests.unit.nova_diskplacer.client import test_capacity

disk = test_capacity.disk


class FleetTest(base.BaseTestCase):
    def test_space(self):
        space = fleet.space(
            [
                disk('a', total_gb=100, reserved_gb=20, claimed_gb=40),
                disk('b', 'other', total_gb=80, claimed_gb=8),
            ]
        )
        self.assertEqual(fleet.Space(2, 2, 160, 112, 0.3, 72), space)

    def test_space_of_a_disk_that_is_not_offered(self):
        """Its claims are none of the space that is left."""
        away = disk('a', total_gb=100, reserved_gb=100, claimed_gb=100)
        space = fleet.space([away, disk('b', total_gb=100, claimed_gb=50)])
        self.assertEqual((100, 0.5), (space.total_gb, space.committed))
        space = fleet.space([away])
        self.assertEqual((0, 0.0), (space.total_gb, space.committed))

    def test_cache_mode_of_the_host(self):
        disks = [disk('a', cache_mode='none'), disk('b', cache_mode='')]
        self.assert_room((0, 0, 'medium 200'), disks, cache_mode='none')
        self.assert_room((10, 1, ''), disks)

    def test_no_disks(self):
        self.assertEqual(fleet.Space(0, 0, 0, 0, 0.0, 0), fleet.space([]))
        room = fleet.room([], flavor.VDiskRequest(2, 10))
        self.assertEqual((0, 0, ''), (room.servers, room.hosts, room.stranded))

    def assert_room(self, expected, disks, **fields):
        fields = {'vdisks': 2, 'vdisk_gb': 10, **fields}
        room = fleet.room(disks, flavor.VDiskRequest(**fields))
        self.assertEqual(expected, (room.servers, room.hosts, room.stranded))

    def test_hosts_add_up(self):
        self.assert_room(
            (5, 1, 'disks 100'),
            [
                disk('a', total_gb=50),
                disk('b', total_gb=50),
                disk('c', 'one disk', total_gb=100),
            ],
        )

    def test_other_media(self):
        self.assert_room(
            (1, 1, 'medium 100'),
            [
                disk('a', total_gb=10),
                disk('b', total_gb=10),
                disk('c', medium=constants.SSD),
            ],
            media='hdd',
        )

    def test_throughput(self):
        disks = [disk(uuid, total_mbps=100) for uuid in 'ab']
        self.assert_room((2, 1, 'MB/s 160'), disks, vdisk_mbps=50)

    def test_space_that_no_vdisk_fills(self):
        disks = [disk(uuid, total_gb=19) for uuid in 'ab']
        self.assert_room((1, 1, 'GiB 18'), disks)

    def test_aggregates(self):
        disks = [disk('a', 'x'), disk('b', 'y')]
        self.assertEqual(
            {fleet.ALL_HOSTS: disks, 'one': disks[:1]},
            fleet.of_aggregates(disks, {'one': ['x', 'z'], 'none': ['z']}),
        )

    @given(
        st.lists(
            st.builds(
                disk,
                st.uuids().map(str),
                st.sampled_from('xyz'),
                medium=st.sampled_from(['hdd', 'ssd']),
                total_gb=st.integers(0, 60),
                total_mbps=st.integers(0, 60),
                can_stripe=st.booleans(),
            )
        ),
        st.builds(
            flavor.VDiskRequest,
            vdisks=st.integers(1, 3),
            vdisk_gb=st.integers(1, 20),
            vdisks_per_disk=st.integers(1, 2),
            vdisk_mbps=st.integers(0, 20),
            media=st.sampled_from(['any', 'hdd']),
            mapping=st.sampled_from(['round_robin', 'consolidated']),
        ),
    )
    def test_all_free_space_is_used_or_stranded(self, disks, request):
        room = fleet.room(disks, request)
        used = room.servers * request.pieces * request.piece_gb
        self.assertEqual(
            sum(disk.free_gb for disk in disks),
            used + sum(room.stranded_gb.values()),
        )
        self.assertTrue(all(gb >= 0 for gb in room.stranded_gb.values()))
        self.assertEqual(
            room.servers,
            sum(one.servers for one in capacity.capacities(disks, request)),
        )
