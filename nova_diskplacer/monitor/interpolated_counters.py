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

"""Counters that are too costly to read each time."""

import numpy

from nova_diskplacer.monitor import types

#: One read of them for so many of the others.
READS = 10


class Spread:
    """What was counted between two reads, spread over those that follow.

    So the counters are behind by ``READS`` at the most, and never jump.
    """

    def __init__(self) -> None:
        self._lines: types.Integers | None = None
        self._older: types.Integers = numpy.zeros((0, 0), numpy.int64)
        self._newer = self._older
        self._steps = 0

    def due(self, lines: types.Integers) -> bool:
        """Return whether the counters of these lines have to be read now."""
        return (
            self._lines is None
            or self._steps == READS
            or not numpy.array_equal(lines, self._lines)
        )

    def put(
        self,
        lines: types.Integers,
        counted: types.Integers,
        values: types.Integers,
    ) -> None:
        """Take what was read.

        :param lines: those whose counters are wanted.
        :param counted: those that were read, in any order. One that is
            missing has counted nothing yet.
        :param values: what they count, the shape is (lines, counters).
        """
        newer = values
        if not numpy.array_equal(lines, counted):
            _, here, there = numpy.intersect1d(
                lines, counted, assume_unique=True, return_indices=True
            )
            newer = numpy.zeros((len(lines), values.shape[1]), numpy.int64)
            newer[here] = values[there]
        if self._lines is None or not numpy.array_equal(lines, self._lines):
            # nothing to go on from: as it is now
            self._older = newer
        else:
            # one that fell has begun anew
            self._older = numpy.minimum(self._newer, newer)
        self._lines, self._newer, self._steps = lines, newer, 0

    def get(self) -> types.Integers:
        """Return the counters, a step further at each call."""
        self._steps += 1
        return self._older + (self._newer - self._older) * self._steps // READS
