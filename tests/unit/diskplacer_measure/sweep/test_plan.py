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

import collections
import dataclasses
import itertools

import testtools
from hypothesis import given
from hypothesis import strategies

from diskplacer_measure.sweep import plan
from tests.unit.diskplacer_measure.sweep import samples

LIMITS = plan.Limits(1024, 6)
TIMING = plan.Timing(300, 50.0)

cells = strategies.builds(
    samples.make_cell,
    servers=strategies.integers(0, 3),
    engine=strategies.sampled_from(['sync_cached', 'async']),
    operation=strategies.sampled_from(['read', 'write']),
    jobs=strategies.integers(1, 64),
    host_scheduler=strategies.sampled_from(['none', 'bfq']),
)
plans = strategies.lists(cells, min_size=1, max_size=60, unique=True)
seeds = strategies.text(max_size=8)
timings = strategies.builds(
    plan.Timing,
    boot_timeout=strategies.floats(10, 900),
    fill_mbps=strategies.floats(1, 2000),
    patience=strategies.sampled_from([1.0, 2.0, 4.0]),
)


class BootsTest(testtools.TestCase):
    @given(plans, strategies.integers(1, 3), seeds)
    def test_every_item_is_once(self, planned, repetitions, seed):
        items = plan.items_of(planned, repetitions)
        boots = plan.boots(items, seed)
        self.assertEqual(
            collections.Counter(items),
            collections.Counter(item for boot in boots for item in boot.items),
        )
        for boot in boots:
            self.assertLessEqual(len(boot.items), plan.CELLS_OF_A_BOOT)
            self.assertEqual(
                {boot.body}, {plan.Body.of(item.cell) for item in boot.items}
            )

    @given(plans, seeds)
    def test_repetitions_are_blocks(self, planned, seed):
        boots = plan.boots(plan.items_of(planned, 3), seed)
        order = [item.repetition for boot in boots for item in boot.items]
        self.assertEqual(sorted(order), order)

    @given(plans, seeds, strategies.randoms())
    def test_the_seed_alone_decides_the_order(self, planned, seed, random):
        items = plan.items_of(planned, 2)
        shuffled = list(items)
        random.shuffle(shuffled)
        self.assertEqual(plan.boots(items, seed), plan.boots(shuffled, seed))

    def test_the_order_is_random(self):
        planned = [samples.make_cell(jobs=jobs) for jobs in range(1, 21)]
        planned += [samples.make_cell(number) for number in range(1, 6)]
        orders = {
            seed: [
                [item.cell for item in boot.items]
                for boot in plan.boots(plan.items_of(planned, 2), seed)
            ]
            for seed in 'ab'
        }
        self.assertNotEqual(orders['a'], orders['b'])
        first, second = orders['a'][:6], orders['a'][6:]
        # both of the boots, and of the cells in one
        self.assertNotEqual(first, second)
        self.assertNotEqual(max(first, key=len), max(second, key=len))

    def test_a_long_boot_is_divided(self):
        planned = [
            samples.make_cell(1, jobs=jobs)
            for jobs in range(1, 2 * plan.CELLS_OF_A_BOOT)
        ]
        boots = plan.boots(plan.items_of(planned, 1), '')
        self.assertEqual(
            [plan.CELLS_OF_A_BOOT - 1, plan.CELLS_OF_A_BOOT],
            sorted(len(boot.items) for boot in boots),
        )


