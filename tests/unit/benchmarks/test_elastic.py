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

import collections
import contextlib
import inspect
import io
import json
import math

import hypothesis
import testtools
from hypothesis import strategies

import _elastic_figures as elastic_figures
import _elastic_guest as elastic_guest
import _elastic_loads as loads
import _striping_layouts as layouts
import elastic

MIB = 1 << 20
A, B, C, D = 'abcd'
# Phases of 100 s, one after the other.
PHASES = ('stripe', 'narrow', 'pressure', 'quiet')
STRIPE = 80


def seconds(*parts):
    """Return seconds as the guest does: parts are (begin, end, rate, ms)."""
    found = []
    for begin, end, rate, ms in parts:
        bins = {str(elastic_figures.bin_of(ms)): rate}
        found += [(second, bins) for second in range(begin, end)]
    return found


def mbps(rate):
    return rate * layouts.BLOCK / elastic_figures.MB


def step(begin, end, old, new, asked=None, **fields):
    return {
        'begin': begin,
        'looks': [(begin + 1, MIB), (end - 1, 9 * MIB)],
        'end': end,
        'old': tuple(old),
        'new': tuple(new),
        'asked': begin if asked is None else asked,
        'failed': '',
        **fields,
    }


STEPS = (
    step(225, 235, 'aaaa', 'aabb'),
    step(255, 260, 'aabb', 'aabc', 9),
    step(260, 265, 'aabc', 'adbc', 9),
    step(350, 360, 'adbc', 'aabc', 10),
    step(360, 370, 'aabc', 'aabb', 10),
    step(370, 380, 'aabb', 'aaaa', 10),
)


def found(steps=STEPS, **series):
    """Return what the guest tells of a run in which all goes well."""
    loads = {
        'stripe': seconds((0, 100, STRIPE, 10)),
        'narrow': seconds((100, 200, 20, 40)),
        'pressure': seconds(
            (200, 225, 20, 40), (225, 235, 19, 60), (235, 255, 40, 20),
            (255, 265, 38, 30), (265, 300, 78, 10),
        ),
        'quiet': seconds((300, 350, 5, 1), (350, 380, 5, 1.9)),
        'neighbour': seconds((0, 400, 10, 5)),
        **series,
    }  # fmt: skip
    return {
        'phases': {
            name: {
                'begin': 100.0 * number,
                'first': 100 * number + 5,
                'end': 100 * number + 100,
                'seconds': loads[name],
            }
            for number, name in enumerate(PHASES)
        },
        'neighbour': loads['neighbour'],
        'neighbour_disk': D,
        'steps': list(steps),
        'end_width': len(set(steps[-1]['new'])) if steps else 1,
    }


class SecondsTest(testtools.TestCase):
    @hypothesis.given(
        strategies.lists(
            strategies.tuples(
                strategies.floats(1000.0, 20000.0),
                strategies.floats(1e3, 1e10),
            )
        )
    )
    def test_each_request_is_counted(self, requests):
        found = loads.seconds_of(requests, 1.0)
        self.assertEqual(
            collections.Counter(
                math.floor(end / 1000 - 1) for end, _ in requests
            ),
            {second: sum(bins.values()) for second, bins in found},
        )
        # as it arrives in the benchmark
        series = elastic_figures.Series(json.loads(json.dumps(found)))
        window = series.window(-1, 30)
        self.assertAlmostEqual(mbps(len(requests)) / 31, window.mbps)
        if len(requests) == 1:
            self.assertAlmostEqual(
                1, window.p99_ms / (requests[0][1] / 1e6), delta=0.011
            )


class SeriesTest(testtools.TestCase):
    def test_window(self):
        series = elastic_figures.Series(
            seconds((0, 10, 10, 1), (10, 12, 100, 50), (14, 20, 10, 1))
        )
        window = series.window(0, 10)
        self.assertAlmostEqual(mbps(10), window.mbps)
        self.assertAlmostEqual(1, window.p99_ms, delta=0.011)
        # whole seconds only, and those without requests count
        window = series.window(9.5, 14.5)
        self.assertAlmostEqual(mbps(50), window.mbps)
        self.assertAlmostEqual(50, window.p99_ms, delta=0.5)
        self.assertEqual((0, None), series.window(12, 14))
        self.assertIsNone(series.window(5.5, 6.4))

    def test_one_of_a_hundred(self):
        bins = {
            str(elastic_figures.bin_of(ms)): count
            for ms, count in ((1, 98), (10, 1), (100, 1))
        }
        window = elastic_figures.Series([(0, bins)]).window(0, 1)
        self.assertAlmostEqual(10, window.p99_ms, delta=0.1)

    def test_stays(self):
        series = elastic_figures.Series(
            seconds((0, 20, 10, 1), (20, 50, 80, 1))
        )
        self.assertEqual(20, series.stays(0, 50, mbps(80)))
        self.assertEqual(15, series.stays(5, 50, mbps(80)))
        # a bit of what was before is in the mean
        self.assertEqual(19, series.stays(0, 50, mbps(73)))
        self.assertEqual(0, series.stays(0, 50, mbps(10)))
        self.assertIsNone(series.stays(0, 50, mbps(81)))
        # too short to say
        self.assertIsNone(series.stays(0, 9, mbps(1)))

    def test_what_drops_again_does_not_stay(self):
        series = elastic_figures.Series(
            seconds((0, 20, 80, 1), (20, 30, 10, 1), (30, 60, 80, 1))
        )
        self.assertEqual(30, series.stays(0, 60, mbps(80)))


