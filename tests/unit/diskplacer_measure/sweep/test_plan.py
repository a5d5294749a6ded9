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
    def test_every_repetition_is_once(self, planned, count, seed):
        repetitions = plan.repetitions_of(planned, count)
        batches = plan.batches(repetitions, seed)
        self.assertEqual(
            collections.Counter(repetitions),
            collections.Counter(
                repetition
                for batch in batches
                for repetition in batch.repetitions
            ),
        )
        for batch in batches:
            self.assertLessEqual(len(batch.repetitions), plan.CELLS_OF_A_BOOT)
            self.assertEqual(
                {batch.target},
                {
                    plan.Target.of(repetition.cell)
                    for repetition in batch.repetitions
                },
            )

    @given(plans, seeds)
    def test_repetitions_are_blocks(self, planned, seed):
        batches = plan.batches(plan.repetitions_of(planned, 3), seed)
        order = [
            repetition.number
            for batch in batches
            for repetition in batch.repetitions
        ]
        self.assertEqual(sorted(order), order)

    @given(plans, seeds, strategies.randoms())
    def test_the_seed_alone_decides_the_order(self, planned, seed, random):
        repetitions = plan.repetitions_of(planned, 2)
        shuffled = list(repetitions)
        random.shuffle(shuffled)
        self.assertEqual(
            plan.batches(repetitions, seed), plan.batches(shuffled, seed)
        )

    def test_the_order_is_random(self):
        planned = [samples.make_cell(jobs=jobs) for jobs in range(1, 21)]
        planned += [samples.make_cell(number) for number in range(1, 6)]
        orders = {
            seed: [
                [repetition.cell for repetition in batch.repetitions]
                for batch in plan.batches(
                    plan.repetitions_of(planned, 2), seed
                )
            ]
            for seed in 'ab'
        }
        self.assertNotEqual(orders['a'], orders['b'])
        first, second = orders['a'][:6], orders['a'][6:]
        # both of the batches, and of the cells in one
        self.assertNotEqual(first, second)
        self.assertNotEqual(max(first, key=len), max(second, key=len))

    def test_a_long_boot_is_divided(self):
        planned = [
            samples.make_cell(1, jobs=jobs)
            for jobs in range(1, 2 * plan.CELLS_OF_A_BOOT)
        ]
        batches = plan.batches(plan.repetitions_of(planned, 1), '')
        self.assertEqual(
            [plan.CELLS_OF_A_BOOT - 1, plan.CELLS_OF_A_BOOT],
            sorted(len(batch.repetitions) for batch in batches),
        )


class WindowsTest(testtools.TestCase):
    @given(plans, timings, strategies.integers(0, 2**31))
    def test_slots_do_not_overlap(self, planned, timing, start):
        batches = plan.batches(plan.repetitions_of(planned, 1), '')
        for batch in batches:
            windows = plan.windows(batch, start, timing, LIMITS)
            self.assertEqual(
                list(batch.repetitions),
                [window.repetition for window in windows],
            )
            self.assertEqual(start + plan.GAP, windows[0].start)
            for window in windows:
                self.assertGreaterEqual(
                    window.end - window.start, LIMITS.seconds + timing.patience
                )
            for one, other in itertools.pairwise(windows):
                self.assertLessEqual(one.end + plan.GAP, other.start)

    def test_consoles_are_read_in_pauses(self):
        planned = [samples.make_cell(2, jobs=jobs) for jobs in range(1, 61)]
        windows = plan.windows(samples.make_batch(*planned), 0, TIMING, LIMITS)
        gaps = [
            other.start - one.end for one, other in itertools.pairwise(windows)
        ]
        self.assertEqual(
            [plan.READ_EVERY, 2 * plan.READ_EVERY],
            [index for index, gap in enumerate(gaps, 1) if gap > plan.GAP],
        )

    def test_a_write_through_the_cache_flushes_at_the_end(self):
        settings = {'engine': 'sync_cached', 'operation': 'write'}
        bare, small, large = (
            TIMING.window_seconds(
                samples.make_cell(servers, ram_mib=ram, **settings), LIMITS
            )
            for servers, ram in ((0, 0), (1, 1024), (1, 16384))
        )
        direct = TIMING.window_seconds(samples.make_cell(), LIMITS)
        self.assertLess(direct, small)
        self.assertLess(small, large)
        self.assertEqual(bare, large)


