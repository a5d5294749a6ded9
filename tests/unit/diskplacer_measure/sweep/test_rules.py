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

import dataclasses
import math

import ddt
import testtools

from diskplacer_measure.sweep import rules
from tests.unit.diskplacer_measure.sweep import example


def by_cell(*rows):
    """Return results of pairs of a cell and its MB/s by repetition."""
    return rules.by_cell(
        example.result(cell, repetition, mbps)
        for cell, its in rows
        for repetition, mbps in enumerate(its)
        if mbps is not None
    )


def check(rule, *rows):
    (comparison,) = rule(by_cell(*rows))
    return comparison.check(0.95)


@ddt.ddt
class CheckTest(testtools.TestCase):
    @ddt.data(
        (0.5, 0.6, rules.REPRODUCED),
        (0.5, 0.9, rules.REPRODUCED),
        (0.91, 0.95, rules.REFUTED),
        (0.85, 0.95, rules.NOT_TOLD_APART),
        (0.9, 0.95, rules.NOT_TOLD_APART),
    )
    @ddt.unpack
    def test_much_less(self, low, high, expected):
        found = rules.Check(
            '', rules.MUCH_LESS, low=low, high=high, cells=1, repetitions=5
        )
        self.assertEqual(expected, found.verdict)

    @ddt.data(
        (0.95, 1.05, rules.REPRODUCED),
        (0.8, 0.89, rules.REFUTED),
        (1.11, 1.2, rules.REFUTED),
        (0.8, 1.2, rules.NOT_TOLD_APART),
    )
    @ddt.unpack
    def test_alike(self, low, high, expected):
        found = rules.Check(
            '', rules.ALIKE, low=low, high=high, cells=1, repetitions=5
        )
        self.assertEqual(expected, found.verdict)

    def test_nothing_to_compare(self):
        self.assertEqual(
            rules.NOT_MEASURED, rules.Check('', rules.MORE).verdict
        )


class ComparisonTest(testtools.TestCase):
    rule = staticmethod(rules.to_bare_metal('', rules.LESS, scenario='server'))

    def test_geometric_mean_of_ratios(self):
        found = check(
            self.rule,
            (example.bare(), [100, 200, 400]),
            (example.cell(), [50, 100, 200]),
            (example.bare(jobs=4), [100, 100, 100]),
            (example.cell(jobs=4), [12.5, 12.5, 12.5]),
        )
        self.assertAlmostEqual(0.25, found.value)
        self.assertAlmostEqual(0.25, found.low)
        self.assertAlmostEqual(0.125, found.least)
        self.assertAlmostEqual(0.5, found.most)
        self.assertEqual((2, 3), (found.cells, found.repetitions))

    def test_differences_of_cells_are_no_noise(self):
        """That 1 and 4 threads differ does not widen the interval."""
        found = check(
            self.rule,
            (example.bare(), [100, 100, 100]),
            (example.cell(), [99, 100, 101]),
            (example.bare(jobs=4), [100, 100, 100]),
            (example.cell(jobs=4), [10, 10, 10]),
        )
        self.assertLess(found.high / found.low, 1.05)

    def test_repetitions_are_pairs(self):
        found = check(
            self.rule,
            (example.bare(), [100, None, 400]),
            (example.cell(), [50, 7, 200]),
        )
        self.assertEqual(2, found.repetitions)
        self.assertAlmostEqual(0.5, found.value)

    def test_a_single_repetition_tells_nothing(self):
        found = check(
            self.rule, (example.bare(), [100]), (example.cell(), [50, 50])
        )
        self.assertEqual(rules.NOT_MEASURED, found.verdict)

    def test_confidence(self):
        rows = ((example.bare(), [100, 100, 100]), (example.cell(), [9, 9, 8]))
        (comparison,) = self.rule(by_cell(*rows))
        self.assertLess(comparison.check(0.99).low, comparison.check(0.95).low)

    def test_only_as_many_threads(self):
        found = check(
            self.rule,
            (example.bare(jobs=4), [100, 100]),
            (example.cell(jobs=2), [50, 50]),
        )
        self.assertEqual(0, found.cells)

    def test_several_servers_have_threads_together(self):
        found = check(
            rules.to_bare_metal('', rules.LESS, scenario='servers'),
            (example.bare(jobs=4), [100, 100]),
            (example.cell(scenario='servers', servers=4), [50, 50]),
        )
        self.assertAlmostEqual(0.5, found.value)

    def test_results_that_do_not_count(self):
        cell = example.cell()
        found = rules.counted(
            [
                example.result(cell, 0, 10),
                example.result(cell, 1, 10, 'bound by the CPU'),
                example.result(cell, 2, 0),
            ]
        )
        self.assertEqual([0], list(found[cell]))


