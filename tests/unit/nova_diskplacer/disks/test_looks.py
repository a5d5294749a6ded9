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

import subprocess
import sys
import threading
import unittest

from nova_diskplacer import exception
from nova_diskplacer.disks import looks

# The look and the work block in the kernel, where eventlet does not see it.
ON_EVENTLET = """
import eventlet
eventlet.monkey_patch()

import fcntl
import tempfile
import time

from nova_diskplacer.disks import looks

with tempfile.NamedTemporaryFile() as held:
    def take():
        with open(held.name) as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            return 'taken'

    fcntl.flock(held, fcntl.LOCK_EX)
    ticks = []
    def tick():
        while True:
            ticks.append(time.monotonic())
            time.sleep(0.001)
    eventlet.spawn(tick)

    look, job = looks.Look(take), looks.Job(take)
    number = look.begin()
    assert not look.ended(number, 0.2)
    assert not job.wait(0.2)
    assert look.waiting > 0
    assert len(ticks) > 10, ticks
    fcntl.flock(held, fcntl.LOCK_UN)
    assert look.ended(number, 60)
    assert job.wait(60)
    assert (look.seen, job.result()) == ('taken', 'taken')
"""


class LookTest(unittest.TestCase):
    def setUp(self):
        self.go_on = threading.Event()
        self.addCleanup(self.go_on.set)
        self.looked = 0

    def look(self):
        self.go_on.wait()
        self.looked += 1
        return self.looked

    def test_one_that_hangs_is_the_only_one(self):
        look = looks.Look(self.look)
        first, second = look.begin(), look.begin()
        self.assertFalse(look.ended(first, 0))
        self.assertFalse(look.ended(second, 0.01))
        self.assertGreater(look.waiting, 0)
        self.assertIsNone(look.seen)
        self.assertEqual(0, self.looked)
        self.go_on.set()
        self.assertTrue(look.ended(second, 60))
        self.assertEqual((2, 0), (look.seen, look.waiting))

    def test_an_error_is_raised_and_what_was_seen_stays(self):
        seen = iter(('healthy',))

        def see():
            try:
                return next(seen)
            except StopIteration:
                raise exception.DiskError('no more') from None

        look = looks.Look(see)
        self.assertTrue(look.ended(look.begin(), 60))
        self.assertRaises(exception.DiskError, look.ended, look.begin(), 60)
        self.assertEqual('healthy', look.seen)

    def test_green_threads_go_on(self):
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', ON_EVENTLET],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual((0, ''), (done.returncode, done.stderr))
