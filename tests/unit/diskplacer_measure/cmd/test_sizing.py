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
import collections
import contextlib
import io
import json
import signal
import sys
from unittest import mock

import ddt
import fixtures
import testtools

from diskplacer_measure.cmd import sizing
from diskplacer_measure.cmd import sizing_view
from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import pinning
from diskplacer_measure.sizing import runs
from diskplacer_measure.sizing import samples
from diskplacer_measure.sizing.key_value import latencies
from diskplacer_measure.sizing.key_value import load
from diskplacer_measure.sizing.key_value import postgresql
from nova_diskplacer import exception
from nova_diskplacer.host import cpus
from nova_diskplacer.host import files
from nova_diskplacer.host import libvirt_servers
from tests import configured
from tests.unit.diskplacer_measure.sizing import test_analysis
from tests.unit.diskplacer_measure.sizing import test_counters
from tests.unit.nova_diskplacer.agent import guests

HOST = cpus.HostCpus(frozenset(range(4)), {0: frozenset(range(4))})
UUID = guests.UUID


class SizingTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.path = self.useFixture(fixtures.TempDir()).join('runs.jsonl')
        self.addCleanup(files.set_lock_directory, files._lock_directory)
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        self.errors = io.StringIO()

    def patch(self, where, name, *arguments, **how):
        patch = mock.patch.object(where, name, *arguments, **how)
        self.addCleanup(patch.stop)
        return patch.start()

    def parse(self, *arguments):
        parser = argparse.ArgumentParser()
        sizing.register(parser.add_subparsers())
        with contextlib.redirect_stderr(self.errors):
            return parser.parse_args(['sizing', *arguments])

    def run_command(self, *arguments):
        """Return the exit status and the output."""
        args, output = self.parse(*arguments), io.StringIO()
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(self.errors),
        ):
            status = args.handler(self.conf, args)
        return status, output.getvalue()

    def assert_error(self, text, *arguments):
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_command, *arguments
        )
        self.assertIn(text, str(error))

    def assert_usage(self, text, *arguments):
        self.assertRaises(SystemExit, self.parse, *arguments)
        self.assertIn(text, self.errors.getvalue())


@ddt.ddt
class LoadTest(SizingTestCase):
    def setUp(self):
        super().setUp()
        self.store = mock.Mock()
        self.store.describe.return_value = postgresql.Description(
            'PostgreSQL 15.1', {'synchronous_commit': 'on'}, 50, 3 << 30
        )
        self.connect = self.patch(
            postgresql, 'connect', return_value=self.store
        )
        self.url = 'postgresql://h/d'

    def test_prepare(self):
        status, output = self.run_command('load', self.url, '--prepare', '70')
        self.assertEqual((0, ''), (status, output))
        self.store.fill.assert_called_once_with(70, mock.ANY)
        self.store.close.assert_called_once_with()

    def test_remove(self):
        self.assertEqual(
            (0, ''), self.run_command('load', self.url, '--remove')
        )
        self.store.remove.assert_called_once_with()
        self.store.fill.assert_not_called()

    def test_run(self):
        arguments = ('--workload', 'a', '--operations', '40', '--seed', '3')
        status, output = self.run_command('load', self.url, *arguments)
        self.assertEqual(0, status)
        self.assertEqual(
            40, self.store.read.call_count + self.store.update.call_count
        )
        self.assertIn('PostgreSQL 15.1, 50 records, 3.00 GiB', output)
        self.assertIn('running time ', output)
        self.assertIn('| read ', output)
        self.assertIn('99.9 %', output)

    def test_json(self):
        arguments = ('--workload', 'c', '--operations', '40', '--clients', '2')
        status, output = self.run_command(
            'load', self.url, *arguments, '--format', 'json'
        )
        found = json.loads(output)
        # what sizing collect and analyse read
        done = runs.parse(output, 99)
        self.assertEqual(found['seconds'], done.seconds)
        self.assertEqual(
            ('c', 40, 2, 50, 3 << 30, {'synchronous_commit': 'on'}),
            (
                found['workload'],
                found['operations'],
                found['clients'],
                found['records'],
                found['data_bytes'],
                found['settings'],
            ),
        )
        self.assertEqual(40, found['latencies']['read']['operations'])

    def test_interrupted(self):
        self.store.fill.side_effect = KeyboardInterrupt
        status, _ = self.run_command('load', self.url, '--prepare', '70')
        self.assertEqual(130, status)
        self.store.close.assert_called_once_with()

    def test_the_default_is_that_of_p1(self):
        args = self.parse('load', self.url, '--workload', 'b')
        self.assertEqual((800_000, 1), (args.operations, args.clients))

    @ddt.data(
        (('load', 'x'), 'one of the arguments --prepare'),
        (('load', 'x', '--workload', 'd'), "invalid choice: 'd'"),
        (('load', 'x', '--prepare', '0'), "'0' is not an integer of at least"),
        (('load', 'x', '--workload', 'a', '--remove'), 'not allowed with'),
        (('advise', '--memory-gb', 'inf', '--data-gb', '1'), "'inf' is not a"),
        (('advise', '--memory-gb', '1e99', '--data-gb', '1'), 'at most 10000'),
    )
    @ddt.unpack
    def test_usage(self, arguments, text):
        self.assert_usage(text, *arguments)

    def test_no_psycopg(self):
        with mock.patch.dict(sys.modules, {'psycopg': None}):
            error = self.assertRaises(errors.SizingError, postgresql._psycopg)
        self.assertIn('nova-diskplacer[measure]', str(error))

    def test_a_busy_client(self):
        output = io.StringIO()
        one = latencies.summarize([1e-3, 2e-3])
        with contextlib.redirect_stdout(output):
            for share in (0.79, 0.81):
                sizing_view.print_load(
                    self.store.describe(),
                    load.Result(2, share, {'read': one}),
                )
        self.assertEqual(1, output.getvalue().count('measures the client'))
        self.assertIn('81.0 %', output.getvalue())

    def test_progress_is_for_terminals(self):
        write = sizing._progress('records', 20)
        with contextlib.redirect_stderr(self.errors):
            write(10)
            self.assertEqual('', self.errors.getvalue())
            self.errors.isatty = lambda: True
            write(10)
            write(20)
        self.assertEqual(
            '\r10 of 20 records\r20 of 20 records\n', self.errors.getvalue()
        )


