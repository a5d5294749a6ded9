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
import os

import fixtures
import testtools
from oslo_config import cfg

from diskplacer_measure.cmd import sweep_report
from diskplacer_measure.papers import judging
from diskplacer_measure.sweep import results
from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.profiles import catalogue
from tests.unit.diskplacer_measure.sweep import example
from tests.unit.nova_diskplacer.cmd import fake_nova


def slim_is_best(cell):
    """Return MB/s: one vCPU is best, and several servers if they are slim."""
    rate = 100 - 10 * cell.vcpus
    return rate * 2 if cell.scenario == 'servers' and cell.vcpus == 1 else rate


PLAN = [
    example.cell(vcpus=vcpus, ram_mib=ram, jobs=4, operation=operation)
    for vcpus, ram in example.SHAPES
    for operation in ('read', 'write')
] + [
    example.cell(
        scenario='servers',
        servers=4,
        vcpus=vcpus,
        ram_mib=ram,
        operation=operation,
    )
    for vcpus, ram in example.SHAPES[:2]
    for operation in ('read', 'write')
]


class TestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.profiles = os.path.join(self.dir, 'profiles.d')
        os.mkdir(self.profiles)
        self.conf = cfg.ConfigOpts()
        conf.register_opts(self.conf)
        self.conf([], default_config_files=[])
        self.conf.set_override('profile_dirs', [], group='diskplacer')
        self.parser = argparse.ArgumentParser()
        sweep_report.register(self.parser.add_subparsers())
        self.results = self.write(example.run(PLAN, slim_is_best, noise=0.01))

    def write(self, run, name='results'):
        path = os.path.join(self.dir, name)
        with results.Writer.create(path, run.header) as writer:
            for one in run.results:
                writer.append(one)
        return path

    def run_(self, *arguments):
        """Return what a command prints."""
        args = self.parser.parse_args(arguments)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(0, args.handler(self.conf, args))
        return out.getvalue()

    def error(self, *arguments):
        args = self.parser.parse_args(arguments)
        with contextlib.redirect_stdout(io.StringIO()):
            return str(
                self.assertRaises(
                    exception.DiskPlacerError, args.handler, self.conf, args
                )
            )


class ReportTest(TestCase):
    def test_html(self):
        page = self.run_('report', self.results)
        self.assertTrue(page.startswith('<!DOCTYPE html>'))
        self.assertTrue(page.endswith('</html>\n'))

    def test_file(self):
        path = os.path.join(self.dir, 'report.html')
        self.assertEqual(
            '', self.run_('report', self.results, '--output', path)
        )
        with open(path, encoding='utf-8') as stream:
            self.assertIn('I/O of servers on compute-1', stream.read())

    def test_json(self):
        found = json.loads(
            self.run_('report', self.results, '--format', 'json')
        )
        self.assertEqual(len(judging.CLAIMS), len(found['claims']))

    def test_errors(self):
        absent = os.path.join(self.dir, 'absent')
        self.assertIn(f'{absent}: No such file', self.error('report', absent))
        path = os.path.join(absent, 'report.html')
        self.assertIn(
            f'{path}: No such file',
            self.error('report', self.results, '--output', path),
        )
        with open(self.results, 'a') as stream:
            stream.write('{}\n')
        self.assertIn('line 52', self.error('report', self.results))


