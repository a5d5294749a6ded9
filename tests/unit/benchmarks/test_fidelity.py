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

import datetime
import math
import os
import pathlib
import shlex
import subprocess
import sys

import fixtures
import testscenarios
import testtools

import _fidelity
import _results
from diskplacer_measure.papers import judging
from nova_diskplacer.cmd import manage
from tests.unit.benchmarks.test_results import result
from tools import verdicts

TOP = pathlib.Path(__file__).parents[3]

# Ends a script when it has read its arguments, before it does anything.
READ_ARGUMENTS = """
import argparse, runpy, sys
parse = argparse.ArgumentParser.parse_args
def parse_args(*args, **kwargs):
    parse(*args, **kwargs)
    sys.exit(0)
argparse.ArgumentParser.parse_args = parse_args
del sys.argv[0]
sys.path.insert(0, 'benchmarks')
runpy.run_path(sys.argv[0], run_name='__main__')
sys.exit(3)
"""


class VerdictTest(testscenarios.WithScenarios, testtools.TestCase):
    scenarios = [
        ('all hold', {'figures': {'a': 1.0, 'b': 4.0}, 'is_': 'reproduced'}),
        ('at limits', {'figures': {'a': 2.0, 'b': 6.0}, 'is_': 'reproduced'}),
        ('one fails', {'figures': {'a': 2.1, 'b': 8.0}, 'is_': 'refuted'}),
        ('quotient', {'figures': {'a': 2.0, 'b': 5.9}, 'is_': 'refuted'}),
        ('one is none', {'figures': {'a': 1.0}, 'is_': 'not measured'}),
        (
            'one is none, another fails',
            {'figures': {'a': 3.0}, 'is_': 'refuted'},
        ),
        (
            'all of the interval',
            {
                'figures': {'a': 1.0, 'a_min': 0.5, 'a_max': 2.0, 'b': 4.0},
                'is_': 'reproduced',
            },
        ),
        (
            'limit in the interval',
            {
                'figures': {'a': 1.0, 'a_min': 0.5, 'a_max': 2.1, 'b': 4.0},
                'is_': 'not told apart',
            },
        ),
        (
            'limit in the interval, figure beyond',
            {
                'figures': {'a': 2.1, 'a_low': 1.9, 'a_high': 2.2, 'b': 7.0},
                'is_': 'not told apart',
            },
        ),
        (
            'interval beyond',
            {
                'figures': {'a': 2.2, 'a_low': 2.1, 'a_high': 2.3, 'b': 9.0},
                'is_': 'refuted',
            },
        ),
        (
            'divisor may be 0',
            {
                'figures': {'a': 1.0, 'a_low': -0.5, 'a_high': 2.0}
                | {'b': 4.0, 'b_low': 3.5, 'b_high': 4.5},
                'is_': 'not told apart',
            },
        ),
        (
            'dividend is negative',
            {
                'figures': {'a': 1.0, 'a_low': 0.5, 'a_high': 2.0}
                | {'b': -4.0, 'b_low': -5.0, 'b_high': -3.0},
                'is_': 'refuted',
            },
        ),
        (
            'dividend may be negative',
            {
                'figures': {'a': 1.0, 'a_low': 0.5, 'a_high': 2.0}
                | {'b': 1.0, 'b_low': -5.0, 'b_high': 3.0},
                'is_': 'not told apart',
            },
        ),
    ]

    def test_of_a_claim(self):
        papers = tables(
            self,
            'claims:\n'
            '- {place: §1, claim: A., theirs: 1 s, result: one,\n'
            '   ours: {A: a s, B by A: b / a},\n'
            "   reproduced_if: [a <= 2, 'b / a >= 3']}\n",
        )
        (claim,) = papers['P0'].claims
        one = result(**self.figures)
        self.assertEqual(self.is_, claim.verdict({'one': one}))
        row = {'reproduced_if': ['a <= 2', 'b / a >= 3']}
        self.assertEqual(self.is_, verdicts.verdict(row, one.figures))
        self.assertEqual('not measured', claim.verdict({}))
        self.assertEqual('not measured', claim.verdict({'two': result()}))


