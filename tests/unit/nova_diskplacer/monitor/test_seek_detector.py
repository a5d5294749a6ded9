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
import hypothesis
import numpy
import testtools
from hypothesis import strategies
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import devices
from nova_diskplacer.host import tracefs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import seek_detector
from nova_diskplacer.monitor import types
from tests import configured
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples
from tests.unit.nova_diskplacer.monitor import submitted

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
DISK = Device('disk', 'sda', '8:0', rotational=True)


class SeekDetectorTest(testtools.TestCase):
    """With requests as told, and a clock that goes on with each portion."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.now = 1000.0
        self.traces = []
        self.requests = {}
        self.tops = {'8:0': False}
        # a run of the tests may have a PID namespace of its own
        self.patch(seek_detector, '_check_pid_namespace', lambda: None)
        self.patch(tracefs.Tracer, 'sample', self.sample)
        self.patch(seek_detector.time, 'monotonic', lambda: self.now)
        self.patch(seek_detector, 'consumer_of', self.owner)
        self.patch(devices, 'submission_devices', lambda device: self.tops)
        self.detector = seek_detector.SeekDetector(
            self.conf, cgroups.Hierarchy('/nowhere')
        )
        self.consumers = [
            types.Consumer(key, f'group/{key}') for key in ('a', 'b')
        ]

    def patch(self, target, name, value):
        self.addCleanup(setattr, target, name, getattr(target, name))
        setattr(target, name, value)

    def owner(self, process, keys):
        return {1: 'a', 2: 'b'}.get(process)

    def sample(self, devices, seconds):
        """Yield the requests of each process at once, every second."""
        self.traces.append((devices, self.now))
        ends = self.now + seconds
        while self.now < ends:
            self.now += 1.0
            yield [
                tracefs.Request(device, process, start, length)
                for (process, device), requests in self.requests.items()
                for start, length in requests
            ]

    def detect(self, *flagged, keys=('a', 'b'), after=100.0):
        self.now += after
        self.detector.run(
            samples.make_sample(
                [(key, 'disk') for key in keys],
                disks={
                    device.uuid: example.disk_state(
                        flagged=True, device=device
                    )
                    for device in flagged
                },
                consumers={one.key: one for one in self.consumers},
            )
        )
        return {key for key, _ in self.detector.seekers}

    def test_found_and_confirmed(self):
        self.requests = {
            (1, '8:0'): submitted.scattered(50),
            (2, '8:0'): submitted.stream(0, 50, 64 * KIB),
        }
        begun = self.now
        self.assertEqual({'a'}, self.detect(DISK, after=0))
        self.assertEqual(4.0, self.now - begun)
        self.assertEqual({('a', 'disk')}, self.detector.seekers)
        # what is known takes no longer than it must
        begun = self.now
        self.assertEqual({'a'}, self.detect(DISK, after=5))
        self.assertEqual(6.0, self.now - begun)
        self.assertEqual(1, self.log.output.count('a seeks excessively'))

    def test_many_streams(self):
        """In the first second they look like a seeker."""
        self.requests[1, '8:0'] = [
            (number * GIB, 128 * KIB) for number in range(40)
        ]

        def sample(tracer, devices, seconds):
            for portion in self.sample(devices, seconds):
                yield portion
                for place, (start, length) in enumerate(
                    self.requests[1, '8:0']
                ):
                    self.requests[1, '8:0'][place] = (start + length, length)

        self.patch(tracefs.Tracer, 'sample', sample)
        begun = self.now
        self.assertEqual(set(), self.detect(DISK, after=0))
        self.assertEqual(2.0, self.now - begun)

    def test_nothing_flagged(self):
        self.assertEqual(set(), self.detect())
        self.assertEqual([], self.traces)

    def test_pace(self):
        self.requests = {(1, '8:0'): submitted.stream(0, 50, 64 * KIB)}
        for after, count in ((1, 1), (1, 1), (1, 1), (2.1, 2)):
            self.detect(DISK, after=after)
            self.assertEqual(count, len(self.traces))
        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.detect(DISK)
        self.traces.clear()
        # not flagged any more: the penalty helps
        for after, count in ((9, 0), (9, 0), (9, 1)):
            self.assertEqual({'a'}, self.detect(after=after))
            self.assertEqual(count, len(self.traces))

    def test_sequential_now(self):
        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.assertEqual({'a'}, self.detect(DISK))
        # held down, it is slow to show it
        self.requests = {(1, '8:0'): submitted.stream(0, 4, 64 * KIB)}
        self.assertEqual(set(), self.detect())
        self.assertIn('a no longer seeks on disk disk', self.log.output)

    def test_idle(self):
        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.assertEqual({'a'}, self.detect(DISK))
        self.requests = {}
        self.assertEqual({'a'}, self.detect(after=35))
        self.assertEqual(set(), self.detect(after=35))
        self.traces.clear()
        self.assertEqual(set(), self.detect())
        self.assertEqual([], self.traces)

    def test_departed(self):
        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.assertEqual({'a'}, self.detect(DISK))
        self.assertEqual(set(), self.detect(DISK, keys=('b',), after=1))
        # also while it is traced
        self.assertEqual(set(), self.detect(DISK, keys=('b',)))

    def test_disk_gone(self):
        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.assertEqual({'a'}, self.detect(DISK))

        def gone(device):
            raise FileNotFoundError

        self.patch(devices, 'submission_devices', gone)
        self.assertEqual(set(), self.detect(after=70))

    def test_does_not_trace(self):
        def sample(tracer, devices, seconds):
            raise exception.ContentionError('no')
            yield

        self.requests = {(1, '8:0'): submitted.scattered(50)}
        self.assertEqual({'a'}, self.detect(DISK))
        self.patch(tracefs.Tracer, 'sample', sample)
        self.assertRaises(exception.ContentionError, self.detect, DISK)
        # until a trace succeeds, also where none is due
        self.assertRaises(exception.ContentionError, self.detect)
        self.patch(
            tracefs.Tracer, 'sample', lambda _, *args: self.sample(*args)
        )
        self.detect(DISK)
        self.detect()

    def test_written_out_later(self):
        """By the kernel, for whoever alone has the volume as a vdisk."""
        self.tops = {'253:0': True, '253:1': True}
        self.requests = {
            (1, '253:0'): submitted.stream(0, 5, 4 * KIB),
            (9, '253:0'): submitted.scattered(50),
            (9, '253:1'): submitted.scattered(50),
            (2, '253:1'): submitted.stream(0, 5, 4 * KIB),
            (1, '253:1'): submitted.stream(0, 5, 4 * KIB),
        }
        self.assertEqual({'a'}, self.detect(DISK))
        self.tops = {'253:0': False, '253:1': False}
        self.assertEqual(set(), self.detect(DISK))


class CgroupLookupTest(testtools.TestCase):
    def test_of_this_process(self):
        with open('/proc/self/cgroup') as lines:
            (line,) = [line for line in lines if line.startswith('0::')]
        home = line.removeprefix('0::').rstrip('\n')
        for cgroup in (home, os.path.dirname(home)):
            self.assertEqual(
                'me', seek_detector.consumer_of(os.getpid(), {cgroup: 'me'})
            )
        self.assertIsNone(
            seek_detector.consumer_of(os.getpid(), {f'{home}/a': 'me'})
        )
        self.assertIsNone(seek_detector.consumer_of(1 << 30, {}))

    def test_instance(self):
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        options.register_opts(conf)
        self.addCleanup(conf.reset)
        self.assertEqual(
            'diskplacer-run-diskplacer', seek_detector.instance(conf)
        )
        conf.set_override('state_dir', '/run/b/', 'diskplacer_agent')
        self.assertEqual('diskplacer-run-b', seek_detector.instance(conf))


def pattern(requests):
    """Return the pattern of requests, each a start and a length."""
    starts, lengths = zip(*requests, strict=True)
    return seek_detector.pattern(
        numpy.array(starts, numpy.int64), numpy.array(lengths, numpy.int64)
    )


class PatternTest(testtools.TestCase):
    def test_stream(self):
        self.assertEqual(
            seek_detector.AccessPattern(50, 1, 50 * 64 * KIB),
            pattern(submitted.stream(GIB, 50, 64 * KIB)),
        )

    def test_none(self):
        none = numpy.zeros(0, numpy.int64)
        self.assertEqual(
            seek_detector.AccessPattern(),
            seek_detector.pattern(none, none),
        )

    def test_scattered(self):
        found = pattern(submitted.scattered(200))
        self.assertGreaterEqual(found.extents, 199)

    def test_rewritten(self):
        """As the end of a log is."""
        found = pattern([(GIB, 4 * KIB)] * 30)
        self.assertEqual(1, found.extents)
        self.assertEqual({}, seek_detector.classify({'one': found}))

    def test_again_and_again(self):
        """To the same places, each far from the last."""
        found = pattern(submitted.scattered(50) * 9)
        self.assertEqual({'one': True}, seek_detector.classify({'one': found}))

    def test_small_gaps(self):
        one = [(number * 20 * KIB, 4 * KIB) for number in range(30)]
        self.assertEqual(1, pattern(one).extents)
        one = [(number * 21 * KIB, 4 * KIB) for number in range(30)]
        self.assertEqual(30, pattern(one).extents)

    def test_within_a_long_one(self):
        one = [(0, MIB), (8 * KIB, 4 * KIB), (MIB, 4 * KIB)]
        self.assertEqual(1, pattern(one).extents)

    @hypothesis.given(
        count=strategies.integers(1, 40),
        length=strategies.integers(3, 50),
        size=strategies.sampled_from([4 * KIB, 64 * KIB, 512 * KIB]),
        chance=strategies.randoms(use_true_random=False),
    )
    def test_streams_in_any_order(self, count, length, size, chance):
        """Never more runs than there are streams, so never a seeker."""
        requests = [
            request
            for number in range(count)
            for request in submitted.stream(number * GIB, length, size)
        ]
        chance.shuffle(requests)
        found = pattern(requests)
        self.assertEqual(count, found.extents)
        self.assertFalse(
            seek_detector.classify({'one': found}).get('one', False)
        )


class VerdictsTest(testtools.TestCase):
    def test_beside_a_stream(self):
        self.assertEqual(
            {'random': True, 'stream': False},
            seek_detector.classify(
                {
                    'random': pattern(submitted.scattered(100)),
                    'stream': pattern(submitted.stream(0, 20, 64 * KIB)),
                }
            ),
        )

    def test_far_apart_but_long(self):
        """It moves much between two seeks."""
        found = pattern(submitted.scattered(50, size=MIB))
        self.assertEqual(
            {'one': False}, seek_detector.classify({'one': found})
        )

    def test_half_of_them(self):
        for count, seeks in ((48, False), (50, True)):
            found = pattern(
                submitted.scattered(count)
                + submitted.stream(200 * GIB, 50, 4 * KIB)
            )
            self.assertEqual(
                {'one': seeks}, seek_detector.classify({'one': found})
            )

    def test_too_few(self):
        self.assertEqual(
            {},
            seek_detector.classify({'one': pattern(submitted.scattered(15))}),
        )
        self.assertEqual(
            {},
            seek_detector.classify(
                {'one': pattern(submitted.stream(0, 3, KIB))}
            ),
        )
        self.assertEqual(
            {'one': False},
            seek_detector.classify(
                {'one': pattern(submitted.stream(0, 4, KIB))}
            ),
        )

    def test_far_less_to_blame(self):
        self.assertEqual(
            {'much': True, 'little': False},
            seek_detector.classify(
                {
                    'much': pattern(submitted.scattered(130)),
                    'little': pattern(submitted.scattered(20)),
                }
            ),
        )
