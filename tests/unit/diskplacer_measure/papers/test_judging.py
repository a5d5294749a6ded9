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

import fixtures
import testtools

from diskplacer_measure.papers import claims
from diskplacer_measure.papers import judging
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import rules
from tests.unit.diskplacer_measure.sweep import example

SHAPES = (
    (1, 1024),
    (2, 4096),
    (2, 8192),
    (4, 8192),
    (8, 16384),
    (16, 16384),
)

# Claims that hold where nothing makes a difference, too.
OF_SAMENESS = {
    'The size of the page cache does not matter for data that is read once.',
    'Deadline and noop are alike for asynchronous reads.',
    'Asynchronous writes of bare metal do not depend on the scheduler.',
    'With deadline or noop, servers write about as fast as bare metal.',
    'With CFQ, reads of bare metal change little with more threads.',
    'With deadline or noop, a server of 4 or 8 vCPUs reads as fast with more '
    'threads.',
    'A server reaches most of the throughput of bare metal.',
    'Deadline and noop behave almost the same.',
    'Writes of bare metal do not depend on the scheduler.',
    'All scenarios are fair.',
    'With CFQ, servers stay fair.',
    'Bare metal is fair with each scheduler.',
}


def grid():
    """Return cells with which every claim can be judged."""
    plan = []
    for engine in cells.ENGINES:
        for operation in cells.OPERATIONS:
            for scheduler in example.ALL_SCHEDULERS:
                load = {
                    'engine': engine,
                    'operation': operation,
                    'host_scheduler': scheduler,
                }
                plan += [
                    example.bare(jobs=jobs, **load) for jobs in (1, 4, 16)
                ]
                plan += [
                    example.cell(vcpus=vcpus, ram_mib=ram, jobs=jobs, **load)
                    for vcpus, ram in SHAPES
                    for jobs in (1, 4, 16)
                ]
                plan += [
                    example.cell(
                        scenario='servers',
                        servers=servers,
                        vcpus=1,
                        ram_mib=1024,
                        **load,
                    )
                    for servers in (2, 4, 16)
                ]
    plan += [
        example.cell(
            engine='sync_direct',
            operation='write',
            cache_mode=mode,
            vcpus=vcpus,
            ram_mib=ram,
        )
        for mode in ('writethrough',)
        for vcpus, ram in SHAPES
    ]
    return plan


def as_the_papers_say(cell):
    servers = cell.scenario != 'bare'
    threads = cell.threads
    if cell.engine == 'async':
        cfq = cell.host_scheduler == 'bfq'
        if cell.operation == 'write':
            return 90 if servers and cfq else 115
        if not servers:
            return 110 if cfq else {1: 100, 4: 34, 16: 18}[threads]
        if cell.scenario == 'servers':
            return 10 if cfq else {2: 17, 4: 30, 16: 40}[threads]
        if cfq:
            return {1: 85, 4: 45, 16: 42}[threads]
        if cell.vcpus == 4:
            return 110
        if cell.vcpus == 8:
            return 104
        few, many = (100, 60) if cell.vcpus == 16 else (100, 41)
        return few if threads == 1 else many
    rate = 70 * threads**0.1
    if cell.engine == 'sync_direct':
        rate *= 0.45 if servers else 1
        return rate * (0.6 if cell.cache_mode == 'writethrough' else 1)
    if cell.operation == 'write' and cell.scenario == 'server':
        rate *= 0.5 * cell.ram_mib**0.05
    return rate * (0.85 if cell.vcpus == 16 else 1)


def unfair(one):
    """Return rates of which the Jain index is 0.87 on bare metal by CFQ."""
    threads = one.cell.threads
    if one.cell.scenario == 'bare' and one.cell.host_scheduler == 'bfq':
        if threads > 1 and one.cell.engine == 'async':
            return (1.0 + 0.386,) * (threads // 2) + (1.0 - 0.386,) * (
                threads // 2
            )
    return one.rates


def as_nothing_matters(cell):
    return 80


def upside_down(cell):
    """Return a throughput for which claims of sameness are wrong, too."""
    rate = 50 * cell.ram_mib**0.5 if cell.ram_mib else 100
    if cell.scenario != 'bare':
        rate *= 0.01
    return (
        rate * cell.threads**-0.5 * (3 if cell.host_scheduler == 'none' else 1)
    )


def judged(throughput, rates=None, plan=None):
    run = example.run(plan or grid(), throughput, noise=0.002)
    found = run.results
    if rates:
        found = [
            cells.Result(**{**vars(one), 'rates': rates(one)}) for one in found
        ]
    return {
        (one.paper, one.sentence): judging.judge(one, found)
        for one in judging.CLAIMS
    }