class RangeTest(testtools.TestCase):
    def test_two_limits(self):
        papers = tables(
            self,
            'claims:\n'
            '- {place: §1, claim: A., theirs: 1 s, result: one,\n'
            "   ours: {A: a}, reproduced_if: ['a >= 0.9', 'a <= 1.1']}\n",
        )
        (claim,) = papers['P0'].claims
        for low, high, verdict in (
            (0.9, 1.1, 'reproduced'),
            (0.8, 1.2, 'not told apart'),
            (0.8, 1.0, 'not told apart'),
            (0.7, 0.8, 'refuted'),
            (1.2, 1.3, 'refuted'),
        ):
            of = result(a=(low + high) / 2, a_low=low, a_high=high)
            self.assertEqual(verdict, claim.verdict({'one': of}))


def tables(test, text):
    """Return what is read of a table of P0, the others being empty.

    :param text: begins with ``claims:``, and has no items unless it says so.
    """
    directory = pathlib.Path(test.useFixture(fixtures.TempDir()).path)
    for paper in ('P1', 'P2', 'P3', 'P4'):
        (directory / f'{paper}.yaml').write_text('{claims: [], items: []}')
    if 'items:' not in text:
        text += 'items: []\n'
    (directory / 'P0.yaml').write_text(text)
    return _fidelity.read(directory)


class ReadTest(testtools.TestCase):
    def test_verdict_without_a_rule(self):
        paper = tables(
            self,
            'claims:\n'
            '- {place: §1, claim: A., theirs: 1 s, not_measured: Later.}\n'
            '- {place: §1, claim: B., theirs: 1 s, not_measurable: Never.}\n',
        )['P0']
        self.assertEqual(
            ['not measured', 'not measurable here'],
            [claim.verdict({}) for claim in paper.claims],
        )

    def test_states_of_items(self):
        paper = tables(
            self,
            'claims: []\n'
            'items:\n'
            '- {place: §1, item: A., where: [a.py]}\n'
            '- {place: §1, item: B., where: [b.py], partly: Half.}\n'
            '- {place: §1, item: C., missing: Not wanted.}\n',
        )['P0']
        self.assertEqual(
            ['implemented', 'partly', 'not implemented'],
            [item.state for item in paper.items],
        )

    def test_invalid(self):
        measured = 'place: §1, claim: A., theirs: 1 s, result: r'
        for text, problem in (
            ('claims: [{place: §1, claim: A., theirs: 1 s}]', 'claims.0'),
            ('claims: [{claim: A., theirs: 1 s, not_measured: B.}]', 'place'),
            (
                "claims: [{place: '', claim: A., theirs: B, "
                'not_measured: C.}]',
                'claims.0',
            ),
            (f'claims: [{{{measured}}}]', 'ours'),
            (
                f"claims: [{{{measured}, ours: {{A: '3.5 s'}},"
                " reproduced_if: ['a <= 1']}]",
                '3.5',
            ),
            (
                f'claims: [{{{measured}, ours: {{A: 3.5}},'
                " reproduced_if: ['a <= 1']}]",
                '3.5',
            ),
            (
                f'claims: [{{{measured}, ours: {{A: a}},'
                " reproduced_if: ['b <= 1']}]",
                'reproduced_if names b, which ours has not',
            ),
            (
                f'claims: [{{{measured}, ours: {{A: a}},'
                " reproduced_if: ['a < 1']}]",
                'a < 1: must be NAME',
            ),
            (
                f'claims: [{{{measured}, ours: {{A: a}},'
                " reproduced_if: ['a == 1']}]",
                'a == 1: must be NAME',
            ),
            ('claims: []\nitems: [{place: §1, item: A.}]', 'items.0'),
            (
                'claims: []\nitems: [{place: §1, item: A., partly: B.}]',
                'items.0',
            ),
        ):
            error = self.assertRaises(ValueError, tables, self, f'{text}\n')
            self.assertIn('P0.yaml: ', str(error))
            self.assertIn(problem, str(error))


