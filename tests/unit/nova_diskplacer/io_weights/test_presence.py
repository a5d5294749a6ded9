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

import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.io_weights import presence

ONE = frozenset({'one'})
NOBODY = frozenset()
NEW = presence.Presence()


def run(pattern, before=NEW, seconds=1.0):
    """Return who is there after intervals, and in how many that changed."""
    changes = 0
    for is_active in pattern:
        after = presence.step(before, ONE if is_active else NOBODY, seconds)
        changes += after.servers != before.servers
        before = after
    return before, changes


class StepTest(unittest.TestCase):
    def test_a_server_comes_and_goes_after_twenty_seconds(self):
        for seconds in (0.5, 1.0, 10.0):
            there = round(20 / seconds)
            before, _ = run([True] * (there - 1), seconds=seconds)
            self.assertEqual(NOBODY, before.servers)
            came, _ = run([True], before, seconds)
            self.assertEqual(ONE, came.servers)
            leaving, _ = run([False] * (there - 1), came, seconds)
            self.assertEqual(ONE, leaving.servers)
            left, _ = run([False], leaving, seconds)
            self.assertEqual(NEW, left)

    def test_a_server_that_writes_now_and_then_never_comes(self):
        state, _ = run(([True] * 10 + [False] * 20) * 100)
        self.assertEqual(NEW, state)

    def test_a_server_with_pauses_stays(self):
        came, _ = run([True] * 20)
        state, changes = run(([False] * 19 + [True] * 20) * 100, came)
        self.assertEqual((ONE, 0), (state.servers, changes))

    @given(st.lists(st.booleans(), max_size=300), st.floats(0.1, 20.0))
    def test_changes_are_twenty_seconds_apart(self, pattern, seconds):
        _, changes = run(pattern, seconds=seconds)
        self.assertLessEqual(changes * 20.0, len(pattern) * seconds + 1e-6)
