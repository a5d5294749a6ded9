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

import os

import fixtures
import testtools

from diskplacer_measure.sweep.measure import host_cpu


class ReadTest(testtools.TestCase):
    def test_the_line_of_all_processors(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'stat')
        with open(path, 'w') as stream:
            stream.write(
                'cpu  100 10 20 700 50 1 2 30 5 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n'
            )
        self.assertEqual(
            {
                'user': 100,
                'system': 23,
                'idle': 710,
                'iowait': 50,
                'steal': 30,
            },
            host_cpu.read(path),
        )


class SamplerTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 0
        self.busy = self.idle = 0
        self.useFixture(
            fixtures.MonkeyPatch('time.time', lambda: float(self.now))
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'diskplacer_measure.sweep.measure.host_cpu.read',
                lambda: {'user': self.busy, 'idle': self.idle},
            )
        )
        self.sampler = host_cpu.Sampler()

    def run_until(self, end, busy):
        while self.now < end:
            self.now += 1
            self.busy += busy
            self.idle += 100 - busy
            self.sampler.sample()

    def test_shares(self):
        self.sampler.sample()
        self.run_until(10, 20)
        self.run_until(20, 60)
        for begin, end, busy in (
            (0, 10, 0.2),
            (10, 20, 0.6),
            (0, 20, 0.4),
            # from the sample before to the sample after
            (12.5, 13.5, 0.6),
            (9.5, 10.5, 0.4),
        ):
            shares = self.sampler.shares(begin, end)
            self.assertAlmostEqual(busy, shares['user'], msg=(begin, end))
            self.assertAlmostEqual(1, sum(shares.values()))

    def test_a_time_without_samples(self):
        self.now = 5
        self.sampler.sample()
        self.run_until(10, 20)
        for begin, end in ((4, 8), (8, 11), (0, 20)):
            self.assertEqual({}, self.sampler.shares(begin, end))

    def test_no_time(self):
        self.sampler.sample()
        self.assertEqual({}, self.sampler.shares(0, 0))
