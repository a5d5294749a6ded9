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

"""Tests of choosing disks at the moment of the claim."""

import copy
import functools
import unittest
import uuid
from unittest import mock

import numpy as np

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.plan import Choice
from nova_diskplacer.scheduler.plan import DiskPlan
from tests.unit.nova_diskplacer.scheduler import fakes


class DiskCandidatesTest(unittest.TestCase):
    def setUp(self):
        conf.register_opts(conf.CONF)
        self.host = fakes.host_state(0)
        self.disks = [fakes.disk_uuid(0, i) for i in range(3)]
        self.cache = fakes.make_cache(
            fakes.report(0, *(fakes.disk(0, i, total_gb=10) for i in range(3)))
        )
        self.fresh = None
        self.looks = []
        self.claims = {}
        for name, function in (
            ('disks_in_tree', self._look),
            ('claims_of', lambda _: self.claims),
        ):
            patch = mock.patch.object(placement_queries, name, function)
            patch.start()
            self.addCleanup(patch.stop)

    def _run(self, vdisks=1, own=(), beside_gb=(), **changes):
        request = flavor.VDiskRequest(vdisks, 10, **changes)
        plan = DiskPlan(request, own, beside_gb=beside_gb)
        return functools.partial(self._make_run, plan)

    def _fill(self, *disks):
        """Have Placement tell that these disks are full."""
        self.fresh = {
            uuid: placement_client.DiskCapacity(
                10, 10 if index in disks else 0, 150, 0
            )
            for index, uuid in enumerate(self.disks)
        }

    def _make_run(self, plan, counts):
        choice = Choice(np.array([True]), np.array([counts]), np.array([0.5]))
        rows = np.array([0])
        free = self.cache.free_capacity(rows)
        return candidates.FilterRun(
            'server', plan, self.cache, rows, choice, free
        )

    def _look(self, provider):
        self.looks.append(provider)
        return self.fresh

    def _candidates(self, counts, host=None, run=None):
        run = run or self._run()
        if not isinstance(run, candidates.FilterRun):
            run = run(counts)
        return candidates.DiskCandidates(host or self.host, run, 0)

    def _gb(self, candidate):
        claims = self._claimed(candidate).values()
        return [claim.get('CUSTOM_VDISK_GB') for claim in claims]

    def _claimed(self, candidate):
        return {
            provider: allocation['resources']
            for provider, allocation in candidate['allocations'].items()
            if provider in self.disks
        }

    def test_iterating_chooses_as_taking_the_first_one_does(self):
        self.host.allocation_candidates *= 2
        self.fresh = {
            self.disks[0]: placement_client.DiskCapacity(10, 10, 150, 0),
            self.disks[1]: placement_client.DiskCapacity(10, 10, 150, 0),
            self.disks[2]: placement_client.DiskCapacity(10, 0, 150, 0),
        }
        for candidate in self._candidates([0, 1, 0]):
            self.assertEqual(
                {self.disks[2]: {'CUSTOM_VDISK_GB': 10}},
                self._claimed(candidate),
            )
        self.assertEqual([self.host.uuid], self.looks)

    def test_a_claim_whose_answer_is_lost_is_made_once_more(self):
        """Nova adds other disks to those that the server has by then."""
        run = self._run(vdisks=2)([1, 1, 0])
        first = self._claimed(self._candidates(None, run=run)[0])
        self.assertEqual(2, len(first))
        # Placement has it, and its agent may have reported it already
        self.claims = {disk: {'CUSTOM_VDISK_GB': 10} for disk in first}
        self.fresh = {
            disk: placement_client.DiskCapacity(
                10, 10 if disk in first else 0, 150, 0
            )
            for disk in self.disks
        }
        candidates_ = self._candidates(None, run=run)
        self.assertTrue(candidates_)
        self.assertEqual(first, self._claimed(candidates_[0]))
        self.assertEqual([self.host.uuid], self.looks)
        # the claim is noticed as any other
        self.assertFalse(run.is_claimed)
        self.host.num_instances += 1
        self.assertTrue(run.is_claimed)

    def test_the_same_disks_while_nobody_knows_of_the_claim(self):
        run = self._run()([1, 0, 0])
        first = self._claimed(self._candidates(None, run=run)[0])
        self.claims = None
        self.fresh = {}
        for _ in range(3):
            candidate = self._candidates(None, run=run)[0]
            self.assertEqual(first, self._claimed(candidate))

    def test_another_try_chooses_again_if_nothing_is_claimed(self):
        run = self._run()([1, 0, 0])
        (first,) = self._claimed(self._candidates(None, run=run)[0])
        self.claims = {self.host.uuid: {'VCPU': 1}}
        self.fresh = {
            disk: placement_client.DiskCapacity(
                10, 10 if disk == first else 0, 150, 0
            )
            for disk in self.disks
        }
        (second,) = self._claimed(self._candidates(None, run=run)[0])
        self.assertNotEqual(first, second)

    def test_an_alternate_of_a_host_that_reports_another_disk(self):
        run = self._run()([0, 1, 0])
        run.only_alternates = True
        disks = [fakes.disk(0, i, total_gb=10) for i in range(3)]
        new = {**disks[0], 'uuid': str(uuid.UUID(int=0))}
        self.cache.update(fakes.report(0, new, *disks))
        (claimed,) = self._claimed(self._candidates(None, run=run)[0])
        self.assertEqual(self.disks[1], claimed)

    def test_iterating_for_the_next_server_looks_nowhere(self):
        # as NUMATopologyFilter does on every host
        run = self._run()([1, 0, 0])
        other = fakes.host_state(0)
        self._candidates([1, 0, 0], run=run)[0]
        self.host.num_instances += 1
        offered = self._candidates([1, 0, 0], host=other, run=run)
        self.assertEqual(list(offered.without_disks), list(offered))
        self.assertEqual([self.host.uuid], self.looks)

    def test_the_claim_is_chosen_from_fresh_figures(self):
        self.fresh = {
            self.disks[0]: placement_client.DiskCapacity(10, 10, 150, 0),
            self.disks[1]: placement_client.DiskCapacity(10, 10, 150, 0),
            self.disks[2]: placement_client.DiskCapacity(10, 0, 150, 0),
        }
        candidate = self._candidates([0, 1, 0])[0]
        self.assertEqual(
            {self.disks[2]: {'CUSTOM_VDISK_GB': 10}}, self._claimed(candidate)
        )
        self.assertEqual([self.host.uuid], self.looks)

    def test_novas_candidate_is_not_written_to(self):
        before = copy.deepcopy(self.host.allocation_candidates)
        candidate = self._candidates([1, 0, 0])[0]
        self.assertEqual(before, self.host.allocation_candidates)
        self.assertEqual(
            before[0]['allocations'][self.host.uuid],
            candidate['allocations'][self.host.uuid],
        )

    def test_concurrent_claims_choose_different_disks(self):
        given = [self._candidates([1, 0, 0])[0] for _ in range(3)]
        chosen = {disk for one in given for disk in self._claimed(one)}
        self.assertEqual(set(self.disks), chosen)

    def test_when_all_is_pending_it_competes(self):
        self.cache.add_pending(0, np.array([1, 1, 1]), 10, 0)
        candidate = self._candidates([1, 0, 0])[0]
        self.assertEqual(1, len(self._claimed(candidate)))

    def test_a_host_is_checked_before_its_first_try(self):
        """Placement would accept vdisks without room for the root volume."""
        for full, beside_gb, usable in (
            ((0,), (), True),
            ((0,), (10,), True),
            ((0, 1), (), True),
            ((0, 1), (10,), False),
            ((0, 1, 2), (), False),
        ):
            with self.subTest(full=full, beside_gb=beside_gb):
                self._fill(*full)
                self.looks = []
                run = self._run(beside_gb=beside_gb)([1, 0, 0])
                found = self._candidates(None, run=run)
                self.assertEqual(usable, bool(found))
                if usable:
                    (claimed,) = self._claimed(found[0])
                    self.assertNotIn(self.disks.index(claimed), full)
                # the check has chosen the disks of the claim
                self.assertEqual([self.host.uuid], self.looks)

    def test_a_full_host_that_nova_takes_unchecked(self):
        self._fill(0, 1, 2)
        run = self._run()([1, 0, 0])
        candidate = self._candidates(None, run=run)[0]
        self.assertEqual([self.disks[0]], list(self._claimed(candidate)))
        # the claim is noticed as any other
        self.assertFalse(run.is_claimed)
        self.host.num_instances += 1
        self.assertTrue(run.is_claimed)

    def test_a_second_runreplaces_the_first(self):
        self.host.allocation_candidates = self._candidates([1, 0, 0])
        (candidate,) = self._candidates([0, 0, 1])
        self.assertEqual(1, len(self._claimed(candidate)))

    def test_disks_of_an_earlier_runkept_by_another_filter_go(self):
        # a filter behind ours replaced the candidates by a plain list
        earlier = list(self._candidates([1, 0, 0]))
        self.host.allocation_candidates = earlier
        (candidate,) = self._candidates([0, 0, 1])
        (disk,) = self._claimed(candidate)
        self.assertNotEqual([disk], list(self._claimed(earlier[0])))

    def test_throughput_of_an_earlier_rungoes(self):
        # the GiB of its vdisk are reserved, so only MB/s were claimed
        earlier = {
            **self.host.allocation_candidates[0]['allocations'],
            self.disks[0]: {'resources': {'CUSTOM_VDISK_MBPS': 30}},
        }
        self.host.allocation_candidates = [{'allocations': earlier}]
        self.fresh = {
            self.disks[0]: placement_client.DiskCapacity(10, 10, 150, 0),
            self.disks[2]: placement_client.DiskCapacity(10, 0, 150, 0),
        }
        (candidate,) = self._candidates([0, 0, 1])
        self.assertEqual([10], self._gb(candidate))

    def test_throughput_is_claimed_with_the_space(self):
        candidate = self._candidates(
            [1, 1, 0], run=self._run(2, vdisk_mbps=30)
        )[0]
        self.assertEqual(
            [{'CUSTOM_VDISK_GB': 10, 'CUSTOM_VDISK_MBPS': 30}] * 2,
            list(self._claimed(candidate).values()),
        )


