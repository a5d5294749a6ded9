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

"""The disk's figures against the formula, in simulated time."""

import math
import random
import statistics
import threading
import time
import unittest

from tools.seeking_disk import model
from tools.seeking_disk import server

GB = 10**9
KIB = 1 << 10
DISK = model.HardDisk(8 * GB)


def run(disk, streams, seconds, depth=1):
    """Serve streams of requests, so many of each at a time.

    A stream's next request comes a moment after one has ended.

    :param streams: iterators of (offset, length).
    :returns: the bytes of each stream, and the number of all requests.
    """
    now, head = 0.0, model.Head()
    moved = [0] * len(streams)
    served = 0
    waiting = []

    def fill(number):
        offset, length = next(streams[number])
        waiting.append((model.Request(offset, length, now), number))

    for number in range(len(streams)):
        for _ in range(depth):
            fill(number)
    ended = None
    while now < seconds:
        if not waiting:
            fill(ended)
            ended = None
        index = disk.choose(head, [one for one, _ in waiting], now)
        request, number = waiting.pop(index)
        if ended is not None:
            fill(ended)
        ended = number
        now = disk.end(head, request, now)
        head = disk.move(head, request)
        moved[number] += request.length
        served += 1
    return moved, served


def sequential(start, length=128 * KIB):
    while True:
        yield start, length
        start += length