class RulesTest(testtools.TestCase):
    def test_swapped(self):
        found = check(
            rules.swapped(
                '', rules.ALIKE, 'host_scheduler', ('bfq', 'none'), jobs=4
            ),
            (example.cell(jobs=4, host_scheduler='bfq'), [30, 30]),
            (example.cell(jobs=4, host_scheduler='none'), [10, 10]),
            (example.cell(jobs=1, host_scheduler='bfq'), [1, 1]),
            (example.cell(jobs=1, host_scheduler='none'), [10, 10]),
            (example.bare(jobs=4, host_scheduler='none'), [1, 1]),
        )
        self.assertAlmostEqual(3, found.value)
        self.assertEqual(1, found.cells)

    def test_swapped_with_the_mean_of_several(self):
        found = check(
            rules.swapped(
                '', rules.ALIKE, 'vcpus', (4, (1, 2)), besides=('ram_mib',)
            ),
            (example.cell(vcpus=4, ram_mib=8192), [20, 20]),
            (example.cell(vcpus=2, ram_mib=4096), [10, 10]),
            (example.cell(vcpus=1, ram_mib=1024), [40, 40]),
        )
        self.assertAlmostEqual(1, found.value)

    def test_more_threads(self):
        rows = (
            (example.cell(), [10, 10]),
            (example.cell(jobs=4), [20, 20]),
            (example.cell(jobs=16), [40, 40]),
        )
        found = check(rules.more_threads('', rules.MORE), *rows)
        self.assertAlmostEqual(4, found.value)
        found = check(
            rules.more_threads('', rules.MORE, lambda number: number == 4),
            *rows,
        )
        self.assertAlmostEqual(2, found.value)

    def test_more_memory(self):
        found = check(
            rules.more_memory('', rules.MORE),
            (example.cell(ram_mib=1024), [10, 10]),
            (example.cell(ram_mib=2048), [20, 20]),
            (example.cell(ram_mib=4096), [80, 80]),
            (example.cell(ram_mib=8192, vcpus=4), [1, 1]),
        )
        self.assertAlmostEqual(4, found.value)
        self.assertEqual(2, found.cells)

    def test_fair(self):
        cell = example.cell(jobs=2)
        results = rules.by_cell(
            [
                example.result(cell, number, 4, rates=(3.0, 1.0))
                for number in range(3)
            ]
            + [example.result(example.cell(), 0, 4)]
        )
        (comparison,) = rules.fair('', rules.Range(low=0.9))(results)
        found = comparison.check(0.95)
        self.assertAlmostEqual(0.8, found.value)
        self.assertEqual(rules.REFUTED, found.verdict)

    def test_where(self):
        results = by_cell(
            *((example.cell(jobs=jobs), [1]) for jobs in (1, 2, 4))
        )
        for wanted, expected in (
            ({'jobs': 2}, [2]),
            ({'jobs': (1, 4)}, [1, 4]),
            ({'jobs': lambda jobs: jobs > 1}, [2, 4]),
            ({'jobs': 2, 'scenario': 'bare'}, []),
        ):
            self.assertEqual(
                expected,
                [cell.jobs for cell in rules.where(results, **wanted)],
            )

    def test_every_field_of_a_server_is_known(self):
        """A new field of cells is either compared or one of servers."""
        names = {field.name for field in dataclasses.fields(example.cell())}
        self.assertLessEqual(set(rules.OF_SERVERS), names)
        self.assertEqual(
            {'engine', 'operation', 'depth', 'host_scheduler'},
            names - set(rules.OF_SERVERS),
        )
        self.assertTrue(math.isinf(rules.MORE.high))