class TimingTest(testtools.TestCase):
    target = plan.Target('server', 1, 1, 1024)
    batch = samples.make_batch(samples.make_cell(1))

    def test_the_first_boot(self):
        self.assertEqual(90, TIMING.boot_seconds(self.target))
        self.assertGreater(plan.lead_seconds(self.batch, TIMING, LIMITS), 90)
        short = dataclasses.replace(TIMING, boot_timeout=60)
        self.assertEqual(60, short.boot_seconds(self.target))

    def test_later_boots(self):
        known = TIMING.updated(self.target, plan.StepTimes(30, 50, 1))
        self.assertEqual(55, known.boot_seconds(self.target))
        # of others it is not known how long they take
        other = plan.Target('servers', 2, 1, 1024)
        self.assertEqual(100, known.boot_seconds(other))
        slow = TIMING.updated(self.target, plan.StepTimes(290, 50, 1))
        self.assertEqual(300, slow.boot_seconds(self.target))

    def test_patience_with_servers_that_boot(self):
        for step_times in ({}, {self.target: plan.StepTimes(30, 50, 1)}):
            timing = dataclasses.replace(TIMING, step_times=step_times)
            patient = dataclasses.replace(timing, patience=2)
            self.assertEqual(
                2 * timing.boot_seconds(self.target),
                patient.boot_seconds(self.target),
            )
            self.assertEqual(
                2 * timing.fill_seconds(self.target, 100),
                patient.fill_seconds(self.target, 100),
            )
        short = dataclasses.replace(patient, boot_timeout=60)
        self.assertEqual(60, short.boot_seconds(self.target))

    def test_bare_metal_boots_nothing(self):
        bare = plan.Target('bare', 0, 0, 0)
        self.assertEqual(0, TIMING.boot_seconds(bare))
        # and tells nothing of servers
        known = TIMING.updated(bare, plan.StepTimes(0, 1000, 0))
        self.assertEqual(
            plan.lead_seconds(self.batch, TIMING, LIMITS),
            plan.lead_seconds(self.batch, known, LIMITS),
        )

    def test_slow_servers_have_more_time(self):
        cell = samples.make_cell(1)
        slow = TIMING.updated(self.target, plan.StepTimes(30, 5, 8))
        self.assertGreater(
            slow.window_seconds(cell, LIMITS), LIMITS.seconds + 8
        )
        self.assertGreater(
            slow.fill_seconds(self.target, 1000),
            TIMING.fill_seconds(self.target, 1000),
        )

    def test_patience(self):
        known = TIMING.updated(self.target, plan.StepTimes(30, 50, 1))
        patient = dataclasses.replace(known, patience=2.0)
        cell = samples.make_cell(1)
        self.assertGreater(
            patient.window_seconds(cell, LIMITS),
            known.window_seconds(cell, LIMITS),
        )

    def test_duration(self):
        batches = plan.batches(
            plan.repetitions_of(
                [samples.make_cell(), samples.make_cell(1)], 2
            ),
            '',
        )
        seconds = plan.duration(batches, TIMING, LIMITS)
        bare = plan.duration(
            [batch for batch in batches if not batch.target.servers],
            TIMING,
            LIMITS,
        )
        self.assertLess(bare, seconds)
        self.assertGreater(seconds - bare, 90)
        self.assertLess(plan.duration(batches[1:], TIMING, LIMITS), seconds)
