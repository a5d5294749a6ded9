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

import numpy
import testtools

from diskplacer_measure.sizing import analysis
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import migrations
from tests.unit.diskplacer_measure.sizing import simulated
from tests.unit.diskplacer_measure.sizing import test_migrations
from tests.unit.diskplacer_measure.sizing import test_samples

GIB = 1 << 30
MIB = 1 << 20


def load(records=1000, **changes):
    """Return what the load prints, of which the analysis uses a part."""
    return {
        'workload': 'a',
        'records': records,
        'data_bytes': records * MIB,
        'operations': simulated.OPERATIONS,
        **changes,
    }


def designed(seed=1):
    """Return runs of P1's design, in which migrations cost nothing."""
    source = numpy.random.default_rng(seed)
    found = []
    for size, data in simulated.PUBLISHED.items():
        counts, times = simulated.steady(source, data)
        bytes_ = int(size[0]) * GIB
        for number, (count, seconds) in enumerate(
            zip(counts.tolist(), times.tolist(), strict=True)
        ):
            found.append(
                test_samples.sample(
                    vcpus=1 + number % 4,
                    seconds=seconds,
                    counters={'migrations': count, 'vcpu_seconds': seconds},
                    missing={'cache_misses': 'no perf event'},
                    # updates make the table grow
                    load=load(1024 * int(size[0]), data_bytes=bytes_ + number),
                )
            )
    return found


def experiment(cost, server='a', **changes):
    """Return the runs of an experiment on migrations."""
    found = []
    for number, block in enumerate(test_migrations.experiment(1, cost)):
        for how, seconds, count in (
            ('floating', block.floating_seconds, block.floating_migrations),
            ('pinned', block.pinned_seconds, block.pinned_migrations),
        ):
            fields = {
                'server': server,
                'block': number,
                'vcpus_are': how,
                'seconds': seconds,
                'counters': {'migrations': count},
                'load': load(),
            }
            found.append(test_samples.sample(**fields | changes))
    return found


class TogetherTest(testtools.TestCase):
    def test_planted(self):
        """Counters that cost time, one that does not, and the same vCPUs."""
        source = numpy.random.default_rng(3)
        found = []
        for _ in range(80):
            reads, moves = source.uniform(1e3, 9e3), source.uniform(1e5, 9e5)
            seconds = 100 + 4e-3 * reads + source.normal()
            found.append(
                test_samples.sample(
                    seconds=seconds,
                    counters={'disk_reads': reads, 'migrations': moves},
                )
            )
        done = analysis.analyse(found)
        self.assertEqual('', done.problem)
        reads, moves = done.together.coefficients
        self.assertEqual('disk_reads', reads.name)
        self.assertTrue(reads.low < 4e-3 < reads.high, reads)
        self.assertAlmostEqual(0.165, reads.share, 1)
        self.assertTrue(moves.low < 0 < moves.high, moves)
        self.assertEqual('the same in all runs', done.left_out['vcpus'])
        self.assertIn('missing in 80 runs', done.left_out['cache_misses'])

    def test_reason_of_what_is_missing(self):
        done = analysis.analyse(designed())
        self.assertEqual(
            'missing in 240 runs: no perf event', done.left_out['cache_misses']
        )
        self.assertEqual(
            {'vcpus', 'data_gib', 'migrations'},
            {one.name for one in done.together.coefficients},
        )

    def test_data_that_grows_is_one(self):
        found = [
            test_samples.sample(
                seconds=10 + number,
                counters={'disk_reads': number**2},
                load=load(data_bytes=GIB + number),
            )
            for number in range(9)
        ]
        done = analysis.analyse(found)
        self.assertEqual('the same in all runs', done.left_out['data_gib'])

    def test_wanted_counters(self):
        done = analysis.analyse(designed(), ['vcpu_seconds'])
        (one,) = done.together.coefficients
        self.assertEqual('vcpu_seconds', one.name)
        self.assertEqual({}, done.left_out)

    def test_a_counter_that_is_not_there(self):
        error = self.assertRaises(
            errors.SizingError, analysis.analyse, designed(), ['llc']
        )
        self.assertIn('--counters llc: the runs have only', str(error))
        self.assertIn('migrations', str(error))

    def test_too_few_runs(self):
        done = analysis.analyse(designed()[:3])
        self.assertIsNone(done.together)
        self.assertIn('3 runs with', done.problem)

    def test_no_runs(self):
        error = self.assertRaises(errors.SizingError, analysis.analyse, [])
        self.assertIn('no runs', str(error))


