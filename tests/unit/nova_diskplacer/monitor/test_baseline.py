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

import dataclasses
import json

import testtools

from nova_diskplacer.monitor import baseline
from nova_diskplacer.monitor import diskstats

MB = 10**6


def work(mbps, size=1 << 20, busy=1.0, depth=1.0):
    """Return what a disk does in a second at so many MB/s."""
    moved = round(mbps * MB * busy)
    return diskstats.Counters(
        reads=max(1, moved // size),
        writes=0,
        read_bytes=moved,
        write_bytes=0,
        busy_seconds=busy,
        request_seconds=depth * busy,
    )


def learned(usual, done, count):
    for _ in range(count):
        usual.update(done, 1.0)
    return usual


class AverageTest(testtools.TestCase):
    def test_what_is_known_beforehand(self):
        self.assertEqual(150 * MB, baseline.initial(150).average)
        # it fades as the disk does something else
        known = learned(baseline.initial(150), work(50), 600)
        self.assertTrue(50 * MB < known.average < 80 * MB)

    def test_nothing_known(self):
        known = learned(baseline.initial(0), work(50), 1)
        self.assertEqual(50 * MB, known.average)

    def test_is_that_while_busy(self):
        known = learned(baseline.initial(0), work(50, busy=0.5), 9)
        self.assertAlmostEqual(50 * MB, known.average)

    def test_a_time_of_seeks_hardly_counts(self):
        known = learned(baseline.initial(100), work(100), 3600)
        learned(known, work(1, size=4096), 3600)
        self.assertGreater(known.average, 98 * MB)

    def test_hardly_busy(self):
        known = learned(baseline.initial(100), work(5, busy=0.05), 999)
        self.assertEqual(100 * MB, known.average)


class RecentTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.known = baseline.initial(100)
        learned(self.known, work(100), 4000)

    def test_as_ever(self):
        self.assertAlmostEqual(1.0, self.known.recent_ratio)

    def test_slower(self):
        learned(self.known, work(30), 3600)
        # an hour ago it was well
        self.assertTrue(
            0.3 < self.known.recent_ratio < 0.6, self.known.recent_ratio
        )

    def test_something_else_is_asked(self):
        """Small requests, or one at a time, say nothing of large ones."""
        learned(self.known, work(1, size=4096), 3600)
        self.assertGreater(self.known.recent_ratio, 0.9)
        learned(self.known, work(30, depth=16), 500)
        self.assertGreater(self.known.recent_ratio, 0.9)

    def test_too_little_to_tell(self):
        self.assertIsNone(baseline.initial(100).recent_ratio)
        self.assertIsNone(
            learned(baseline.initial(100), work(100), 601).recent_ratio
        )
        # the hour before is forgotten while nothing is done
        learned(self.known, work(0, busy=0.0), 5 * 3600)
        self.assertIsNone(self.known.recent_ratio)


class KeptTest(testtools.TestCase):
    def test_round_trip(self):
        known = learned(baseline.initial(100), work(80), 700)
        text = json.dumps(dataclasses.asdict(known))
        self.assertEqual(known, baseline.from_fields(json.loads(text)))

    def test_malformed(self):
        fields = dataclasses.asdict(baseline.initial(1))
        for wrong in (
            None,
            [],
            {'mean': 1},
            fields | {'average': 'much'},
            fields | {'average': -1.0},
            fields | {'means': [1.0]},
            fields | {'works': None},
        ):
            self.assertRaises(
                (TypeError, ValueError), baseline.from_fields, wrong
            )