def anywhere(dice, length=4 * KIB):
    while True:
        yield dice.randrange(DISK.size // length) * length, length


class HardDiskTest(unittest.TestCase):
    def test_seeks(self):
        """The data sheet's mean, over random pairs of places."""
        dice = random.Random(1)
        seeks = [
            DISK.seek(dice.randrange(DISK.size) - dice.randrange(DISK.size))
            for _ in range(20_000)
        ]
        self.assertAlmostEqual(8.2e-3, statistics.fmean(seeks), delta=1e-4)
        self.assertEqual(0.0, DISK.seek(0))
        self.assertGreater(DISK.seek(1), 0.7e-3)
        full = DISK.settle_s + DISK.stroke_s
        self.assertAlmostEqual(full, DISK.seek(-DISK.size))

    def test_sequential(self):
        (moved,), _ = run(DISK, [sequential(0)], 10)
        self.assertAlmostEqual(1.0, moved / 10 / DISK.bytes_per_s, delta=0.01)

    def test_random(self):
        """A seek and half a turn for each, and nearly nothing to transfer."""
        _, served = run(DISK, [anywhere(random.Random(2))], 60)
        mean = 8.2e-3 + 0.5 / 120 + DISK.transfer(4 * KIB)
        self.assertAlmostEqual(1.0, served / 60 * mean, delta=0.02)

    def test_many_random_requests_at_a_time(self):
        """What is near comes first: twice as many and more."""
        _, alone = run(DISK, [anywhere(random.Random(3))], 60)
        _, many = run(DISK, [anywhere(random.Random(3))], 60, depth=32)
        self.assertGreater(many, 2 * alone)

    def test_slow_motion(self):
        """Everything takes four times as long, so nothing else changes."""
        streams = [
            [sequential(0), sequential(DISK.size // 2), anywhere(dice)]
            for dice in (random.Random(4), random.Random(4))
        ]
        expected = run(DISK, streams[0], 5, depth=4)
        self.assertEqual(
            expected, run(DISK.slowed(4), streams[1], 20, depth=4)
        )

    def test_nobody_waits_for_ever(self):
        far = model.Request(DISK.size - KIB, KIB, arrived=0.0)
        near = model.Request(0, KIB, arrived=0.4)
        self.assertEqual(1, DISK.choose(model.Head(), [far, near], 0.4))
        self.assertEqual(0, DISK.choose(model.Head(), [far, near], 0.6))

    def test_nearly_in_order(self):
        """What was passed over on the way is kept; what is written is not."""
        pairs = [(n ^ 1) * 64 * KIB for n in range(2000)]
        least = DISK.transfer(2000 * 64 * KIB)
        for write, turns in ((False, 0), (True, 1000)):
            now, head = 0.0, model.Head()
            for offset in pairs:
                request = model.Request(offset, 64 * KIB, now, write)
                now = DISK.end(head, request, now)
                head = DISK.move(head, request)
            self.assertGreaterEqual(
                now, least + 0.9 * turns / DISK.revolutions_per_s
            )
            if not turns:
                self.assertLess(now, least + 0.01)

    def test_only_so_much_is_kept(self):
        first = model.Request(0, 4 * DISK.look_ahead)
        head = DISK.move(model.Head(DISK.size, DISK.size), first)
        for offset, kept in (
            (first.end - DISK.look_ahead, True),
            (first.end - DISK.look_ahead - KIB, False),
            (first.end - KIB, True),
        ):
            again = model.Request(offset, KIB, 1.0)
            self.assertEqual(kept, DISK.end(head, again, 0.0) == 1.0)
        # a seek begins anew
        head = DISK.move(head, model.Request(DISK.size // 2, KIB))
        self.assertGreater(
            DISK.end(head, model.Request(first.end - KIB, KIB), 0.0), 1e-3
        )

    def test_interleaved(self):
        """Two readers, one request of each at a time: a seek for each."""
        half = DISK.size // 2
        moved, served = run(DISK, [sequential(0), sequential(half)], 30)
        seek = DISK.seek(half)
        least = seek + DISK.transfer(128 * KIB)
        most = least + 1 / DISK.revolutions_per_s
        self.assertLess(30 / most, served * 1.01)
        self.assertGreater(30 / least, served)
        self.assertLess(sum(moved) / 30, 0.15 * DISK.bytes_per_s)

    def test_a_host_that_takes_its_time(self):
        """The disk has read on; what is written must turn to the head."""
        pause = 0.5e-3
        for write, expected in (
            (False, DISK.transfer(128 * KIB)),
            (True, 1 / DISK.revolutions_per_s),
        ):
            now, head = 0.0, model.Head()
            for _ in range(1000):
                request = model.Request(head.at, 128 * KIB, now + pause, write)
                now = DISK.end(head, request, now)
                head = DISK.move(head, request)
            self.assertAlmostEqual(
                1.0,
                now / 1000 / (expected + write * DISK.transfer(128 * KIB)),
                delta=0.01,
            )

    def test_turns(self):
        track = DISK.bytes_per_s / DISK.revolutions_per_s
        for offset, now, expected in (
            (0, 0.0, 0.0),
            (track / 2, 0.0, 0.5 / 120),
            (0, 0.25 / 120, 0.75 / 120),
            (track * 3.5, 1.0, 0.5 / 120),
        ):
            self.assertTrue(
                math.isclose(expected, DISK.turn(offset, now), abs_tol=1e-9),
                (offset, now),
            )

    def test_what_follows_soon_needs_no_turn(self):
        request = model.Request(64 * KIB, KIB)
        self.assertEqual(
            DISK.transfer(64 * KIB),
            DISK.position(model.Head(), request, 0.001),
        )


class SolidStateDiskTest(unittest.TestCase):
    def test_times(self):
        disk = model.SolidStateDisk(8 * GB)
        for write, access, rate in ((False, 80, 550), (True, 120, 520)):
            request = model.Request(0, 1 << 20, write=write)
            self.assertAlmostEqual(access / 1e6, disk.access(request))
            self.assertAlmostEqual(
                (1 << 20) / rate, disk.transfer(request) * 1e6
            )


class HardDiskServerTest(unittest.TestCase):
    """In real time: it may be late, and is never early."""

    def test_requests_take_turns(self):
        served = server.HardDiskServer(DISK)
        began = time.monotonic()
        threads = [
            threading.Thread(
                target=served.serve, args=(n * DISK.size // 4, KIB, False)
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # the first is where the head is
        least = 3 * DISK.seek(DISK.size // 4)
        self.assertGreaterEqual(time.monotonic() - began, least)

    def test_write_back_cache(self):
        slow = model.HardDisk(8 * GB, average_seek_s=1.0)
        served = server.HardDiskServer(slow, cache=8 * KIB)
        began = time.monotonic()
        served.serve(4 * GB, 4 * KIB, True)
        served.serve(GB, 4 * KIB, True)
        self.assertLess(time.monotonic() - began, slow.seek(GB))
        served.flush()
        self.assertGreater(time.monotonic() - began, slow.seek(3 * GB))
        # nothing is left
        served.flush()

    def test_without_cache(self):
        slow = model.HardDisk(8 * GB, average_seek_s=0.2)
        served = server.HardDiskServer(slow)
        began = time.monotonic()
        served.serve(4 * GB, 4 * KIB, True)
        self.assertGreaterEqual(time.monotonic() - began, slow.seek(4 * GB))


class SolidStateServerTest(unittest.TestCase):
    def test_channels(self):
        slow = model.SolidStateDisk(8 * GB, channels=2, read_s=0.1)
        served = server.SolidStateServer(slow)
        began = time.monotonic()
        threads = [
            threading.Thread(target=served.serve, args=(0, KIB, False))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # two at a time
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