class MovesTest(testtools.TestCase):
    def moves(self, *steps):
        return elastic_figures.moves(steps, found()['phases'])

    def test_steps_of_one_move(self):
        first, second, third = self.moves(*STEPS)
        self.assertEqual(
            ('pressure', 205, 225, 235, 235, True, {A, B}, False), first
        )
        # nothing of the move before
        self.assertEqual((235, 255, 265), (*second[1:3], second.end))
        self.assertEqual({A, B, C, D}, second.disks)
        self.assertEqual(
            ('quiet', 310, False), (third.phase, third.before, third.widens)
        )

    def test_one_outlasts_its_phase(self):
        (move,) = self.moves(step(290, 310, 'aaaa', 'aabb'))
        self.assertEqual('pressure', move.phase)
        self.assertEqual(300, move.until)
        self.assertEqual(310, move.end)

    def test_one_failed(self):
        (move,) = self.moves(
            step(210, 220, 'aabb', 'aabc', 1),
            step(220, 230, 'aabc', 'adbc', 1, failed='no'),
        )
        self.assertTrue(move.failed)


class EvaluateTest(testtools.TestCase):
    def test_all_goals_are_met(self):
        figures = elastic_figures.evaluate(found())
        self.assertAlmostEqual(mbps(STRIPE), figures['stripe_mbps'])
        self.assertAlmostEqual(40, figures['narrow_p99_ms'], delta=0.4)
        self.assertEqual((2, 1), (
            figures['widen_moves'], figures['narrow_moves'],
        ))  # fmt: skip
        self.assertAlmostEqual(0.95, figures['widen_kept'])
        self.assertAlmostEqual(1.5, figures['widen_slower'], delta=0.04)
        self.assertAlmostEqual(1.9, figures['narrow_slower'], delta=0.05)
        self.assertAlmostEqual(60, figures['widen_move_p99_ms'], delta=0.6)
        self.assertAlmostEqual(1, figures['neighbour_kept'])
        self.assertEqual(64, figures['wide_after_s'])
        self.assertAlmostEqual(78 / STRIPE, figures['rest_of_stripe'])
        self.assertEqual(80, figures['narrow_after_quiet_s'])
        # in 8 and 3 and 3 s
        self.assertAlmostEqual(
            24 * MIB / elastic_figures.MB / 14, figures['widen_copy_mbps']
        )
        self.assertEqual(
            [],
            [
                goal.figure
                for goal in elastic_figures.goals()
                if not goal.met(figures)
            ],
        )

    def test_the_neighbour_counts_where_its_disk_is_used(self):
        figures = elastic_figures.evaluate(
            found(neighbour=seconds((0, 225, 10, 1), (235, 400, 10, 1)))
        )
        self.assertEqual(1, figures['neighbour_kept'])
        figures = elastic_figures.evaluate(
            found(neighbour=seconds((0, 260, 10, 1), (265, 400, 10, 1)))
        )
        self.assertEqual(0.5, figures['neighbour_kept'])

    def test_nothing_was_moved(self):
        figures = elastic_figures.evaluate(
            found((), pressure=seconds((200, 300, 20, 40)))
        )
        missed = {
            goal.figure
            for goal in elastic_figures.goals()
            if not goal.met(figures)
        }
        self.assertEqual(
            {
                'wide_after_s', 'rest_of_stripe', 'neighbour_kept',
                'widen_kept', 'widen_slower', 'narrow_kept', 'narrow_slower',
            },
            missed,
        )  # fmt: skip
        self.assertEqual(0.25, figures['rest_of_stripe'])
        self.assertIsNone(figures['narrow_after_quiet_s'])

    def test_a_move_failed_and_it_stays_wide(self):
        steps = (*STEPS[:3], step(350, 360, 'adbc', 'aabc', failed='no'))
        figures = elastic_figures.evaluate({**found(steps), 'end_width': 4})
        self.assertEqual(1, figures['failed_moves'])
        self.assertEqual(0, figures['narrow_moves'])
        self.assertIsNone(figures['narrow_after_quiet_s'])

    def test_the_server_has_nothing_during_a_move(self):
        figures = elastic_figures.evaluate(
            found(pressure=seconds((200, 225, 20, 40)))
        )
        self.assertEqual(0, figures['widen_kept'])


class ShowTest(testtools.TestCase):
    def test_tables(self):
        for one in (found(), found(())):
            figures = elastic_figures.evaluate(one)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                elastic.show(figures)
            self.assertIn('Fixed stripe of 4 disks', printed.getvalue())
            self.assertIn(f'{figures["stripe_mbps"]:.4g}', printed.getvalue())


class GuestTest(testtools.TestCase):
    def test_steps_of_a_move(self):
        """The guest has each step that a move consists of."""
        self.assertFalse(inspect.isabstract(elastic_guest.Steps))
