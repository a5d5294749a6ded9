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

import argparse
import contextlib
import io
import json
import pathlib
from unittest import mock

import fixtures
import testtools

import _fidelity
import _results
import sweep
from diskplacer_measure.papers import judging
from diskplacer_measure.report import contents
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import results
from nova_diskplacer.cmd import manage
from tests.unit.diskplacer_measure.sweep import example


def made(run):
    return contents.data(contents.make(run))


def spoiled(cell):
    return cell.scenario == 'server' and cell.vcpus == 1


class FiguresTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = made(example.run(spoiled=spoiled))
        cls.figures = sweep.figures(cls.report)

    def test_reproduced(self):
        self.assertEqual(1, self.figures['p0_direct_reads'])
        self.assertAlmostEqual(0.5, self.figures['p0_direct_reads_1'], 1)
        self.assertTrue(
            self.figures['p0_direct_reads_1_low']
            < self.figures['p0_direct_reads_1']
            < self.figures['p0_direct_reads_1_high']
        )
        # two shapes that count, three numbers of threads
        self.assertEqual(6, self.figures['p0_direct_reads_1_cells'])
        self.assertEqual(5, self.figures['p0_direct_reads_1_repetitions'])

    def test_refuted(self):
        found = sweep.figures(made(example.run(throughput=lambda cell: 50)))
        self.assertEqual(0, found['p0_direct_reads'])
        self.assertAlmostEqual(1, found['p0_direct_reads_1'], 1)

    def test_not_told_apart(self):
        found = sweep.figures(made(example.run(noise=2)))
        self.assertIsNone(found['p0_direct_reads'])
        self.assertIsNotNone(found['p0_direct_reads_1'])

    def test_not_measured(self):
        header = example.header(example.grid())
        found = sweep.figures(made(results.Run(header, ())))
        self.assertIsNone(found['p0_direct_reads'])
        self.assertIsNone(found['p0_direct_reads_1'])
        self.assertEqual(0, found['p0_direct_reads_1_cells'])
        self.assertEqual(len(example.grid()) * 5, found['missing'])

    def test_problems(self):
        number = 5 * sum(map(spoiled, example.grid()))
        self.assertEqual(number, self.figures['problems'])
        self.assertEqual(number, self.figures['bound_by_the_cpu'])
        self.assertEqual(0, self.figures['missing'])

    def test_rows(self):
        rows = sweep.rows(self.report)
        checks = sum(len(claim['checks']) for claim in self.report['claims'])
        self.assertEqual(checks, len(rows))
        name, text, figure, *verdicts = rows[0]
        self.assertEqual(
            ('P0 direct_reads', 'one server to bare metal'), (name, text)
        )
        self.assertRegex(figure, r'^0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)$')
        self.assertEqual(['reproduced'] * 2, verdicts)


class FidelityTest(testtools.TestCase):
    """The rows of the papers that name figures of sweeps."""

    def test_figures_exist_whatever_was_measured(self):
        nothing = results.Run(example.header(example.grid()), ())
        found = sweep.figures(made(nothing))
        for claim in self.claims():
            for ours in claim.ours:
                for name in _results.figures_of(ours.name):
                    self.assertIn(name, found)

    def test_every_check_is_in_a_row(self):
        claims = {
            f'{one.paper.lower()}_{one.name}': one for one in judging.CLAIMS
        }
        for name in (
            # they need more processors, or another cache mode
            'p0_four_vcpus',
            'p3_cache_mode',
            'p3_four_or_eight_vcpus',
            'p3_sixteen_vcpus',
        ):
            del claims[name]
        judged = {
            f'{name}_{number}'
            for name, one in claims.items()
            for number, _ in enumerate(one.rule({}), 1)
        }
        # it needs more processors
        judged.remove('p3_one_or_two_vcpus_1')
        ruled = {
            rule.figure for one in self.claims() for rule in one.reproduced_if
        }
        self.assertEqual(set(), judged - ruled)

    @staticmethod
    def claims():
        return [
            claim
            for paper in _fidelity.read().values()
            for claim in paper.claims
            if (claim.result or '').startswith('sweep-')
        ]


