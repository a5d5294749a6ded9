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

import math
import random

import testtools

from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import choose
from tests.unit.diskplacer_measure.sweep import example

SHAPES = ((1, 1024), (2, 4096), (4, 8192), (8, 16384), (16, 16384))
SEEDS = 200


def sweep(seed, best=None, cells=None):
    """Return results of a sweep, and its best candidate.

    Noise has a standard deviation of 3 to 5 %, another one for each
    candidate. What all candidates have in common differs by load, and from
    repetition to repetition.

    :param best: whether one candidate is better than the others, each of
        which is behind by 10 to 20 %.
    """
    draw = random.Random(seed)
    cells = cells or [
        example.cell(
            vcpus=vcpus,
            ram_mib=ram,
            host_scheduler=scheduler,
            jobs=jobs,
            operation=operation,
        )
        for vcpus, ram in SHAPES
        for scheduler in ('bfq', 'mq-deadline')
        for jobs in (1, 4, 16)
        for operation in ('read', 'write')
    ]
    candidates = sorted({choose.Candidate.of(cell, False) for cell in cells})
    planted = draw.choice(candidates)
    effects = {
        one: 0.0
        if one == planted or not best
        else math.log(1 - draw.uniform(0.1, 0.2))
        for one in candidates
    }
    noise = {one: draw.uniform(0.03, 0.05) for one in candidates}
    loads = {(cell.jobs, cell.operation): draw.uniform(2, 5) for cell in cells}
    results = []
    for repetition in range(5):
        drift = draw.gauss(0, 0.1)
        for cell in cells:
            one = choose.Candidate.of(cell, False)
            log = loads[cell.jobs, cell.operation] + drift + effects[one]
            log += draw.gauss(0, noise[one])
            results.append(example.result(cell, repetition, math.exp(log)))
    return results, planted


def chosen(found):
    return [one.candidate for one in found.chosen]


class PlantedTest(testtools.TestCase):
    def test_an_optimum_is_found(self):
        found = 0
        for seed in range(SEEDS):
            results, planted = sweep(seed, best=True)
            one = choose.choose(results, 'sequential_async', 'server')
            found += one.claims_optimum and chosen(one) == [planted]
        self.assertGreaterEqual(found, 0.95 * SEEDS)

    def test_none_is_claimed_where_there_is_none(self):
        false = 0
        for seed in range(SEEDS):
            results, _ = sweep(seed)
            one = choose.choose(results, 'sequential_async', 'server')
            false += one.claims_optimum
        self.assertLessEqual(false, 0.05 * SEEDS)

    def test_nor_under_a_single_load(self):
        """Where the noise is large against the margin."""
        cells = [
            example.cell(vcpus=vcpus, ram_mib=ram, host_scheduler=scheduler)
            for vcpus, ram in SHAPES
            for scheduler in ('bfq', 'mq-deadline')
        ]
        false = 0
        for seed in range(SEEDS):
            results, _ = sweep(seed, cells=cells)
            one = choose.choose(results, 'sequential_async', 'server')
            self.assertEqual(10, len(one.compared))
            false += one.claims_optimum
        self.assertLessEqual(false, 0.05 * SEEDS)