class CollectTest(SizingTestCase):
    def setUp(self):
        super().setUp()
        self.patch(signal, 'signal')
        self.counted = collections.Counter()
        self.pinned = []
        self.changed = self.patch(pinning, 'changed', self.change)
        self.patch(counters, 'read', self.read)
        guest = guests.Guest(specs={})
        self.patch(
            libvirt_servers, 'list_servers', return_value=[guest.seen()]
        )
        self.patch(cpus, 'read', return_value=HOST)
        self.patch(cpus, 'read_nova_sets', return_value=cpus.NovaCpuSets())

    @contextlib.contextmanager
    def change(self, conf, server, wanted):
        self.pinned.append((server, wanted))
        yield mock.Mock(apply=self.pinned.append)
        self.pinned.append('restored')

    def read(self, uri, server):
        self.assertEqual('qemu:///system', uri)
        self.counted[server] += 7
        found = test_counters.reading(self.counted[server])
        return found.__class__(**{**vars(found), 'server': server})

    def collect(self, *arguments, server=UUID):
        return self.run_command(
            'collect', '--server', server, '--output', self.path, *arguments
        )

    def command(self, code):
        return ('--', sys.executable, '-c', code)

    def found(self):
        return samples.read(self.path)

    def test_a_command(self):
        code = 'print(\'{"seconds": 2.5, "workload": "a"}\')'
        self.assertEqual((0, ''), self.collect(*self.command(code)))
        (one,) = self.found()
        self.assertEqual(
            (UUID, 2.5, 'a', 7, None, ''),
            (
                one.server,
                one.seconds,
                one.load['workload'],
                one.counters['migrations'],
                one.block,
                one.vcpus_are,
            ),
        )
        self.assertEqual([], self.pinned)

    def test_several_runs(self):
        self.collect('--runs', '3', *self.command('print(1)'))
        self.assertEqual(3, len(self.found()))
        self.assertIn('run 3 of 3', self.errors.getvalue())

    def test_pinned_and_floating(self):
        self.collect('--runs', '2', '--pin', '1-2', *self.command(''))
        found = self.found()
        self.assertEqual([1, 1, 2, 2], [one.block for one in found])
        self.assertEqual(
            [
                (UUID, frozenset({1, 2})),
                *(one.vcpus_are for one in found),
                'restored',
            ],
            self.pinned,
        )
        for pair in (found[:2], found[2:]):
            self.assertEqual(
                ['floating', 'pinned'], sorted(one.vcpus_are for one in pair)
            )

    def test_blocks_go_on(self):
        """Runs of another load can follow in the same file."""
        for _ in range(2):
            self.collect('--pin', '1-2', *self.command(''))
        self.assertEqual([1, 1, 2, 2], [one.block for one in self.found()])

    def test_a_command_that_fails(self):
        code = 'import os; os.path.exists("x") or exit(4)'
        self.assert_error(
            'ended with 4',
            'collect', '--server', UUID, '--output', self.path,
            '--pin', '1-2', *self.command(code),
        )  # fmt: skip
        self.assertEqual([], self.found())

    def test_interrupted(self):
        self.patch(
            runs, 'execute', side_effect=[runs.Done(5, {}), KeyboardInterrupt]
        )
        status, _ = self.collect('--runs', '9', *self.command(''))
        self.assertEqual(130, status)
        self.assertEqual(1, len(self.found()))
        self.assertIn('has the runs before', self.errors.getvalue())

    def test_only_one_at_a_time(self):
        with files.lock('sizing', wait=False):
            error = self.assertRaises(
                errors.SizingError, self.collect, *self.command('')
            )
        self.assertIn('another diskplacer-manage sizing', str(error))

    def test_a_file_of_something_else(self):
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write('hello\n')
        error = self.assertRaises(
            exception.DiskPlacerError, self.collect, *self.command('')
        )
        self.assertIn(f'{self.path}: line 1', str(error))
        self.assertEqual(0, self.counted.total())

    def assert_refused(self, text, *arguments, **how):
        error = self.assertRaises(
            exception.DiskPlacerError, self.collect, *arguments, **how
        )
        self.assertIn(text, str(error))
        self.assertEqual([], self.pinned)

    def test_refused(self):
        command = self.command('')
        self.assert_refused('--pin 1: server', '--pin', '1', *command)
        self.assert_refused("'x' in 'x' is none of", '--pin', 'x', *command)
        self.assert_refused(
            '--server b: no server of Nova', '--pin', '1-2', *command,
            server='b',
        )  # fmt: skip


