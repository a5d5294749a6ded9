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

import contextlib
import io

import testtools

import profile_effect
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep.measure import outcome
from nova_diskplacer.profiles import definitions
from tests.unit.diskplacer_measure.sweep import example
from tools.testbed import commands

READ = {'operation': 'read', 'jobs': 1}
WRITE = {'operation': 'write', 'jobs': 16}


def profile(name, **queues):
    return definitions.Profile(
        name=name,
        title='',
        description='',
        queue={
            medium: definitions.Queue(schedulers=schedulers)
            for medium, schedulers in queues.items()
        },
    )


PROFILES = {
    'sequential_async': profile(
        'sequential_async', hdd=('bfq', 'none'), ssd=('kyber', 'none')
    ),
    'sequential_sync': profile('sequential_sync', hdd=('none',)),
    'mine': profile('mine', hdd=('none',)),
}


def results(load, scheduler, *repetitions, problem=''):
    """Return results of a load, of which a repetition has these MB/s."""
    cell = example.cell(
        host_scheduler='', guest_scheduler=scheduler, cache_mode='', **load
    )
    return [
        example.result(cell, number, float(mbps), problem)
        for number, mbps in enumerate(repetitions)
    ]


def shown(function, *args):
    """Return what a function prints, and what it returns."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        returned = function(*args)
    return stream.getvalue(), returned


class ShowLoadsTest(testtools.TestCase):
    def test_figures(self):
        text, figures = shown(
            profile_effect.show_loads,
            results(READ, 'none', 10, 12)
            + results(READ, 'bfq', 5, 5, problem=outcome.CPU_BOUND)
            + results(WRITE, 'none', 20, 20)
            + results(WRITE, 'bfq', 30, 30),
        )
        self.assertEqual(11, figures['async_read_1_none_mbps'])
        self.assertEqual(30, figures['async_write_16_bfq_mbps'])
        self.assertEqual(1, round(figures['async_write_16_bfq_jain'], 9))
        self.assertLess(figures['async_read_1_none_mbps_low'], 11)
        self.assertGreater(figures['async_read_1_none_mbps_high'], 11)
        self.assertIn('Asynchronous, direct, write: MB/s', text)
        self.assertIn('2 of 8 measurements', text)


class ShowProfilesTest(testtools.TestCase):
    def show(self, measured):
        text, (figures, goals) = shown(
            profile_effect.show_profiles,
            profile_effect.by_load(measured, lambda one: one.mbps),
            PROFILES,
            ('hdd', 'ssd'),
        )
        return text, figures, goals

    def test_right_and_wrong(self):
        text, figures, goals = self.show(
            results(READ, 'none', 10, 11)
            + results(READ, 'bfq', 5, 5.5)
            + results(WRITE, 'none', 10, 11)
            + results(WRITE, 'bfq', 10, 11)
        )
        self.assertEqual(
            {
                'sequential_async_hdd_best': False,
                'sequential_async_ssd_best': True,
            },
            {goal.figure: goal.met(figures) for goal in goals},
        )
        ratio = figures['sequential_async_hdd_of_best']
        self.assertAlmostEqual(0.5**0.5, ratio)
        self.assertEqual(0.5, figures['sequential_async_hdd_best_at'])
        self.assertIn('NO', text)
        self.assertIn('0.50 async read 1', text)
        self.assertIn(
            'sequential_sync (hdd), sequential_sync (ssd), mine (hdd), '
            'mine (ssd)',
            text,
        )

    def test_repetitions_in_any_order_are_pairs(self):
        in_order = results(READ, 'none', 10, 100) + results(READ, 'bfq', 5, 50)
        _, figures, _ = self.show(in_order[::-1])
        self.assertAlmostEqual(0.5, figures['sequential_async_hdd_of_best'])
        self.assertAlmostEqual(
            0.5, figures['sequential_async_hdd_of_best_high']
        )

    def test_nothing_to_compare_with(self):
        _, figures, goals = self.show(results(READ, 'bfq', 5, 5.5))
        self.assertEqual(({}, []), (figures, goals))


class MeasureTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.cells = profile_effect.planned(quick=True)
        (self.batch,) = plan.batches(plan.repetitions_of(self.cells, 1), '')

    def test_every_scheduler_has_the_same_loads(self):
        for quick, loads in ((True, 2 * 2 * 2), (False, 3 * 2 * 5)):
            cells = profile_effect.planned(quick)
            self.assertEqual(4 * loads, len(set(cells)))
            found = profile_effect.by_load(
                [example.result(cell, 0, 1.0) for cell in cells],
                lambda one: one.mbps,
            )
            self.assertEqual(loads, len(found))
            for values in found.values():
                self.assertEqual(set(profile_effect.SCHEDULERS), set(values))

    def test_a_repetition_is_one_script(self):
        text = profile_effect.script(self.batch, '/dev/vdb', 16)
        self.assertIn('device=/dev/vdb\n', text)
        self.assertIn('kib=16\n', text)
        lines = text.partition("cells='")[2].partition("'")[0].splitlines()
        self.assertEqual(len(self.cells), len(lines))
        first = self.batch.repetitions[0].cell
        self.assertEqual(
            f'0 0 {first.engine} {first.operation} {first.jobs} '
            f'{first.depth} {first.guest_scheduler} 128',
            lines[0],
        )

    def printed(self):
        return '\n'.join(
            f'sweep effect cell {number} began=1000 took=210 '
            f'kib={",".join(["1000"] * repetition.cell.jobs)} '
            f'ms={",".join(["1024"] * repetition.cell.jobs)} '
            f'latency=9.5 usr=1.0 '
            'sys=2.0 ctx=7 cpu=1,1,8,0,0 end'
            for number, repetition in enumerate(self.batch.repetitions)
        )

    def test_results(self):
        found = profile_effect.results_of(self.batch, self.printed())
        self.assertEqual(
            [repetition.cell for repetition in self.batch.repetitions],
            [one.cell for one in found],
        )
        for one in found:
            self.assertAlmostEqual(one.cell.jobs, one.mbps)

    def test_a_cell_that_failed(self):
        last = len(self.cells) - 1
        lines = self.printed().splitlines()
        lines[-1] = (
            f'sweep effect failed {last} the vdisk cannot have scheduler bfq'
        )
        error = self.assertRaises(
            commands.CommandError,
            profile_effect.results_of,
            self.batch,
            '\n'.join(lines),
        )
        self.assertIn('cannot have scheduler bfq', str(error))

    def test_a_script_that_died(self):
        error = self.assertRaises(
            commands.CommandError,
            profile_effect.results_of,
            self.batch,
            'sweep effect error fio is not installed\n',
        )
        self.assertIn('fio is not installed', str(error))
