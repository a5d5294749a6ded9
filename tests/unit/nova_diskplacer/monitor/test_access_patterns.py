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


import hypothesis
import numpy
import testtools
from hypothesis import strategies

from nova_diskplacer.monitor import seek_detector
from tests.unit.nova_diskplacer.monitor import submitted

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


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