class ClaimsTest(testtools.TestCase):
    """Each claim is judged right, whichever way it is."""

    def test_reproduced(self):
        for (_, sentence), one in judged(as_the_papers_say, unfair).items():
            self.assertEqual(
                rules.REPRODUCED, one.verdict, (sentence, one.checks)
            )

    def test_refuted(self):
        found = judged(as_nothing_matters)
        self.assertEqual(
            OF_SAMENESS,
            {
                sentence
                for (_, sentence), one in found.items()
                if one.verdict == rules.REPRODUCED
            },
        )
        for (_, sentence), one in found.items():
            if sentence not in OF_SAMENESS:
                self.assertEqual(rules.REFUTED, one.verdict, sentence)

    def test_sameness_refuted(self):
        def rates(one):
            return (*(one.cell.threads - 1) * (1.0,), 99.0)

        found = judged(upside_down, rates)
        for (_, sentence), one in found.items():
            if sentence in OF_SAMENESS:
                self.assertEqual(
                    rules.REFUTED, one.verdict, (sentence, one.checks)
                )

    def test_not_measured(self):
        for (_, sentence), one in judged(
            as_the_papers_say, plan=[example.cell(jobs=3)]
        ).items():
            if sentence == 'All scenarios are fair.':
                continue
            self.assertEqual(rules.NOT_MEASURED, one.verdict, sentence)
            self.assertEqual('cells are missing', one.why)

    def test_claims_differ(self):
        for field in ('name', 'sentence'):
            self.assertEqual(
                len(judging.CLAIMS),
                len(
                    {
                        (one.paper, getattr(one, field))
                        for one in judging.CLAIMS
                    }
                ),
            )
        self.assertEqual({'P0', 'P3'}, {one.paper for one in judging.CLAIMS})


class JudgeTest(testtools.TestCase):
    def claim(self, *rules_, paper='P0'):
        return claims.Claim(paper, '', '', '', '', '', rules.all_of(*rules_))

    @staticmethod
    def reads(low, jobs=1, problem='', **fields):
        """Return results of a server that reads at a share of bare metal."""
        return [
            example.result(of, number, rate * (1 + 0.001 * number), problem)
            for of, rate in (
                (example.bare(jobs=jobs, **fields), 100),
                (example.cell(jobs=jobs, **fields), 100 * low),
            )
            for number in range(3)
        ]

    less = staticmethod(rules.to_bare_metal('', rules.LESS, jobs=1))
    less_with_4 = staticmethod(rules.to_bare_metal('', rules.LESS, jobs=4))

    def verdict(self, found, *rules_):
        return judging.judge(self.claim(*rules_), found).verdict

    def test_one_refuted_check_refutes(self):
        both = (self.less, self.less_with_4)
        good, bad = self.reads(0.5), self.reads(1.5, jobs=4)
        self.assertEqual(rules.REPRODUCED, self.verdict(good, self.less))
        self.assertEqual(rules.REFUTED, self.verdict(good + bad, *both))
        self.assertEqual(rules.REFUTED, self.verdict(bad, *both))
        self.assertEqual(rules.NOT_MEASURED, self.verdict(good, *both))

    def test_intervals_of_checks_hold_together(self):
        one, *_ = judging.judge(self.claim(self.less), self.reads(0.5)).checks
        wide, *_ = judging.judge(
            self.claim(self.less, self.less), self.reads(0.5)
        ).checks
        self.assertLess(wide.low, one.low)

    def test_problems(self):
        found = judging.judge(
            self.claim(self.less), self.reads(0.5, problem='bound by the CPU')
        )
        self.assertEqual(rules.NOT_MEASURED, found.verdict)
        self.assertEqual('cells have a problem', found.why)

    def test_cells_that_failed(self):
        failed = [
            dataclasses.replace(one, mbps=0.0, rates=(), problem='late')
            for one in self.reads(0.5)
        ]
        found = judging.judge(self.claim(self.less), failed)
        self.assertEqual(rules.NOT_MEASURED, found.verdict)
        self.assertEqual('cells have a problem', found.why)

    def test_no_check_at_all(self):
        self.assertEqual(rules.NOT_MEASURED, self.verdict([]))

    def test_depth_of_the_paper(self):
        deep = self.reads(0.5, depth=256)
        flat = self.reads(1.5, depth=32)
        for paper, expected in (
            ('P0', rules.REPRODUCED),
            ('P3', rules.REFUTED),
        ):
            claim = self.claim(self.less, paper=paper)
            self.assertEqual(
                expected, judging.judge(claim, deep + flat).verdict
            )
            self.assertEqual(
                rules.REPRODUCED, judging.judge(claim, deep).verdict
            )


class ResultsTest(testtools.TestCase):
    def test_the_example_can_be_read(self):
        """The made-up results are such as a run writes."""
        path = self.useFixture(fixtures.TempDir()).join('results')
        run = example.run([example.cell(), example.bare()])
        with results.Writer.create(path, run.header) as writer:
            for one in run.results:
                writer.append(one)
        self.assertEqual(run, results.read(path))