class OptionsTest(testtools.TestCase):
    def parsed(self, *option, quick=False):
        """Return what ``sweep run`` understands."""
        args = argparse.Namespace(
            quick=quick, disk='throttled', option=list(option)
        )
        words = ['sweep', 'run', 'UUID', '--results=x', *sweep.options(args)]
        return manage.make_parser(words).parse_args(words)

    def test_of_sweep_run(self):
        found = self.parsed()
        self.assertEqual([1, 4, 16], found.jobs)
        self.assertEqual((64, 64), (found.mib, found.kib))
        self.assertEqual(cells.Shape(2, 1024), found.shape[-1])

    def test_of_the_command_line(self):
        found = self.parsed('--kib=128', '--jobs', '2')
        self.assertEqual(([1, 4, 16, 2], 128), (found.jobs, found.kib))

    def test_quick(self):
        found = self.parsed(quick=True)
        self.assertTrue(found.quick)
        self.assertEqual([cells.Shape(1, 384)], found.shape)
        self.assertIsNone(found.jobs)


class MainTest(testtools.TestCase):
    """Nothing starts a cloud here, and nothing calls a command."""

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(directory, 'results')
        self.json = pathlib.Path(directory, 'json')
        self.run = example.run([example.bare(), example.cell()])
        self.measure = self.patch_function('measure', 0)
        self.report = self.patch_function('report', made(self.run))

    def patch_function(self, name, returned):
        return self.useFixture(
            fixtures.MockPatchObject(sweep, name, return_value=returned)
        ).mock

    def main(self):
        argv = ['sweep', f'--results={self.path}', f'--json={self.json}']
        with (
            mock.patch('sys.argv', argv),
            mock.patch('signal.signal'),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            return sweep.main()

    def write(self, count):
        with results.Writer.create(str(self.path), self.run.header) as writer:
            for one in self.run.results[:count]:
                writer.append(one)

    def test_new(self):
        self.assertEqual(0, self.main())
        (_, uuid), _ = self.measure.call_args
        self.assertEqual('', uuid)
        written = json.loads(self.json.read_text())
        self.assertEqual('sweep', written['benchmark'])
        self.assertEqual([], written['goals'])
        self.assertIn('p0_direct_reads', written['figures'])

    def test_continued(self):
        self.write(3)
        self.assertEqual(0, self.main())
        (_, uuid), _ = self.measure.call_args
        self.assertEqual(self.run.header.disk.uuid, uuid)

    def test_complete(self):
        self.write(None)
        self.assertEqual(0, self.main())
        self.assertFalse(self.measure.called)
        self.assertTrue(self.report.called)

    def test_cells_with_problems(self):
        self.measure.return_value = 3
        self.assertEqual(0, self.main())
        self.assertTrue(self.json.exists())

    def test_failed(self):
        self.measure.return_value = 130
        self.assertEqual(130, self.main())
        self.assertFalse(self.report.called)
        self.assertFalse(self.json.exists())


class AttachTest(testtools.TestCase):
    """The disk of the run that is continued has the same UUID."""

    def setUp(self):
        super().setUp()
        self.calls = mock.Mock()
        for module, name, called in (
            (sweep.seeking, 'attach', self.calls.seeking),
            (sweep.capped, 'attach', self.calls.capped),
            (sweep.block, 'make_filesystem', self.calls.make_filesystem),
        ):
            called.return_value = '/dev/loop7'
            self.useFixture(fixtures.MockPatchObject(module, name, called))

    def test_new(self):
        self.assertEqual(
            '/dev/loop7', sweep.attach('seeking', '', 'state', 'host', 'raw')
        )
        self.assertEqual(
            [mock.call.seeking('state', 'raw')], self.calls.mock_calls
        )

    def test_continued(self):
        sweep.attach('throttled', 'a-uuid', 'state', 'host', 'raw')
        self.assertEqual(
            [
                mock.call.capped('state', 'host', 'raw'),
                mock.call.make_filesystem('/dev/loop7', 'a-uuid'),
            ],
            self.calls.mock_calls,
        )