class TableTest(testtools.TestCase):
    """The tables and the results that the project has."""

    def setUp(self):
        super().setUp()
        self.papers = _fidelity.read()
        self.results = _results.read()
        self.claims = [
            claim for paper in self.papers.values() for claim in paper.claims
        ]
        self.items = [
            item for paper in self.papers.values() for item in paper.items
        ]

    def test_every_paper_has_rows(self):
        self.assertEqual(['P0', 'P1', 'P2', 'P3', 'P4'], list(self.papers))
        for paper in self.papers.values():
            self.assertTrue(paper.claims and paper.items)
        self.assertTrue(len(self.claims) + len(self.items) >= 99)

    def test_files_exist(self):
        for item in self.items:
            for path in item.where:
                self.assertTrue((TOP / path).is_file(), path)

    def test_results_have_the_figures(self):
        others = [one for claim in self.claims if (one := claim.other())]
        for claim in self.claims + others:
            if claim.result in self.results:
                figures = self.results[claim.result].figures
                named = {
                    name
                    for ours in claim.ours
                    for name in _results.figures_of(ours.name)
                }
                self.assertEqual(
                    set(), named - set(figures), f'{claim.result}.json'
                )

    def test_results_are_of_benchmarks(self):
        for name, one in self.results.items():
            self.assertEqual(one.benchmark, name.partition('-')[0])
            script, *_ = one.command.split()
            if script == 'tools/bench.sh':
                script = f'benchmarks/{one.benchmark}.py'
            self.assertTrue((TOP / script).is_file(), script)
            self.assertTrue(one.date <= datetime.date.today())

    def test_verdicts_are_those_of_other_code(self):
        self.assertEqual(
            {
                name: [claim.verdict(self.results) for claim in paper.claims]
                for name, paper in self.papers.items()
            },
            verdicts.verdicts(),
        )

    def test_claims_allow_what_a_sweep_allows(self):
        allowed = {
            f'{claim.paper.lower()}_{claim.name}_{number}': comparison.allowed
            for claim in judging.CLAIMS
            for number, comparison in enumerate(claim.rule({}), 1)
        }
        compared = set()
        for claim in self.claims:
            if not (claim.result or '').startswith('sweep-'):
                continue
            for ours in claim.ours:
                if ours.name not in allowed:
                    continue
                limits = {
                    goal.op: goal.value
                    for goal in claim.reproduced_if
                    if goal.figure == ours.name
                }
                low, high = limits.get('>=', 0), limits.get('<=', math.inf)
                least, most = allowed[ours.name]
                # a direction, and later what the paper has of its size
                if ours.name in compared:
                    self.assertTrue(least <= low <= high <= most, ours.name)
                else:
                    self.assertEqual((least, most), (low, high), ours.name)
                compared.add(ours.name)
        self.assertTrue(len(compared) > 30)

    def test_what_changes_little_has_two_limits(self):
        alike = 0
        for claim in self.claims:
            words = f'{claim.claim} {claim.theirs}'.lower()
            if not claim.reproduced_if or not any(
                phrase in words
                for phrase in ('little', 'not change', 'similar', 'identical')
            ):
                continue
            found = {goal.figure: set() for goal in claim.reproduced_if}
            for goal in claim.reproduced_if:
                found[goal.figure].add((goal.op, goal.value))
            for limits in found.values():
                self.assertEqual({('>=', 0.9), ('<=', 1.1)}, limits, words)
            alike += 1
        self.assertTrue(alike >= 4)

    def test_sizes_have_directions(self):
        """What is beyond a paper's figure has to be so in direction, too."""
        first = {}
        for name, paper in self.papers.items():
            for claim in paper.claims:
                for goal in claim.reproduced_if:
                    if goal.figure.startswith(('less_time_', 'async_read')):
                        key = name, goal.figure
                        first.setdefault(key, abs(goal.value))
        self.assertEqual({0.01, 0.9, 0.99}, set(first.values()))

    def test_commands_are_accepted(self):
        rows = [*self.claims, *self.items]
        commands = {row.command for row in rows if row.command}
        self.assertTrue(commands)
        for command in sorted(commands):
            self.assertAccepted(command)

    def assertAccepted(self, command):
        program, *words = shlex.split(command)
        if program == 'diskplacer-manage':
            args = manage.make_parser(words).parse_args(words)
            self.assertTrue(callable(args.handler))
            return
        self.assertEqual('tools/bench.sh', program, command)
        script = f'benchmarks/{words.pop(0)}.py'
        self.assertTrue((TOP / script).is_file(), command)
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', READ_ARGUMENTS]
            + [script, *words],
            cwd=TOP,
            env={**os.environ, 'PYTHONPATH': str(TOP)},
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, done.returncode, f'{command}: {done.stderr}')

    def test_unknown_options_are_not_accepted(self):
        for command in (
            'tools/bench.sh contention --disk-of-dreams',
            'tools/bench.sh contention --controller cfq',
            'tools/bench.sh dreams',
            'dream',
        ):
            self.assertRaises(AssertionError, self.assertAccepted, command)
        stderr = fixtures.StringStream('stderr')
        self.useFixture(stderr)
        with fixtures.MonkeyPatch('sys.stderr', stderr.stream):
            self.assertRaises(
                SystemExit, self.assertAccepted, 'diskplacer-manage dream'
            )