class SlotsTest(testtools.TestCase):
    @given(plans, timings, strategies.integers(0, 2**31))
    def test_slots_do_not_overlap(self, planned, timing, start):
        boots = plan.boots(plan.items_of(planned, 1), '')
        for boot in boots:
            slots = plan.slots(boot, start, timing, LIMITS)
            self.assertEqual(list(boot.items), [slot.item for slot in slots])
            self.assertEqual(start + plan.GAP, slots[0].start)
            for slot in slots:
                self.assertGreaterEqual(
                    slot.end - slot.start, LIMITS.seconds + timing.patience
                )
            for one, other in itertools.pairwise(slots):
                self.assertLessEqual(one.end + plan.GAP, other.start)

    def test_consoles_are_read_in_pauses(self):
        planned = [samples.make_cell(2, jobs=jobs) for jobs in range(1, 61)]
        slots = plan.slots(samples.make_boot(*planned), 0, TIMING, LIMITS)
        gaps = [
            other.start - one.end for one, other in itertools.pairwise(slots)
        ]
        self.assertEqual(
            [plan.READ_EVERY, 2 * plan.READ_EVERY],
            [index for index, gap in enumerate(gaps, 1) if gap > plan.GAP],
        )

    def test_a_write_through_the_cache_flushes_at_the_end(self):
        settings = {'engine': 'sync_cached', 'operation': 'write'}
        bare, small, large = (
            TIMING.slot_seconds(
                samples.make_cell(servers, ram_mib=ram, **settings), LIMITS
            )
            for servers, ram in ((0, 0), (1, 1024), (1, 16384))
        )
        direct = TIMING.slot_seconds(samples.make_cell(), LIMITS)
        self.assertLess(direct, small)
        self.assertLess(small, large)
        self.assertEqual(bare, large)


class TimingTest(testtools.TestCase):
    body = plan.Body('server', 1, 1, 1024)
    boot = samples.make_boot(samples.make_cell(1))

    def test_the_first_boot(self):
        self.assertEqual(90, TIMING.boot_seconds(self.body))
        self.assertGreater(plan.lead_seconds(self.boot, TIMING, LIMITS), 90)
        short = dataclasses.replace(TIMING, boot_timeout=60)
        self.assertEqual(60, short.boot_seconds(self.body))

    def test_later_boots(self):
        known = TIMING.learned(self.body, plan.Pace(30, 50, 1))
        self.assertEqual(55, known.boot_seconds(self.body))
        # of others it is not known how long they take
        other = plan.Body('servers', 2, 1, 1024)
        self.assertEqual(100, known.boot_seconds(other))
        slow = TIMING.learned(self.body, plan.Pace(290, 50, 1))
        self.assertEqual(300, slow.boot_seconds(self.body))

    def test_patience_with_servers_that_boot(self):
        for pace in ({}, {self.body: plan.Pace(30, 50, 1)}):
            timing = dataclasses.replace(TIMING, paces=pace)
            patient = dataclasses.replace(timing, patience=2)
            self.assertEqual(
                2 * timing.boot_seconds(self.body),
                patient.boot_seconds(self.body),
            )
            self.assertEqual(
                2 * timing.fill_seconds(self.body, 100),
                patient.fill_seconds(self.body, 100),
            )
        short = dataclasses.replace(patient, boot_timeout=60)
        self.assertEqual(60, short.boot_seconds(self.body))

    def test_bare_metal_boots_nothing(self):
        bare = plan.Body('bare', 0, 0, 0)
        self.assertEqual(0, TIMING.boot_seconds(bare))
        # and tells nothing of servers
        known = TIMING.learned(bare, plan.Pace(0, 1000, 0))
        self.assertEqual(
            plan.lead_seconds(self.boot, TIMING, LIMITS),
            plan.lead_seconds(self.boot, known, LIMITS),
        )

    def test_slow_servers_have_more_time(self):
        cell = samples.make_cell(1)
        slow = TIMING.learned(self.body, plan.Pace(30, 5, 8))
        self.assertGreater(slow.slot_seconds(cell, LIMITS), LIMITS.seconds + 8)
        self.assertGreater(
            slow.fill_seconds(self.body, 1000),
            TIMING.fill_seconds(self.body, 1000),
        )

    def test_patience(self):
        known = TIMING.learned(self.body, plan.Pace(30, 50, 1))
        patient = dataclasses.replace(known, patience=2.0)
        cell = samples.make_cell(1)
        self.assertGreater(
            patient.slot_seconds(cell, LIMITS),
            known.slot_seconds(cell, LIMITS),
        )

    def test_duration(self):
        boots = plan.boots(
            plan.items_of([samples.make_cell(), samples.make_cell(1)], 2), ''
        )
        seconds = plan.duration(boots, TIMING, LIMITS)
        bare = plan.duration(
            [boot for boot in boots if not boot.body.servers], TIMING, LIMITS
        )
        self.assertLess(bare, seconds)
        self.assertGreater(seconds - bare, 90)
        self.assertLess(plan.duration(boots[1:], TIMING, LIMITS), seconds)
