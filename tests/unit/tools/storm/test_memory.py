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


"""Whether processes grow."""

import testtools

from tools.storm import memory
from tools.storm.memory import Sample

MIB = memory.MIB


def run(pid, begin, seconds, size):
    """Return samples of a process whose MiB are ``size`` of its age."""
    return [
        Sample(begin + age, pid, int(size(age) * MIB))
        for age in range(0, seconds + 1, 10)
    ]


class MemoryTest(testtools.TestCase):
    def test_steady(self):
        (found,) = memory.runs(run(1, 0, 900, lambda age: 300))
        self.assertFalse(memory.grows(found))

    def test_start_does_not_count(self):
        (found,) = memory.runs(
            run(1, 0, 900, lambda age: min(300, 50 + 2 * age))
        )
        self.assertFalse(memory.grows(found))

    def test_growth(self):
        (found,) = memory.runs(run(1, 0, 1800, lambda age: 100 + age / 10))
        self.assertTrue(memory.grows(found))
        first, last = memory.growth(found)
        self.assertTrue(100 < first < last < 280, (first, last))

    def test_little_growth_of_much(self):
        (found,) = memory.runs(run(1, 0, 1800, lambda age: 1000 + age / 20))
        self.assertFalse(memory.grows(found))

    def test_restarted_process_is_another_one(self):
        found = memory.runs(
            run(1, 0, 700, lambda age: 100) + run(2, 700, 700, lambda age: 300)
        )
        self.assertEqual([False, False], [memory.grows(one) for one in found])

    def test_short_runs_tell_nothing(self):
        self.assertEqual([], memory.runs(run(1, 0, 500, lambda age: age)))
