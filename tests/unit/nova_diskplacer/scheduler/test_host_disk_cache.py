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

"""Tests of the cache of reported disks."""

import threading
import unittest

import numpy as np

from nova_diskplacer import constants
from nova_diskplacer import flavor
from nova_diskplacer import report_format
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler.plan import NO_NODE
from nova_diskplacer.scheduler.plan import BoundVDisk
from tests.unit.nova_diskplacer.scheduler import fakes


def request(**changes):
    return flavor.VDiskRequest(**{'vdisks': 4, 'vdisk_gb': 10, **changes})


class HostDiskCacheTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.cache = fakes.make_cache(
            fakes.report(0, fakes.disk(0, 0), fakes.disk(0, 1, used_gb=95)),
            fakes.report(1, fakes.disk(1, 0, medium='ssd', reserved_gb=60)),
            clock=self.clock,
        )
        self.rows = self.cache.rows([fakes.host_uuid(0), fakes.host_uuid(1)])

    def slots(self, **changes):
        free = self.cache.free_capacity(self.rows)
        return free.slots(request(**changes)).tolist()

    def test_room(self):
        self.assertEqual([[10, 0], [4, 0]], self.slots())

    def test_media(self):
        self.assertEqual([[10, 0], [0, 0]], self.slots(media='hdd'))
        self.assertEqual([[0, 0], [4, 0]], self.slots(media='ssd'))

    def test_throughput_limits_the_room(self):
        self.assertEqual([[3, 0], [3, 0]], self.slots(vdisk_mbps=50))

    def test_unhealthy_disk_has_no_room(self):
        for health in ('missing', 'read-only'):
            self.cache.update(
                fakes.report(
                    0, fakes.disk(0, 0, health=health), fakes.disk(0, 1)
                )
            )
            self.assertEqual([0, 10], self.slots()[0])

    def test_unknown_host_and_stale_report(self):
        self.assertEqual(
            [-1, 1],
            self.cache.rows(['unknown', fakes.host_uuid(1)]).tolist(),
        )
        self.clock.now += 61
        self.cache.update(fakes.report(1, fakes.disk(1, 0)))
        self.assertEqual(
            [-1, 1],
            self.cache.rows([fakes.host_uuid(0), fakes.host_uuid(1)]).tolist(),
        )

    def _digested(self, digest, **changes):
        self.cache.update(
            {
                **fakes.report(0, fakes.disk(0, 0, **changes)),
                'digest': digest,
            }
        )

    def _confirm(self, digest):
        return self.cache.confirm(fakes.host_uuid(0), digest)

    def _known(self):
        return self.cache.rows([fakes.host_uuid(0)])[0] >= 0

    def test_heartbeats_keep_a_report_fresh(self):
        self._digested('one')
        for _ in range(3):
            self.clock.now += 60
            self.assertTrue(self._confirm('one'))
            self.assertTrue(self._known())
        self.clock.now += 60.1
        self.assertFalse(self._known())
        self.assertTrue(self._confirm('one'))
        self.assertTrue(self._known())

    def test_heartbeats_of_another_report_confirm_nothing(self):
        self._digested('one')
        self.clock.now += 60.1
        self.assertFalse(self._confirm('two'))
        self.assertFalse(self._known())
        # nor does one of a host that has not reported
        self.assertFalse(self.cache.confirm(fakes.host_uuid(7), 'one'))

    def test_who_has_looked_or_chosen_wants_a_report(self):
        row = int(self.rows[0])
        capacities = {
            fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                100, 30, 150, 0
            )
        }

        def look():
            self.cache.update_from_placement(row, capacities)

        def choose():
            self.cache.add_pending(row, np.array([1, 0]), 10, 0)

        for change in (look, choose):
            self._digested('one')
            self.assertEqual([], self.cache.hosts_to_renew())
            change()
            self.assertEqual(['host0'], self.cache.hosts_to_renew())
            self.assertEqual([], self.cache.hosts_to_renew())
            self.clock.now += 60
            # it is alive, but does not know
            self.assertFalse(self._confirm('one'))
            self.assertTrue(self._known())
            self._digested('two', used_gb=30)
            self.assertTrue(self._confirm('two'))
        look()
        self.assertEqual([], self.cache.hosts_to_renew())

    def test_a_disk_that_has_left_is_news_once(self):
        row = int(self.rows[0])
        self._digested('one')
        self.cache.update_from_placement(row, {})
        self.assertEqual(['host0'], self.cache.hosts_to_renew())
        self._digested('two', used_gb=100)
        self.cache.update_from_placement(row, {})
        self.assertEqual([], self.cache.hosts_to_renew())

    def test_agents_without_heartbeats_are_not_asked(self):
        self.cache.add_pending(int(self.rows[0]), np.array([1, 0]), 10, 0)
        self.assertEqual([], self.cache.hosts_to_renew())

    def test_empty_cache(self):
        empty = fakes.make_cache()
        rows = empty.rows(['a', 'b'])
        self.assertEqual([-1, -1], rows.tolist())
        self.assertEqual(0, len(empty.free_capacity(rows[rows >= 0]).disks))

    def test_grows(self):
        many = 300
        for number in range(many):
            self.cache.update(
                fakes.report(
                    number,
                    *(fakes.disk(number, i) for i in range(1 + number % 14)),
                )
            )
        rows = self.cache.rows(fakes.host_uuid(i) for i in range(many))
        slots = self.cache.free_capacity(rows).slots(request())
        self.assertEqual((many, 14), slots.shape)
        self.assertEqual(
            [10 * (1 + number % 14) for number in range(many)],
            slots.sum(axis=1).tolist(),
        )

    def test_rows_can_be_read_while_the_fleet_grows(self):
        # wide, so that it takes a while to grow
        wide = [fakes.disk(0, index) for index in range(100)]
        providers = [fakes.host_uuid(number) for number in range(2100)]
        reports = [fakes.report(number) for number in range(len(providers))]
        reports[0]['disks'] = wide
        growing = fakes.make_cache()
        errors = []
        done = threading.Event()

        def read():
            while not done.is_set():
                try:
                    growing.rows(providers)
                except IndexError as error:
                    errors.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for report in reports:
                growing.update(report)
        finally:
            done.set()
            reader.join()
        self.assertEqual([], errors)
        self.assertEqual(
            list(range(len(providers))), growing.rows(providers).tolist()
        )

    def test_a_hold_counts_once(self):
        counts = np.array([2, 0])
        self.cache.add_pending(0, counts, 10, 0)
        self.assertEqual([8, 0], self.slots()[0])
        # the claim shows in Placement: it is not counted a second time
        self.cache.update_from_placement(
            0,
            {
                fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                    100, 20, 150, 0
                )
            },
        )
        self.assertEqual([8, 0], self.slots()[0])
        self.cache.add_pending(0, counts, 10, 0)
        self.assertEqual([6, 0], self.slots()[0])

    def test_a_pending_choice_expires(self):
        self.cache.add_pending(0, np.array([2, 0]), 10, 0)
        without = self.cache.free_capacity(self.rows, include_pending=False)
        self.assertEqual([10, 0], without.slots(request()).tolist()[0])
        self.clock.now += host_disk_cache.pending_claims.SECONDS + 1
        self.assertEqual([10, 0], self.slots()[0])

    def test_a_pending_choice_is_released(self):
        counts = np.array([2, 0])
        first = self.cache.add_pending(0, counts, 10, 5)
        self.cache.add_pending(0, counts, 10, 5)
        self.assertEqual([6, 0], self.slots()[0])
        self.cache.release_pending(first)
        self.assertEqual([8, 0], self.slots()[0])
        # whoever releases it once more releases no other one
        self.cache.release_pending(first)
        self.assertEqual([8, 0], self.slots()[0])

    def test_servers_that_are_deleted_soon_leave_nothing(self):
        """However often their disk is chosen again."""
        counts = np.array([1, 0])
        for _ in range(100):
            self.cache.add_pending(0, counts, 10, 0)
            for used_gb in (10, 0):
                self.cache.update_from_placement(
                    0,
                    {
                        fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                            100, used_gb, 150, 0
                        )
                    },
                )
            self.clock.now += 10
        # the last one has not ended
        self.assertEqual([9, 0], self.slots()[0])

    def test_a_claim_that_shows_late_counts_for_later_choices(self):
        counts = np.array([1, 0])
        self.cache.add_pending(0, counts, 10, 0)
        self.clock.now += 10
        # the claim of the first one does not show yet
        self.cache.add_pending(0, counts, 10, 0)
        self.assertEqual([8, 0], self.slots()[0])
        self.cache.update_from_placement(
            0,
            {
                fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                    100, 10, 150, 0
                )
            },
        )
        self.clock.now += 11
        self.assertEqual([8, 0], self.slots()[0])
        self.clock.now += 10
        self.assertEqual([9, 0], self.slots()[0])

    def test_a_choice_on_disks_that_are_replaced(self):
        first = self.cache.add_pending(0, np.array([1, 0]), 10, 0)
        other = fakes.disk(0, 7)
        self.cache.update(fakes.report(0, other))
        self.assertEqual(10, self.slots()[0][0])
        self.cache.release_pending(first)
        self.assertEqual(10, self.slots()[0][0])

    def test_choices_on_a_fleet_that_grows_wider(self):
        self.cache.add_pending(0, np.array([1, 0]), 10, 0)
        self.cache.update(
            fakes.report(9, *(fakes.disk(9, i) for i in range(5)))
        )
        self.clock.now += 10
        self.cache.add_pending(0, np.array([1, 0, 0, 0, 0]), 10, 0)
        self.assertEqual([8, 0, 0, 0, 0], self.slots()[0])
        self.clock.now += 15
        self.assertEqual([9, 0, 0, 0, 0], self.slots()[0])

    def test_placement_tells_what_is_reserved(self):
        self.cache.update_from_placement(
            0,
            {
                fakes.disk_uuid(0, 0): placement_client.DiskCapacity(
                    30, 10, 150, 140
                )
            },
        )
        self.assertEqual([2, 0], self.slots()[0])
        self.assertEqual([1, 0], self.slots(vdisk_mbps=10)[0])

    def test_placement_tells_that_a_disk_has_left_the_host(self):
        self.cache.update_from_placement(
            0,
            {
                fakes.disk_uuid(0, 1): placement_client.DiskCapacity(
                    100, 0, 150, 0
                )
            },
        )
        self.assertEqual(0, self.slots()[0][0])

    def test_placement_tells_that_no_disk_has_room(self):
        self.cache.update_from_placement(0, {})
        self.assertEqual([0, 0], self.slots()[0])

    def test_the_largest_figures_of_a_report(self):
        most = constants.MAX_FIGURE
        held = [fakes.vdisk(f'v{number}', 's', most) for number in range(4)]
        amounts = dict.fromkeys(host_disk_cache._AMOUNTS, most)
        full = fakes.disk(0, 0, **amounts, numa_node=most, vdisks=held)
        empty = fakes.disk(0, 1, total_gb=most, total_mbps=most)
        self.cache.update(report_format.check(fakes.report(0, full, empty)))
        free = self.cache.free_capacity(self.rows)
        self.assertEqual([-most, most], free.free_gb[0].tolist())
        self.assertEqual([0, most], free.free_mbps[0].tolist())
        own = tuple(self.cache.bound_vdisks(v['volume_id'] for v in held))
        chosen = plan.DiskPlan(request(), own).choose(free)
        self.assertFalse(chosen.fits[0])

    def test_a_snapshot_is_no_bound_vdisk(self):
        snapshot = {**fakes.vdisk('p', None), 'is_snapshot': True}
        volume = {**fakes.vdisk('v', None), 'is_snapshot': False}
        self.cache.update(
            fakes.report(
                0,
                fakes.disk(0, 0, vdisks=[snapshot, volume]),
                fakes.disk(0, 1),
            )
        )
        (vdisk,) = self.cache.bound_vdisks(['p', 'v'])
        self.assertEqual('v', vdisk.volume_id)

    def test_bound_vdisks_follow_the_reports(self):
        held = fakes.vdisk('v', 's')
        self.cache.update(fakes.report(0, fakes.disk(0, 0, vdisks=[held])))
        self.assertEqual(
            [
                BoundVDisk(
                    'v',
                    fakes.host_uuid(0),
                    fakes.disk_uuid(0, 0),
                    's',
                    10,
                    'host0',
                )
            ],
            self.cache.bound_vdisks(['v', 'w']),
        )
        # it moves: both hosts have it for a while, whichever reports last
        self.cache.update(fakes.report(1, fakes.disk(1, 0, vdisks=[held])))
        self.cache.update(fakes.report(0, fakes.disk(0, 1, vdisks=[held])))
        self.assertEqual(
            {fakes.disk_uuid(0, 1), fakes.disk_uuid(1, 0)},
            {vdisk.disk for vdisk in self.cache.bound_vdisks(['v'])},
        )
        self.cache.update(fakes.report(0, fakes.disk(0, 0)))
        (vdisk,) = self.cache.bound_vdisks(['v'])
        self.assertEqual(fakes.host_uuid(1), vdisk.provider)
        self.cache.update(fakes.report(1, fakes.disk(1, 0)))
        self.assertEqual([], self.cache.bound_vdisks(['v']))

    def test_vdisks_of_a_host_that_is_away_for_long(self):
        held = fakes.vdisk('v', 's')
        self.cache.update(fakes.report(0, fakes.disk(0, 0, vdisks=[held])))
        self.clock.now += 61
        self.assertEqual(1, len(self.cache.bound_vdisks(['v'])))
        self.clock.now += host_disk_cache.FORGET_SECONDS
        self.assertEqual([], self.cache.bound_vdisks(['v']))
        # it comes back
        self.cache.update(fakes.report(0, fakes.disk(0, 0, vdisks=[held])))
        self.assertEqual(1, len(self.cache.bound_vdisks(['v'])))

    def test_numa_nodes(self):
        self.cache.update(
            fakes.report(
                0,
                fakes.disk(0, 0, numa_node=1),
                fakes.disk(0, 1, numa_node=None),
            )
        )
        free = self.cache.free_capacity(self.rows)
        self.assertEqual([1, NO_NODE], free.numa_node[0].tolist())

    def test_cache_modes(self):
        for mode in ('writethrough', 'none', None):
            report = fakes.report(1, fakes.disk(1, 0))
            if mode:
                report['cache_mode'] = mode
            self.cache.update(report)
            self.assertEqual(
                ['', mode or ''],
                self.cache.free_capacity(self.rows).cache_mode.tolist(),
            )

    def test_pressure_of_all_usable_disks(self):
        self.assertEqual([0.0, 0.0], self.cache.pressure(self.rows).tolist())
        self.cache.update(
            fakes.report(
                0,
                fakes.disk(0, 0, pressure=20),
                fakes.disk(0, 1, pressure=60),
                fakes.disk(0, 2, pressure=100, health='read-only'),
            )
        )
        self.assertEqual([0.4, 0.0], self.cache.pressure(self.rows).tolist())
        self.assertEqual(
            [0.0, 0.4], self.cache.pressure(self.rows[::-1]).tolist()
        )

    def test_pressure_of_chosen_disks(self):
        counts = np.array([[3, 1], [0, 0]])
        self.cache.update(
            fakes.report(
                0,
                fakes.disk(0, 0, pressure=20),
                fakes.disk(0, 1, pressure=60),
            )
        )
        # more disks than when it was chosen
        self.cache.update(
            fakes.report(1, *(fakes.disk(1, i, pressure=7) for i in range(4)))
        )
        self.assertEqual(
            [0.3, 0.07], self.cache.pressure(self.rows, counts).tolist()
        )

    def test_pressure_where_some_hosts_have_chosen_disks(self):
        """Disks that are not usable count only if they are chosen."""
        for host in (0, 1):
            self.cache.update(
                fakes.report(
                    host,
                    fakes.disk(host, 0, pressure=20),
                    fakes.disk(host, 1, pressure=60),
                    fakes.disk(host, 2, pressure=100, health='read-only'),
                )
            )
        chosen, none = [1, 0, 1], [0, 0, 0]
        for counts, expected in (
            ([chosen, none], [0.6, 0.4]),
            ([none, chosen], [0.4, 0.6]),
            ([none, none], [0.4, 0.4]),
        ):
            pressure = self.cache.pressure(self.rows, np.array(counts))
            self.assertEqual(expected, pressure.tolist())

    def test_pressure_that_is_not_reported_any_more(self):
        self.cache.update(fakes.report(1, fakes.disk(1, 0, pressure=100)))
        self.assertEqual([0.0, 1.0], self.cache.pressure(self.rows).tolist())
        self.cache.update(fakes.report(1, fakes.disk(1, 0)))
        self.assertEqual([0.0, 0.0], self.cache.pressure(self.rows).tolist())

    def test_pressure_of_a_host_without_usable_disks(self):
        lost = fakes.disk(1, 0, pressure=100, health='missing')
        self.cache.update(fakes.report(1, lost))
        self.assertEqual([0.0, 0.0], self.cache.pressure(self.rows).tolist())

    def test_free_capacity_of_one_host(self):
        free = self.cache.free_capacity(self.rows)
        last = free.of_host(1)
        self.assertEqual([free.disks[1]], last.disks)
        self.assertEqual([free.free_gb[1].tolist()], last.free_gb.tolist())
        self.assertEqual(1, len(last.cache_mode))
