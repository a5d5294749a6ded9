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
import itertools
import json
import types

import ddt
import hypothesis
import testtools
from hypothesis import strategies

import _striping_layouts as layouts
import striping

GIB = 1 << 30
NAMES = tuple(layouts.LAYOUTS)


def job(mbps, bins=None, error=0):
    return {
        'error': error,
        'read': {
            'bw_bytes': mbps * striping.MB,
            'clat_ns': {'bins': bins} if bins else {},
        },
    }


def printed(*jobs, busy=10):
    """Return what a run prints, with so many jiffies of 100 busy."""
    return (
        'cpu  100 0 100 100 0 0 0 0 0 0\n'
        'fio: io_u error on file /dev/mapper/disk0: Input/output error\n'
        f'{json.dumps({"jobs": jobs}, indent=2)}\n'
        f'cpu  {100 + busy} 0 100 {200 - busy} 0 0 0 0 0 0\n'
    )


def run(mbps, p99_ms=1.0, jain=1.0):
    return striping.Run(mbps, p99_ms, jain, frozenset(), False)


def dead(*streams):
    return [striping.Death(one, one) for one in streams]


class StreamsTest(testtools.TestCase):
    @hypothesis.given(
        strategies.sampled_from(striping.COUNTS),
        strategies.integers(1, 4),
        strategies.integers(1, 64),
        strategies.integers(0, 1000),
    )
    def test_each_has_a_part_of_its_own(self, count, devices, gib, odd):
        size = gib * GIB + odd * layouts.SECTOR
        names = [f'd{number}' for number in range(devices)]
        found = layouts.streams(names, size, count)
        self.assertEqual(count, len(found))
        for one in found:
            self.assertEqual(0, one.offset % layouts.CHUNK)
            self.assertLessEqual(one.offset + one.size, size)
            # nearly as much as it could have
            share = size // -(-count // devices)
            self.assertGreater(one.size, share - 2 * layouts.ROW)
        for one, other in itertools.combinations(found, 2):
            if one.device == other.device:
                first, second = sorted((one, other), key=lambda s: s.offset)
                self.assertLessEqual(first.offset + first.size, second.offset)

    def test_they_take_turns_with_devices(self):
        names = ['a', 'b', 'c', 'd']
        self.assertEqual(
            ['a', 'b', 'c', 'd', 'a', 'b'],
            [one.device for one in layouts.streams(names, GIB, 6)],
        )
        (alone,) = layouts.streams(names, GIB, 1)
        self.assertEqual(('a', 0), alone[:2])

    def test_they_begin_on_different_disks_of_a_stripe(self):
        found = layouts.streams(['a'], 8 * GIB, 8)
        self.assertEqual(
            [0, 1, 2, 3, 0, 1, 2, 3],
            [one.offset // layouts.CHUNK % layouts.DISKS for one in found],
        )


class CommandsTest(testtools.TestCase):
    def test_fio(self):
        argv = layouts.fio(layouts.streams(['/dev/a', '/dev/b'], GIB, 2), 7)
        self.assertIn('--runtime=7', argv)
        # what is not said of a stream is said before all of them
        first = argv.index('--name=stream0')
        self.assertEqual(
            ('--name=stream0', '--filename=/dev/a', '--offset=0'),
            argv[first : first + 3],
        )
        self.assertEqual('--name=stream1', argv[first + 4])
        self.assertEqual(layouts.ROW, layouts.DEPTH * layouts.BLOCK)

    def test_the_table_of_a_stripe_has_whole_chunks(self):
        self.assertEqual(
            '0 6144 striped 2 1024 /dev/a 0 /dev/b 0',
            layouts.stripe_table(
                ['/dev/a', '/dev/b'], 4 * layouts.CHUNK - layouts.SECTOR
            ),
        )


class PlannedTest(testtools.TestCase):
    def test_a_repetition_has_all_in_an_order_of_its_own(self):
        order = striping.planned(NAMES, striping.COUNTS, 5)
        blocks = [
            order[start : start + len(NAMES)]
            for start in range(0, len(order), len(NAMES))
        ]
        self.assertEqual(5, len(blocks))
        for block in blocks:
            self.assertEqual(set(NAMES), {name for name, _ in block})
            for _, counts in block:
                self.assertEqual(striping.COUNTS, tuple(sorted(counts)))
        self.assertGreater(len({str(block) for block in blocks}), 1)
        # the same for everybody
        self.assertEqual(order, striping.planned(NAMES, striping.COUNTS, 5))


class PercentileTest(testtools.TestCase):
    @hypothesis.given(
        strategies.lists(
            strategies.dictionaries(
                strategies.integers(1, 50), strategies.integers(1, 20),
                min_size=1,
            ),
            min_size=1,
            max_size=4,
        )
    )  # fmt: skip
    def test_against_all_requests_in_a_row(self, bins):
        found = striping.percentile(
            [{str(ns): count for ns, count in one.items()} for one in bins],
            0.75,
        )
        row = sorted(
            ns
            for one in bins
            for ns, count in one.items()
            for _ in range(count)
        )
        # the first that three quarters are at or below
        self.assertEqual(row[-(-len(row) * 3 // 4) - 1] / 1e6, found)

    def test_a_slow_stream_counts_by_its_requests(self):
        bins = [{'1000000': 980}, {'8000000': 20}]
        self.assertEqual(8, striping.percentile(bins, 0.99))
        self.assertEqual(1, striping.percentile(bins, 0.98))


class ParseTest(testtools.TestCase):
    def test_streams(self):
        found = striping.parse(
            printed(job(30, {'2000000': 99}), job(10, {'4000000': 101}))
        )
        self.assertEqual(40, found.mbps)
        self.assertEqual(4, found.p99_ms)
        self.assertAlmostEqual(0.8, found.jain)
        self.assertEqual(frozenset(), found.failed)
        self.assertFalse(found.cpu_bound)

    def test_no_processor_was_left(self):
        text = printed(job(1, {'1': 1}), busy=96)
        self.assertTrue(striping.parse(text).cpu_bound)

    def test_errors(self):
        found = striping.parse(
            printed(job(0, error=5), job(10), job(0, {}, 5))
        )
        self.assertEqual({0, 2}, found.failed)


@ddt.ddt
class DeathTest(testtools.TestCase):
    @ddt.data(
        ((0, 4), 8, 4, (0.25, 0.25)),
        (range(8), 8, 1, (1, 1)),
        ((), 8, 1, (0, 0)),
        ((0,), 2, 4, (0.5, 0.5)),
        # half of its streams: the vdisk counts all the same
        (range(4), 8, 1, (0.5, 1)),
    )
    @ddt.unpack
    def test_shares(self, failed, count, devices, expected):
        self.assertEqual(
            expected, striping.death(frozenset(failed), count, devices)
        )

    def test_the_mean_over_disks(self):
        found = striping.evaluate_deaths({'elastic_1': dead(1, 0, 0, 0)})
        self.assertEqual(0.25, found['elastic_1_dead_streams'])
        self.assertEqual(0, found['elastic_1_dead_vdisks_min'])
        self.assertEqual(1, found['elastic_1_dead_vdisks_max'])


class EvaluateTest(testtools.TestCase):
    def test_intervals(self):
        found = striping.evaluate(
            {
                ('striped', 4): [run(100, 9), run(200, 10), run(120, 11)],
                ('round_robin', 4): [run(50), run(100), run(60)],
            }
        )
        self.assertAlmostEqual(140, found['striped_4_mbps'])
        self.assertEqual(120, found['striped_4_mbps_median'])
        self.assertLess(found['striped_4_mbps_low'], 140)
        self.assertGreater(found['striped_4_mbps_high'], 140)
        self.assertEqual(10, found['striped_4_p99_ms'])
        self.assertEqual(1, found['striped_4_jain'])
        # compared repetition by repetition
        for end in ('', '_low', '_high'):
            self.assertAlmostEqual(
                0.5, found[f'round_robin_4_of_striped{end}']
            )

    def test_one_repetition(self):
        found = striping.evaluate(
            {('striped', 1): [run(80)], ('round_robin', 1): [run(20)]}
        )
        self.assertEqual(80, found['striped_1_mbps'])
        self.assertIsNone(found['striped_1_mbps_low'])
        self.assertEqual(0.25, found['round_robin_1_of_striped'])
        self.assertIsNone(found['round_robin_1_of_striped_high'])

    def test_nothing_to_compare_with(self):
        found = striping.evaluate({('striped', 1): [run(80)]})
        self.assertNotIn('round_robin_1_of_striped', found)


class GoalsTest(testtools.TestCase):
    def met(self, alone, many, deaths):
        figures = striping.evaluate(
            {
                ('striped', 1): [run(80), run(80)],
                ('round_robin', 1): [run(alone), run(alone)],
                **{
                    (name, count): [run(mbps), run(mbps)]
                    for count in (4, 8, 16)
                    for name, mbps in (('striped', 80), ('round_robin', many))
                },
            }
        ) | striping.evaluate_deaths(deaths)
        return {goal.figure: goal.met(figures) for goal in striping.goals()}

    def test_met(self):
        met = self.met(
            40,
            72,
            {
                'round_robin': dead(0.25, 0.25),
                'striped': dead(1, 1),
                'md': dead(1, 1),
            },
        )
        self.assertEqual(7, len(met))
        self.assertEqual({True}, set(met.values()))

    def test_missed(self):
        met = self.met(
            41,
            71,
            {
                'round_robin': dead(0.25, 0.5),
                'striped': dead(1, 0.5),
                'md': dead(0, 0),
            },
        )
        self.assertEqual({False}, set(met.values()))


class ShowTest(testtools.TestCase):
    def test_tables(self):
        runs = {
            ('striped', 4): [run(100, 9), run(110, 10)],
            ('round_robin', 4): [run(90), run(90)._replace(cpu_bound=True)],
        }
        figures = striping.evaluate(runs) | striping.evaluate_deaths(
            {'striped': dead(1, 1), 'round_robin': dead(0.25, 0.5)}
        )
        args = types.SimpleNamespace(
            streams=[4], layout=['round_robin', 'striped']
        )
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            striping.show(args, runs, figures)
        text = stream.getvalue()
        self.assertIn('Streams: 4', text)
        self.assertIn('90 (90 to 90)', text)
        self.assertIn('Bound by the CPU: 1 of 4 measurements', text)
        self.assertIn('38 (25 to 50)', text)
        self.assertIn('100 (100 to 100)', text)
