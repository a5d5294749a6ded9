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
import functools
import json
import pathlib
import sys

import fixtures
import testtools

import _all
import _catalogue
import _results
from tools import provenance

TOP = pathlib.Path(__file__).parents[3]


class CatalogueTest(testtools.TestCase):
    def test_every_benchmark_is_there(self):
        scripts = {path.stem for path in (TOP / 'benchmarks').glob('[!_]*.py')}
        listed = {
            name
            for name, one in _catalogue.BENCHMARKS.items()
            if not one.script
        }
        self.assertEqual(scripts, listed)

    def test_code_exists(self):
        for name, one in _catalogue.BENCHMARKS.items():
            self.assertTrue(one.code and one.runs, name)
            for path in _catalogue.measured(name):
                self.assertTrue((TOP / path).exists(), f'{name}: {path}')

    def test_scripts_decide_the_figures_too(self):
        for name, helpers in (
            ('worker_race', ()),
            ('placement_quality', ('_placement_race.py',)),
            ('placement_quality', ('_placement_trace.json',)),
            ('contention', ('_contention_guest.py', '_in_guest.py')),
            ('elastic', ('_elastic_guest.py', '_contention_guest.py')),
            ('hadoop', ('_hadoop_meter.py', 'hadoop-pom.xml')),
        ):
            wanted = {f'benchmarks/{one}' for one in (*helpers, f'{name}.py')}
            found = set(_catalogue.measured(name))
            self.assertEqual(set(), wanted - found, name)
            self.assertNotIn('benchmarks/_report.py', found)
        self.assertEqual(
            ('benchmarks/worker_race.py',), _catalogue.scripts('worker_race')
        )
        self.assertIn('tools/storm.sh', _catalogue.measured('storm'))

    def test_every_helper_is_of_a_benchmark(self):
        used = {
            path
            for name, one in _catalogue.BENCHMARKS.items()
            if not one.script
            for path in _catalogue.scripts(name)
        }
        helpers = {f'benchmarks/{name}' for name in _catalogue._helpers()}
        self.assertEqual(set(), helpers - used)

    def test_results_have_the_name_of_their_benchmark(self):
        for name, one in _catalogue.BENCHMARKS.items():
            for result in one.runs:
                self.assertEqual(name, result.partition('-')[0])

    def test_every_committed_result_is_there(self):
        listed = {
            result
            for one in _catalogue.BENCHMARKS.values()
            for result in one.runs
        }
        self.assertEqual(set(), set(_results.read()) - listed)


class JobsTest(testtools.TestCase):
    def test_all_take_less_than_a_day_and_quick_ones_an_hour(self):
        for quick, minutes in ((False, 24 * 60), (True, 60)):
            found = _all.jobs(quick)
            self.assertTrue(sum(job.minutes for job in found) <= minutes)
            self.assertEqual(len(found), len({job.name for job in found}))

    def test_no_quick_result_takes_the_place_of_another(self):
        for job in _all.jobs(quick=True):
            runs = _catalogue.BENCHMARKS[job.benchmark].runs
            self.assertNotEqual(runs[job.name].arguments, job.arguments)


