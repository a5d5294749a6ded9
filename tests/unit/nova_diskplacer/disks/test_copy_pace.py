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

import typing

import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer import constants
from nova_diskplacer.disks import copy_pace

MB = copy_pace.MB
WANTED = 2.0


class Disk(typing.NamedTuple):
    medium: str
    mbps: float


class CopyTest(testtools.TestCase):
    def test_a_share_of_the_throughput(self):
        self.assertAlmostEqual(
            50.0, copy_pace.copy_mbps(0.1, constants.SSD, 500)
        )

    def test_a_hard_disk_seeks(self):
        """512 KiB take 3.5 ms at 150 MB/s, and seeks 24.8 ms."""
        self.assertAlmostEqual(
            0.1 * 0.524288 / (0.524288 / 150 + 0.0248),
            copy_pace.copy_mbps(0.1, constants.HDD, 150),
        )


class PercentTest(testtools.TestCase):
    disks = (Disk(constants.SSD, 500), Disk(constants.HDD, 150))

    @hypothesis.given(st.integers(1, 100))
    def test_inverse(self, percent):
        mbps = copy_pace.step_mbps(percent / 100, self.disks)
        self.assertEqual(percent, copy_pace.percent_of(mbps, self.disks))

    def test_bounds(self):
        self.assertEqual(1, copy_pace.percent_of(0.001, self.disks))
        self.assertEqual(100, copy_pace.percent_of(10000, self.disks))


class PaceTest(testtools.TestCase):
    def run_for(self, seconds, rate_of, paced=None):
        """Copy under a load; return the parts and the MB/s of each second.

        :param rate_of: MB/s that the kernel copies in all of the time.
        """
        paced = paced or copy_pace.Pace(10, WANTED)
        percent, done = paced.after(0, 0.0), 0
        parts, rates = [], []
        for second in range(1, seconds + 1):
            rate = rate_of(second) * percent / 100
            done += round(rate * MB)
            parts.append(percent)
            rates.append(rate)
            percent = paced.after(done, float(second))
        return parts, rates

    def test_first_part(self):
        self.assertEqual(10, copy_pace.Pace(10, WANTED).after(0, 7.0))

    def test_kept_where_it_is_right(self):
        parts, _ = self.run_for(60, lambda second: 10 * WANTED)
        self.assertEqual({10}, set(parts))

    def test_all_of_the_time_under_load(self):
        """The kernel is given what it needs, and no more than there is."""
        parts, rates = self.run_for(60, lambda second: WANTED / 2)
        self.assertEqual(100, parts[-1])
        parts, rates = self.run_for(60, lambda second: 2 * WANTED)
        self.assertAlmostEqual(WANTED, rates[-1], delta=0.1 * WANTED)

    def test_the_load_goes(self):
        _, rates = self.run_for(
            120, lambda second: WANTED if second < 60 else 30 * WANTED
        )
        # the copy is back at its rate after a few seconds
        self.assertLess(sum(rates[60:70]) / 10, 8 * WANTED)
        self.assertLess(sum(rates[75:]) / len(rates[75:]), 1.1 * WANTED)

    @hypothesis.given(
        st.lists(st.floats(0.2, 100), min_size=1, max_size=5),
        st.integers(1, 50),
    )
    def test_never_much_faster(self, loads, percent):
        """On average over each load that lasts, after it has begun."""
        paced = copy_pace.Pace(percent, WANTED)
        seconds = 60
        parts, rates = self.run_for(
            seconds * len(loads),
            lambda second: loads[(second - 1) // seconds],
            paced,
        )
        self.assertTrue(all(1 <= part <= 100 for part in parts))
        for number in range(len(loads)):
            settled = rates[number * seconds + 30 : (number + 1) * seconds]
            self.assertLess(sum(settled) / len(settled), 1.2 * WANTED)

    def test_a_copy_that_begins_anew(self):
        paced = copy_pace.Pace(10, WANTED)
        paced.after(9 * MB, 0.0)
        self.assertGreater(paced.after(0, 1.0), 10)

    def test_asked_twice_at_once(self):
        paced = copy_pace.Pace(10, WANTED)
        paced.after(0, 1.0)
        self.assertEqual(10, paced.after(MB, 1.0))