class ChooseTest(testtools.TestCase):
    """Servers whose throughput is as given, with a little noise."""

    @staticmethod
    def results(*rows, repetitions=range(3)):
        draw = random.Random(1)
        return [
            example.result(
                cell, repetition, mbps * draw.lognormvariate(0, 0.003)
            )
            for repetition in repetitions
            for cell, mbps in rows
        ]

    def choose(self, results, objective='server', workload='sequential_async'):
        return choose.choose(results, workload, objective)

    def test_set_that_is_not_told_apart(self):
        found = self.choose(
            self.results(
                (example.cell(vcpus=1), 100),
                (example.cell(vcpus=2), 100.2),
                (example.cell(vcpus=4), 80),
            )
        )
        self.assertEqual({1, 2}, {one.vcpus for one in chosen(found)})
        self.assertTrue(found.claims_optimum)
        (excluded,) = found.excluded
        self.assertEqual(4, excluded.candidate.vcpus)
        self.assertAlmostEqual(0.8, excluded.ratio, 2)
        self.assertLess(excluded.low, 0.8)
        self.assertLess(0.8, excluded.high)

    def test_less_than_the_margin_is_no_difference(self):
        """However sure it is."""
        for mbps, excluded in ((99.2, 0), (98, 1)):
            results = [
                example.result(cell, repetition, rate)
                for cell, rate in (
                    (example.cell(vcpus=1), mbps),
                    (example.cell(vcpus=2), 100),
                )
                for repetition in range(5)
            ]
            found = self.choose(results)
            self.assertEqual(excluded, len(found.excluded), mbps)

    def test_best_for_a_server_is_not_best_for_the_host(self):
        """P0, section V-A: many slim servers beat a fat one."""
        results = self.results(
            (example.cell(vcpus=1, jobs=4), 50),
            (example.cell(vcpus=4, jobs=4), 90),
            (example.cell(vcpus=1, jobs=1), 60),
            (example.cell(vcpus=4, jobs=1), 95),
            (example.cell(scenario='servers', servers=4, vcpus=1), 110),
            (example.cell(scenario='servers', servers=4, vcpus=4), 70),
        )
        (best,) = chosen(self.choose(results))
        self.assertEqual((False, 4), (best.several, best.vcpus))
        found = self.choose(results, 'host')
        (best,) = chosen(found)
        self.assertEqual((True, 1), (best.several, best.vcpus))
        self.assertEqual([4], [load.jobs for load in found.loads])
        self.assertEqual(4, len(found.compared))

    def test_host_without_several_servers(self):
        found = self.choose(
            self.results((example.cell(), 50), (example.cell(vcpus=4), 90)),
            'host',
        )
        self.assertEqual((), found.compared)
        self.assertFalse(found.claims_optimum)

    def test_bare_metal_is_no_candidate(self):
        found = self.choose(
            self.results(
                (example.bare(), 500),
                (example.cell(), 50),
                (example.cell(vcpus=4), 90),
            )
        )
        self.assertEqual(2, len(found.compared))

    def test_only_common_loads_are_compared(self):
        """The first would be the best if its only load counted alone."""
        found = self.choose(
            self.results(
                (example.cell(vcpus=1, operation='write'), 500),
                *(
                    (example.cell(vcpus=vcpus, operation=operation), rate)
                    for vcpus, rate in ((2, 50), (4, 90))
                    for operation in ('read', 'write')
                ),
                (example.cell(vcpus=8, operation='read'), 500),
            )
        )
        self.assertEqual(
            {1, 2, 4, 8},
            {one.candidate.vcpus for one in found.compared}
            | {one.vcpus for one in found.left_out},
        )
        self.assertEqual(1, len(found.loads))
        self.assertEqual(3, len(found.compared))

    def test_loads_count_the_same(self):
        """A load with little throughput counts as much as another."""
        found = self.choose(
            self.results(
                (example.cell(vcpus=1, jobs=1), 1000),
                (example.cell(vcpus=1, jobs=4), 1),
                (example.cell(vcpus=2, jobs=1), 500),
                (example.cell(vcpus=2, jobs=4), 4),
            )
        )
        best, other = found.compared
        self.assertEqual(2, best.candidate.vcpus)
        self.assertAlmostEqual(2000**0.5, best.mbps, delta=1)
        self.assertAlmostEqual(0.5**0.5, other.ratio, 1)

    def test_results_with_problems(self):
        results = self.results(
            (example.cell(vcpus=1), 50), (example.cell(vcpus=2), 60)
        )
        results += [
            example.result(example.cell(vcpus=4), number, 500, 'too slow')
            for number in range(3)
        ]
        found = self.choose(results)
        self.assertEqual(
            {1, 2}, {one.candidate.vcpus for one in found.compared}
        )

    def test_missing_repetitions(self):
        """What they have in common with others is taken into account."""
        drift = [1, 2, 4, 8]
        results = [
            example.result(
                example.cell(vcpus=vcpus),
                repetition,
                rate * drift[repetition] * (1 + 0.001 * (repetition % 2)),
            )
            for vcpus, rate, repetitions in (
                (1, 100, (0, 1, 2, 3)),
                (2, 90, (1, 2, 3)),
                (4, 50, (2, 3)),
            )
            for repetition in repetitions
        ]
        found = self.choose(results)
        self.assertEqual(
            [(1, 1.0), (2, 0.9), (4, 0.5)],
            [
                (one.candidate.vcpus, round(one.ratio, 2))
                for one in found.compared
            ],
        )
        self.assertEqual([1], [one.vcpus for one in chosen(found)])

    def test_repetitions_that_nothing_connects(self):
        results = self.results((example.cell(vcpus=1), 50))
        results += self.results(
            (example.cell(vcpus=2), 500), repetitions=range(3, 6)
        )
        self.assertEqual((), self.choose(results).compared)

    def test_threads_of_mapreduce_are_chosen(self):
        results = self.results(
            *(
                (example.cell(engine='sync_cached', jobs=jobs), 10 * jobs)
                for jobs in (1, 4, 16)
            )
        )
        found = self.choose(results, workload='mapreduce')
        self.assertEqual(
            [16, 4], [one.candidate.jobs for one in found.compared]
        )
        self.assertEqual([0], [load.jobs for load in found.loads])

    def test_nothing_at_all(self):
        for workload in arm_comparison.WORKLOADS:
            for objective in choose.OBJECTIVES:
                found = self.choose([], objective, workload)
                self.assertFalse(found.claims_optimum)
                self.assertEqual((), found.compared)

    def test_text(self):
        one, other = (
            choose.Candidate.of(cell, False)
            for cell in (
                example.cell(host_scheduler='bfq'),
                example.cell(scenario='servers', servers=4, ram_mib=512),
            )
        )
        self.assertEqual(
            'one server, 2 vCPUs, 4 GiB, bfq', choose.text(one, [one, other])
        )
        self.assertEqual(
            'several servers, 2 vCPUs, 512 MiB', choose.text(other, [other])
        )