class AllTest(testtools.TestCase):
    """Runs benchmarks that are scripts of the test."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.top / 'benchmarks').mkdir()
        (self.top / 'code.py').write_text('1')
        self.results = self.top / 'results'
        self.results.mkdir()
        self.patch(provenance, 'TOP', self.top)
        for name in ('content', 'changed'):
            of_top = functools.partial(getattr(provenance, name), top=self.top)
            self.patch(provenance, name, of_top)
        self.patch(_all, 'STATE', self.top / '.bench')
        self.patch(_catalogue, 'BENCHMARKS', {})
        self.patch(_catalogue, 'scripts', lambda name: ())
        self.said = []

    def benchmark(self, name, body, arguments=''):
        """Add a benchmark; ``body`` may use ``out``, the path of --json."""
        (self.top / 'benchmarks' / f'{name}.py').write_text(
            'import json, pathlib, signal, sys, time\n'
            'out = pathlib.Path(sys.argv[1].partition("=")[2])\n'
            f'{body}\n'
        )
        run = _catalogue.Run(arguments, 1)
        _catalogue.BENCHMARKS[name] = _catalogue.Benchmark(
            _catalogue.NONE, ('code.py',), {name: run}
        )

    def written(self, name, arguments=''):
        content = {
            'command': f'tools/bench.sh {name} {arguments}'.strip(),
            'code': {'code.py': provenance.content('code.py')},
        }
        return f'out.write_text({json.dumps(content)!r})'

    def todo(self):
        return [
            job
            for job in _all.jobs(quick=False)
            if not _all.is_done(job, self.results / f'{job.name}.json')
        ]

    def run_all(self, hours=1.0):
        return _all.run(self.todo(), self.results, hours, self.said.append)

    def test_one_that_fails_does_not_stop_the_others(self):
        self.benchmark('one', 'sys.exit(3)')
        self.benchmark('two', self.written('two'))
        problems = self.run_all()
        self.assertEqual({'one'}, set(problems))
        self.assertIn('exit status 3', problems['one'])
        self.assertEqual(['one'], [job.name for job in self.todo()])

    def test_a_missed_goal_is_a_result(self):
        self.benchmark('one', f'{self.written("one")}\nsys.exit(1)')
        self.assertEqual({}, self.run_all())

    def test_a_result_of_before_is_none(self):
        self.benchmark('one', '')
        (self.results / 'one.json').write_text('{}')
        self.assertEqual({'one'}, set(self.run_all()))

    def test_done_until_the_code_or_the_command_changes(self):
        self.benchmark('one', self.written('one', '--runs 3'), '--runs 3')
        self.assertEqual({}, self.run_all())
        self.assertEqual([], self.todo())
        (self.top / 'code.py').write_text('2')
        self.assertEqual(['one'], [job.name for job in self.todo()])
        (self.top / 'code.py').write_text('1')
        self.assertEqual([], self.todo())
        self.benchmark('one', '', '--runs 5')
        self.assertEqual(['one'], [job.name for job in self.todo()])

    def test_half_a_file_is_not_done(self):
        self.benchmark('one', self.written('one'))
        (self.results / 'one.json').write_text('{"command"')
        self.assertEqual(['one'], [job.name for job in self.todo()])

    def test_files_of_a_run_are_not_those_of_other_code(self):
        self.benchmark('one', 'pathlib.Path("kept").touch(exist_ok=False)')
        found = []
        for content in '121':
            (self.top / 'code.py').write_text(content)
            (job,) = _all.jobs(quick=False)
            self.run_all()
            found.append(_all.work_directory(job))
            self.assertTrue((found[-1] / 'kept').exists())
        self.assertEqual(found[0], found[2])
        self.assertNotEqual(found[0], found[1])

    def test_one_that_does_not_end(self):
        self.benchmark(
            'one',
            'signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n'
            'try:\n'
            '    time.sleep(600)\n'
            'finally:\n'
            '    pathlib.Path("ended").touch()',
        )
        (job,) = _all.jobs(quick=False)
        problem = _all.measure(job, self.results / 'one.json', 3)
        self.assertIn('not finished after', problem)
        self.assertTrue((_all.work_directory(job) / 'ended').exists())

    def test_nothing_begins_after_the_last_hour(self):
        self.benchmark('one', self.written('one'))
        self.assertEqual({'one': 'not begun within 0 h'}, self.run_all(0))

    def test_progress(self):
        self.benchmark('one', self.written('one'))
        self.benchmark('two', self.written('two'))
        self.run_all()
        self.assertIn('[1/2] one: about 1 min; 2 min left', self.said[0])
        self.assertIn('[2/2] two: about 1 min; 1 min left', self.said[1])

    def test_left(self):
        for seconds, text in ((50, '1 min'), (7500, '2 h 05 min')):
            self.assertEqual(text, _all.left(seconds))

    def test_exit_status(self):
        self.patch(_results, 'DIRECTORY', self.results)
        self.benchmark('one', 'sys.exit(3)')
        self.benchmark('two', self.written('two'))
        output = [
            self.useFixture(fixtures.StringStream(name)) for name in 'ab'
        ]
        for stream, name in zip(output, ('stdout', 'stderr'), strict=True):
            self.useFixture(fixtures.MonkeyPatch(f'sys.{name}', stream.stream))
        self.patch(sys, 'argv', ['_all.py', 'all'])
        self.assertEqual(1, _all.main())
        self.benchmark('one', self.written('one'))
        self.assertEqual(0, _all.main())
        self.assertEqual(0, _all.main())
        output[0].stream.flush()
        self.assertIn(
            '2 of 2 results are there',
            output[0].getDetails()['a'].as_text(),
        )
