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
from nova_diskplacer.client import facts

HDD = constants.HDD


def disk(uuid, host='host', **fields):
    return facts.Disk(uuid, host, **{'medium': HDD, 'total_gb': 100, **fields})


def one(disks, **fields):
    request = flavor.VDiskRequest(**{'vdisks': 2, 'vdisk_gb': 10, **fields})
    (found,) = capacity.capacities(disks, request)
    return found


class CapacityTest(base.BaseTestCase):
    def test_hosts(self):
        found = capacity.capacities(
            [disk('a', 'x'), disk('b', 'x'), disk('c', 'y')],
            flavor.VDiskRequest(2, 10),
        )
        self.assertEqual(
            [
                capacity.Capacity('x', 2, 20, 10, capacity.ROOM),
                capacity.Capacity('y', 1, 10, 0, capacity.DISKS),
            ],
            found,
        )

    def test_several_vdisks_of_a_server_on_a_disk(self):
        self.assertEqual(5, one([disk('a')], vdisks_per_disk=2).servers)
        self.assertEqual(5, one([disk('a')], mapping='consolidated').servers)

    def test_a_full_disk_limits_what_spreads(self):
        disks = [disk('a'), disk('b', claimed_gb=70)]
        self.assertEqual(3, one(disks).servers)
        self.assertEqual(6, one(disks, mapping='consolidated').servers)

    def test_striped(self):
        """Each vdisk takes an equal part on each of three LVM disks."""
        disks = [disk(uuid, can_stripe=True) for uuid in 'abc']
        stripe = {'mapping': 'striped', 'stripe_disks': 3, 'vdisk_gb': 100}
        found = one([*disks, disk('d')], vdisks=1, **stripe)
        self.assertEqual((3, 6, 2), (found.disks, found.slots, found.servers))
        self.assertEqual(1, one(disks, vdisks_per_disk=2, **stripe).servers)
        for refused in ({}, {'stripe_disks': 4}):
            found = one(disks, **{**stripe, **refused})
            self.assertEqual((0, capacity.DISKS), (found.servers, found.limit))

    def test_elastic(self):
        """A vdisk takes its narrowest stripe, of LVM disks."""
        disks = [disk(uuid, can_stripe=True) for uuid in 'abc']
        elastic = {'mapping': 'elastic', 'widest_disks': 4, 'vdisk_gb': 100}
        found = one([*disks, disk('d')], stripe_disks=1, vdisks=2, **elastic)
        self.assertEqual((3, 3, 1), (found.disks, found.slots, found.servers))
        found = one(disks, stripe_disks=2, vdisks=1, **elastic)
        self.assertEqual((3, 6, 3), (found.disks, found.slots, found.servers))

    def test_throughput(self):
        disks = [disk(uuid, total_mbps=100) for uuid in 'ab']
        found = one(disks, vdisk_mbps=40)
        self.assertEqual(
            (2, capacity.THROUGHPUT), (found.servers, found.limit)
        )

    def test_disks_that_do_not_suit(self):
        disks = [
            disk('a'),
            disk('b', medium=constants.SSD),
            disk('c', health=constants.HUNG),
        ]
        found = one(disks, media=HDD, mapping='consolidated')
        self.assertEqual((2, 5), (found.disks, found.servers))

    def test_cache_mode_is_that_of_the_host(self):
        for modes, servers in (
            (('none', 'none'), 10),
            (('none', 'writeback'), 0),
            # not known yet
            (('', ''), 0),
            (('none', ''), 0),
        ):
            disks = [
                disk(uuid, cache_mode=mode)
                for uuid, mode in zip('ab', modes, strict=True)
            ]
            request = {'cache_mode': 'none', 'mapping': 'consolidated'}
            self.assertEqual(servers, one(disks, **request).servers)
        # it has never been read, and is no vdisk's
        disks = [
            disk('a', cache_mode='none'),
            disk('b', health=constants.HUNG),
        ]
        self.assertEqual(5, one(disks, **request).servers)

    @given(
        st.lists(st.integers(0, 8), max_size=5),
        st.integers(1, 4),
        st.integers(1, 3),
    )
    def test_as_many_as_can_be_placed(self, slots, vdisks, per_disk):
        request = flavor.VDiskRequest(vdisks, 1, vdisks_per_disk=per_disk)
        self.assertEqual(
            placed(list(slots), vdisks, per_disk),
            capacity.count_servers(slots, request),
        )


def placed(slots, vdisks, per_disk):
    """Place servers on the disks with the most slots until one fails."""
    servers = 0
    while True:
        left, held = list(slots), [0] * len(slots)
        for _ in range(vdisks):
            fit = [
                number
                for number in range(len(left))
                if left[number] and held[number] < per_disk
            ]
            if not fit:
                return servers
            best = max(fit, key=lambda number: left[number])
            left[best] -= 1
            held[best] += 1
        slots, servers = left, servers + 1
