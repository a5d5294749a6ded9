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


"""Tests of looks at what may hang."""

import threading
import unittest
from unittest import mock

from nova_diskplacer import exception
from nova_diskplacer.host import probes


class LookTest(unittest.TestCase):
    def setUp(self):
        self.go_on = threading.Event()
        self.addCleanup(self.go_on.set)
        self.looked = 0

    def probe(self):
        self.go_on.wait()
        self.looked += 1
        return self.looked

    def test_one_that_hangs_is_the_only_one(self):
        probe = probes.Probe(self.probe)
        first, second = probe.request(), probe.request()
        self.assertFalse(probe.wait(first, 0))
        self.assertFalse(probe.wait(second, 0.01))
        self.assertGreater(probe.waiting, 0)
        with mock.patch.object(probes, 'HUNG_AFTER', 0):
            self.assertTrue(probe.is_hung)
            probe.allowance = 60.0
            self.assertFalse(probe.is_hung)
        self.assertIsNone(probe.latest)
        self.assertEqual(0, self.looked)
        self.go_on.set()
        self.assertTrue(probe.wait(second, 60))
        self.assertEqual((2, 0), (probe.latest, probe.waiting))

    def test_no_thread_can_be_started(self):
        """The disk does not count as hung when threads start again."""
        probe = probes.Probe(self.probe)
        start = mock.patch.object(
            threading.Thread, 'start', side_effect=RuntimeError
        )
        with start:
            self.assertRaises(RuntimeError, probe.request)
        self.assertEqual(0, probe.waiting)
        self.go_on.set()
        self.assertTrue(probe.wait(probe.request(), 60))

    def test_an_error_is_raised_and_what_was_seen_stays(self):
        seen = iter(('healthy',))

        def see():
            try:
                return next(seen)
            except StopIteration:
                raise exception.DiskError('no more') from None

        probe = probes.Probe(see)
        self.assertTrue(probe.wait(probe.request(), 60))
        self.assertRaises(exception.DiskError, probe.wait, probe.request(), 60)
        self.assertEqual('healthy', probe.latest)