class ChooseTest(TestCase):
    def test_table(self):
        out = self.run_('choose', self.results)
        for text in (
            'sequential_async, a server alone: 2 loads',
            'The best: one server, 1 vCPU, 1 GiB.',
            'sequential_async, the whole host: 2 loads',
            'The best: several servers, 1 vCPU, 1 GiB.',
            'mapreduce, the whole host: 0 loads',
            'Not measured: no two candidates have a load in common.',
            'Model of the logarithm of MB/s: R² ',
            'Profile sequential_async, with --profile-dir:',
            '  shape.vcpus.recommended: 4, 4 -> 1, 1',
        ):
            self.assertIn(text, out)
        self.assertNotIn('without KVM', out)
        self.assertEqual([], os.listdir(self.profiles))
        for line in out.splitlines():
            self.assertGreaterEqual(100, len(line))

    def test_one_workload(self):
        out = self.run_(
            'choose', self.results, '--workload', 'sequential_sync'
        )
        self.assertNotIn('sequential_async', out)
        self.assertIn('No profile changes by what is best for the whole', out)

    def test_emulated(self):
        path = self.write(
            example.run(PLAN, slim_is_best, emulated=True), 'emulated'
        )
        self.assertIn('without KVM', self.run_('choose', path))

    def test_json(self):
        found = json.loads(
            self.run_('choose', self.results, '--format', 'json')
        )
        self.assertFalse(found['emulated'])
        choice = next(
            one
            for one in found['choices']
            if one['workload'] == 'sequential_async'
            and one['objective'] == 'host'
        )
        self.assertTrue(choice['claims_optimum'])
        self.assertEqual(5, len(choice['candidates']))
        self.assertEqual(3, choice['model']['shapes'])
        (first, *_) = found['profiles']['sequential_async']
        self.assertEqual('shape.vcpus.recommended', first['path'])

    def test_profile(self):
        out = self.run_('choose', self.results, '--profile-dir', self.profiles)
        self.assertIn('Profile sequential_async is written:', out)
        self.assertEqual(['sequential_async.yaml'], os.listdir(self.profiles))
        profile = catalogue.load([self.profiles])['sequential_async']
        self.assertEqual((1, 1), profile.shape.vcpus.recommended)
        self.assertIn(
            'results 6f1c0f0e-6a55-4c6e-9c57-2f2f60a9c001',
            profile.sources['shape.vcpus.recommended'],
        )
        # again, what is written is the profile
        out = self.run_('choose', self.results, '--profile-dir', self.profiles)
        self.assertIn('No profile changes', out)

    def test_profile_that_is_not_there_yet(self):
        path = os.path.join(self.profiles, 'absent')
        self.assertIn(
            f'{path}/sequential_async.yaml: No such file',
            self.error('choose', self.results, '--profile-dir', path),
        )


class ApplyTest(TestCase):
    def setUp(self):
        super().setUp()
        self.flavor = fake_nova.Flavor('slim', 1, 1024, {})
        self.useFixture(fake_nova.FakeNova(self.flavor))

    def apply(self, *arguments):
        return (
            'choose',
            self.results,
            '--workload=sequential_async',
            f'--profile-dir={self.profiles}',
            '--apply',
            'slim',
            *arguments,
        )

    def test_shown_and_applied(self):
        out = self.run_(*self.apply())
        self.assertIn('+diskplacer:profile=sequential_async', out)
        self.assertIn('Nothing is changed without --yes.', out)
        # the profile of the results no longer advises against 1 vCPU
        self.assertNotIn('advised', out)
        self.assertEqual([], self.flavor.calls)
        out = self.run_(*self.apply('--yes'))
        self.assertIn('Flavor slim has profile sequential_async now.', out)
        self.assertEqual(
            'sequential_async', self.flavor.specs['diskplacer:profile']
        )

    def test_options_that_it_needs(self):
        for option in ('--workload=sequential_async', '--profile-dir=x'):
            self.assertIn(
                '--apply needs --workload',
                self.error('choose', self.results, option, '--apply', 'slim'),
            )
        self.assertIn(
            'must be without it', self.error(*self.apply('--format=json'))
        )

    def test_no_optimum(self):
        self.results = self.write(
            example.run(PLAN, lambda cell: 100), 'nothing'
        )
        self.assertIn(
            'nothing tells no optimum of sequential_async for the whole host',
            self.error(*self.apply('--yes')),
        )
        self.assertEqual([], self.flavor.calls)
        self.assertEqual([], os.listdir(self.profiles))

    def test_unknown_flavor_leaves_no_profile(self):
        self.assertIn(
            'no flavor other', self.error(*self.apply('other', '--yes'))
        )
        self.assertEqual([], os.listdir(self.profiles))
