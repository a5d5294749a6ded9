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

import json

import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.elastic import simulation
from tests.unit.nova_diskplacer.elastic import hosts

TIMES = st.floats(0.1, 1000)


class LoadTest(testtools.TestCase):
    def test_period(self):
        load = simulation.Period(60, 40, 100)
        self.assertEqual(100, load(0, 60, 1))
        self.assertEqual(0, load(60, 100, 1))
        self.assertEqual(50, load(50, 70, 1))
        self.assertEqual(60, load(130, 430, 1))

    @given(TIMES, TIMES, TIMES, TIMES)
    @hosts.EXAMPLES
    def test_period_is_a_series(self, on, off, start, length):
        period = simulation.Period(on, off, 100)
        count = int((start + length) // (on + off)) + 1
        if count > 100:
            return
        series = simulation.Series(
            (simulation.Span(on, 100), simulation.Span(off, 0)) * count
        )
        self.assertAlmostEqual(
            series(start, start + length, 1),
            period(start, start + length, 1),
            places=3,
        )

    def test_nothing_after_a_series(self):
        load = simulation.Series((simulation.Span(10, 5),))
        self.assertEqual(2.5, load(0, 20, 1))
        self.assertEqual(0, load(10, 20, 1))
        self.assertEqual(10, load.seconds)


class ReadTest(testtools.TestCase):
    def read(self, *lines):
        path = self.useFixture(fixtures.TempDir()).join('load')
        with open(path, 'w') as stream:
            stream.writelines(
                (line if isinstance(line, str) else json.dumps(line)) + '\n'
                for line in lines
            )
        return simulation.read(path)

    def assert_error(self, text, *lines):
        error = self.assertRaises(exception.DiskPlacerError, self.read, *lines)
        self.assertIn(text, str(error))

    def test_file(self):
        found = self.read(
            {'seconds': 60, 'mbps': 1.5}, '{"mbps": 0, "seconds": 1}'
        )
        self.assertEqual(
            (simulation.Span(60.0, 1.5), simulation.Span(1.0, 0.0)),
            found.spans,
        )

    def test_bad_lines(self):
        good = {'seconds': 60, 'mbps': 1.5}
        for bad, text in (
            ('x', 'line 2: not JSON'),
            ({'seconds': 60}, 'mbps'),
            ({'seconds': 0, 'mbps': 1}, 'line 2: seconds=0 is not above 0'),
            ({'seconds': 1, 'mbps': -1}, 'line 2: mbps=-1 is below 0'),
            ({'seconds': '1', 'mbps': 1}, "seconds='1' is no float"),
        ):
            self.assert_error(text, good, bad)


class P2Test(testtools.TestCase):
    """Ten minutes of sorting and ten of quiet, as in the benchmark."""

    LOAD = simulation.Period(600, 600, 4000)
    # it takes 86 s, 43 of them for the first half
    SETUP = simulation.Setup(
        size_gb=8, minimum=1, maximum=4, mbps=1000, medium='ssd'
    )

    def simulate(self, **settings):
        self.steps = simulation.run(
            self.LOAD,
            self.SETUP,
            1200,
            hosts.defaults(
                widen_after=30, narrow_after=300, min_interval=60, **settings
            ),
        )
        return [
            (one.width, one.target) for one in simulation.phases(self.steps)
        ]

    def between(self, begin, end):
        return [one for one in self.steps if begin <= one.at < end]

    def test_in_one_step(self):
        self.assertEqual(
            [
                (1, None), (1, 4), (2, 4), (3, 4), (4, None),
                (4, None), (4, 1), (3, 1), (2, 1), (1, None),
            ],
            self.simulate(widen_factor=4),
        )  # fmt: skip
        # all disks after two minutes, one after the quiet time
        for step in self.between(120, 600):
            self.assertEqual(4000, step.served)
        self.assertEqual(1, self.between(1050, 1200)[0].width)
        # the copy costs a tenth
        for step in self.between(30, 70):
            self.assertAlmostEqual(900, step.served)
        # two disks have two legs each
        for step in self.between(80, 110):
            self.assertAlmostEqual(1800, step.served)

    def test_doubling(self):
        self.assertEqual(
            [
                (1, None), (1, 2), (2, None), (2, 4), (3, 4), (4, None),
                (4, None), (4, 1), (3, 1), (2, 1), (1, None),
            ],
            self.simulate(),
        )  # fmt: skip
        self.assertEqual({4}, {one.width for one in self.between(250, 600)})

    def test_summary(self):
        self.simulate(widen_factor=4)
        found = simulation.summary(self.steps, self.SETUP)
        self.assertEqual((2, 16), (found.moves, found.copied_gb))
        self.assertEqual((0.25, 1.0), (found.narrow, found.wide))
        self.assertTrue(0.8 < found.served < 0.9)
        self.assertTrue(2.5 < found.mean_width < 3.5)

    def test_no_demand(self):
        steps = simulation.run(
            simulation.Period(1, 1, 0), self.SETUP, 100, hosts.QUICK
        )
        found = simulation.summary(steps, self.SETUP)
        self.assertEqual(
            (0, 1.0, 1.0), (found.moves, found.served, found.wide)
        )

    def test_move_that_would_take_too_long(self):
        steps = simulation.run(
            self.LOAD, self.SETUP, 60, hosts.changed(max_move_time=40)
        )
        self.assertIn('max_move_time=40', steps[-1].why)
        self.assertEqual([None], list({step.began for step in steps}))