class PlanWithOwnVDisksTest(unittest.TestCase):
    """A server that has vdisks claims them where they are."""

    def setUp(self):
        self.disks = [fakes.disk_uuid(0, i) for i in range(3)]

    def _choose(
        self,
        own,
        *disks,
        others=(),
        kept=(),
        reserved_for_others=0,
        **changes,
    ):
        cache = fakes.make_cache(fakes.report(0, *disks))
        free = cache.free_capacity(cache.rows([fakes.host_uuid(0)]))
        request = flavor.VDiskRequest(
            **{'vdisks': 2, 'vdisk_gb': 10, **changes}
        )
        plan = DiskPlan(
            request,
            tuple(self._bound(i, 's') for i in own),
            tuple(self._bound(i, None) for i in others),
            dict.fromkeys(self.disks, reserved_for_others),
            kept_vdisks=tuple(self._bound(i, 'deleted') for i in kept),
        )
        choice = plan.choose(free)
        if not choice.fits[0]:
            return None
        claims = plan.allocations(free, choice.counts[0])
        self.mbps = {
            self.disks.index(disk): resources['CUSTOM_VDISK_MBPS']
            for disk, resources in claims.items()
            if 'CUSTOM_VDISK_MBPS' in resources
        }
        return {
            self.disks.index(disk): resources['CUSTOM_VDISK_GB']
            for disk, resources in claims.items()
            if 'CUSTOM_VDISK_GB' in resources
        }

    def _bound(self, disk, server_id):
        return BoundVDisk(
            f'v{disk}',
            fakes.host_uuid(0),
            self.disks[disk],
            server_id,
            10,
            'host0',
        )

    def _disks(self, *used, **changes):
        return [
            fakes.disk(0, i, used_gb=gb, **changes)
            for i, gb in enumerate(used)
        ]

    def test_same_disks_again(self):
        self.assertEqual(
            {1: 10, 2: 10}, self._choose([1, 2], *self._disks(0, 10, 10))
        )

    def test_more_vdisks_go_on_other_disks(self):
        self.assertEqual(
            {0: 10, 1: 10, 2: 10},
            self._choose([1, 2], *self._disks(0, 10, 10), vdisks=3),
        )
        self.assertIsNone(
            self._choose([0, 1, 2], *self._disks(0, 10, 10), vdisks=4)
        )

    def test_fewer_vdisks_claim_what_is_there(self):
        self.assertEqual(
            {1: 10, 2: 10},
            self._choose([1, 2], *self._disks(0, 10, 10), vdisks=1),
        )

    def test_vdisks_that_it_brings_count_and_are_not_claimed(self):
        disks = self._disks(20, 0, 20)
        self.assertEqual({1: 10}, self._choose([], *disks, kept=[0]))
        self.assertEqual(
            {1: 10, 2: 10}, self._choose([], *disks, kept=[0], vdisks=3)
        )
        self.assertIsNone(self._choose([], *disks, kept=[0], vdisks=4))
        self.assertEqual({}, self._choose([], *disks, kept=[0, 2]))
        consolidated = self._choose(
            [], *self._disks(5, 0, 0), kept=[0], mapping='consolidated'
        )
        self.assertEqual({0: 10}, consolidated)

    def test_new_vdisks_keep_off_disks_of_volumes_it_brings(self):
        disks = self._disks(0, 20, 20)
        self.assertEqual({1: 10, 2: 10}, self._choose([], *disks, others=[0]))
        self.assertIsNone(self._choose([], *disks, others=[0], vdisks=3))
        consolidated = self._choose(
            [], *self._disks(5, 0, 0), others=[0], mapping='consolidated'
        )
        self.assertEqual({0: 20}, consolidated)

    def test_no_room_for_both_claims(self):
        self.assertIsNone(
            self._choose([1, 2], *self._disks(0, 10, 95, total_gb=100))
        )

    def test_new_vdisks_beside_reserved_ones_are_claimed_with_them(self):
        # else the claim of the new ones would cover the old ones
        disks = self._disks(0, 0, 0, total_gb=40)
        disks[1]['reserved_gb'] = 10
        asked = {'mapping': 'consolidated', 'vdisks': 2}
        disks[0]['health'] = disks[2]['health'] = 'missing'
        self.assertEqual({1: 20}, self._choose([1], *disks, **asked))
        disks[1]['used_gb'] = 15
        self.assertIsNone(self._choose([1], *disks, **asked))
        self.assertEqual(
            {1: 10}, self._choose([1], *disks, **{**asked, 'vdisks': 1})
        )

    def test_reserved_ones_are_claimed_where_there_is_room(self):
        disks = self._disks(0, 0, 0, total_gb=100)
        disks[1]['reserved_gb'] = 10
        self.assertEqual({1: 10}, self._choose([1], *disks, vdisks=1))

    def test_what_is_reserved_for_others_does_not_count(self):
        disks = self._disks(0, 5, 0, total_gb=20)
        disks[1]['reserved_gb'] = 10
        for others, claims in ((0, {}), (3, {1: 3}), (5, {1: 5}), (6, None)):
            found = self._choose(
                [1], *disks, vdisks=1, reserved_for_others=others
            )
            self.assertEqual(claims, found)

    def test_what_is_reserved_for_them_is_not_claimed_again(self):
        disks = self._disks(0, 0, 0, total_gb=10)
        disks[1]['reserved_gb'] = 10
        self.assertEqual({}, self._choose([1], *disks, vdisks=1))

    def test_throughput_is_claimed_though_the_space_is_reserved(self):
        disks = self._disks(0, 0, 0, total_gb=10, total_mbps=150)
        disks[1]['reserved_gb'] = disks[2]['reserved_gb'] = 10
        for own, vdisks, claims, mbps in (
            ([1, 2], 2, {}, {1: 100, 2: 100}),
            ([1], 2, {0: 10}, {0: 100, 1: 100}),
            # attached while it ran: claims none
            ([1, 2], 1, {}, {1: 100}),
        ):
            found = self._choose(own, *disks, vdisks=vdisks, vdisk_mbps=100)
            self.assertEqual(claims, found)
            self.assertEqual(mbps, self.mbps)

    def test_throughput_that_others_have_claimed_meanwhile(self):
        disks = self._disks(0, 0, 0, total_gb=10, total_mbps=150)
        disks[1].update(reserved_gb=10, used_mbps=100)
        asked = {'vdisks': 1, 'vdisk_mbps': 100}
        self.assertIsNone(self._choose([1], *disks, **asked))
        # who asks for no throughput does not mind
        self.assertEqual({}, self._choose([1], *disks, vdisks=1))

    def test_a_disk_that_holds_too_much_takes_what_is_reserved_there(self):
        # a resize that waits for confirmation still claims them
        disks = self._disks(0, 10, 0, total_gb=10)
        disks[1]['reserved_gb'] = 10
        self.assertEqual({}, self._choose([1], *disks, vdisks=1))