class AnalyseTest(SizingTestCase):
    def analyse(self, found, *arguments):
        for one in found:
            samples.append(self.path, one)
        return self.run_command('analyse', self.path, *arguments)

    def test_table(self):
        status, output = self.analyse(
            test_analysis.designed() + test_analysis.experiment(0)
        )
        self.assertEqual(0, status)
        for text in (
            '260 runs',
            'All counters together',
            'cache_misses is left out: missing in 260 runs',
            'Cost of CPU migrations, by pinned and floating runs',
            'Server a, load a, 10 blocks: no effect',
            'floating takes longer by',
            'one migration takes ',
            'One counter alone, as P1 has it',
            'confounded',
            'Enough. The data is 0.49 of the memory',
            'not what causes what',
            'Too little. The data is 4.00 times the memory',
        ):
            self.assertIn(text, output)

    def test_problems(self):
        status, output = self.analyse(test_analysis.designed()[:2])
        self.assertEqual(0, status)
        self.assertIn('No regression: 2 runs with', output)
        self.assertIn('migrations: 2 runs with 1 counters', output)

    def test_json(self):
        status, output = self.analyse(
            test_analysis.experiment(4e-4), '--format', 'json'
        )
        found = json.loads(output)
        (one,) = found['experiments']
        self.assertEqual('migrations cost time', one['cost']['verdict'])
        self.assertEqual({'value', 'low', 'high'}, set(one['cost']['each']))
        self.assertEqual(0, status)
        self.assertIn('confounded', found['warning'])
        self.assertEqual(
            'migrations', found['together']['coefficients'][0]['name']
        )

    def test_counters(self):
        _, output = self.analyse(
            test_analysis.designed(), '--counters', 'vcpus,migrations'
        )
        self.assertNotIn('| data_gib', output)
        self.assertIn('| vcpus ', output)

    def test_no_file(self):
        self.assert_error('No such file', 'analyse', self.path + '.missing')


@ddt.ddt
class AdviseTest(SizingTestCase):
    def advise(self, *arguments):
        return self.run_command('advise', '--memory-gb', '2', *arguments)

    @ddt.data(
        (('--data-gb', '1.5'), 0, 'Enough.'),
        (('--data-gb', '8'), 3, 'Too little.'),
        (('--refaults', '5', '--seconds', '60'), 0, 'Enough.'),
        (('--refaults', '99999', '--seconds', '60'), 3, 'Too little.'),
    )
    @ddt.unpack
    def test_advice(self, arguments, expected, text):
        status, output = self.advise(*arguments)
        self.assertEqual(expected, status)
        self.assertEqual(text, output[: len(text)])

    def test_json(self):
        _, output = self.advise('--data-gb', '8', '--format', 'json')
        found = json.loads(output)
        self.assertEqual(
            (False, 8 << 30), (found['enough'], found['least_bytes'])
        )

    @ddt.data(
        ('--refaults', '5'),
        ('--data-gb', '5', '--seconds', '3'),
    )
    def test_seconds_are_those_of_refaults(self, arguments):
        self.assert_error(
            '--refaults and --seconds need each other',
            'advise', '--memory-gb', '2', *arguments,
        )  # fmt: skip

    def test_nothing_to_go_by(self):
        """The size of a disk is no option."""
        self.assert_usage('one of the arguments', 'advise', '--memory-gb', '2')
        self.assert_usage(
            'unrecognized arguments',
            'advise', '--memory-gb', '2', '--data-gb', '1', '--vdisk-gb', '3',
        )  # fmt: skip


@ddt.ddt
class SecondsTest(testtools.TestCase):
    @ddt.data(
        (56.2e-9, '56.2 ns'),
        (20.6e-6, '20.6 µs'),
        (8.4849e-4, '848 µs'),
        (3.2885e-3, '3.29 ms'),
        (800, '800 s'),
        (17234, '17234 s'),
        (-0.5, '-500 ms'),
        (0, '0 s'),
    )
    @ddt.unpack
    def test_units(self, value, text):
        self.assertEqual(text, sizing_view.seconds(value))