class AloneTest(testtools.TestCase):
    def test_p1_for_each_size_of_the_data(self):
        """Migrations that cost nothing have what P1 publishes."""
        alone = analysis.analyse(designed()).alone
        self.assertEqual(['migrations'] * 2, [one.counter for one in alone])
        for one, gib, share in zip(alone, (2, 8), (0.75, 0.52), strict=True):
            self.assertEqual(120, one.fit.runs)
            self.assertAlmostEqual(gib, one.data_gib, 3)
            self.assertAlmostEqual(share, one.share, delta=0.06)
            self.assertAlmostEqual(0.89, one.fit.r2, delta=0.04)

    def test_pinned_runs_are_left_out(self):
        (one,) = analysis.analyse(experiment(0)).alone
        self.assertEqual(10, one.fit.runs)

    def test_loads_that_tell_nothing(self):
        (one,) = analysis.analyse(experiment(0, load={})).alone
        self.assertEqual((None, None), (one.data_gib, one.share))
        self.assertIsNotNone(one.fit)

    def test_problem(self):
        (one,) = analysis.analyse(designed()[:2]).alone
        self.assertIsNone(one.fit)
        self.assertIn('at least 3', one.problem)


class ExperimentTest(testtools.TestCase):
    def analyse(self, found):
        return analysis.analyse(found).experiments

    def test_migrations_that_cost_nothing(self):
        (one,) = self.analyse(experiment(0))
        self.assertEqual(migrations.NO_EFFECT, one.cost.verdict)
        self.assertEqual(10, one.cost.blocks)

    def test_planted(self):
        found = experiment(4e-4)
        (one,) = self.analyse(found)
        self.assertEqual(migrations.COSTS, one.cost.verdict)
        self.assertTrue(one.cost.each.low < 4e-4 < one.cost.each.high)
        mean = sum(each.seconds for each in found) / len(found)
        self.assertAlmostEqual(
            one.cost.each.value / (mean / simulated.OPERATIONS), one.share
        )

    def test_servers_and_loads_are_apart(self):
        found = (
            experiment(0)
            + experiment(4e-4, server='b')
            + experiment(0, load=load(workload='b'))
            + experiment(0, load=load(records=9))
            + experiment(0, load=load(operations=50))
            + experiment(0, vcpus=4)
        )
        self.assertEqual(
            [
                ('a', 'a', migrations.NO_EFFECT),
                ('b', 'a', migrations.COSTS),
                ('a', 'b', migrations.NO_EFFECT),
                *(3 * [('a', 'a', migrations.NO_EFFECT)]),
            ],
            [
                (one.server, one.load, one.cost.verdict)
                for one in self.analyse(found)
            ],
        )

    def test_half_a_block(self):
        """The process was killed between the runs of a block."""
        (one,) = self.analyse(experiment(0)[:-1])
        self.assertEqual(9, one.cost.blocks)

    def test_too_few_blocks(self):
        (one,) = self.analyse(experiment(0)[:4])
        self.assertIsNone(one.cost)
        self.assertIn('2 blocks', one.problem)

    def test_migrations_that_are_not_known(self):
        (one,) = self.analyse(
            experiment(0, counters={}, missing={'migrations': 'no process'})
        )
        self.assertIn('missing in block 0: no process', one.problem)

    def test_none(self):
        self.assertEqual((), self.analyse(designed()))


class MemoryTest(testtools.TestCase):
    def test_each_size(self):
        """A table that grows is one; the largest counts."""
        found = [
            test_samples.sample(load=load(1000)),
            test_samples.sample(load=load(1000, data_bytes=GIB)),
            test_samples.sample(load=load(8192)),
            test_samples.sample(load={}),
        ]
        small, large = analysis.analyse(found).memory
        self.assertTrue(small.enough)
        self.assertIn('0.50 of the memory', small.text)
        self.assertFalse(large.enough)
        self.assertEqual(8 * GIB, large.least_bytes)


class ValuesTest(testtools.TestCase):
    def test_names(self):
        self.assertEqual(
            {'vcpus': 2, 'memory_gib': 2, 'data_gib': 1, 'disk_reads': 7},
            analysis.values(
                test_samples.sample(counters={'disk_reads': 7}), GIB
            ),
        )
