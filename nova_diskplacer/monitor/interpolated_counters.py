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

"""Interpolates counters of cgroup v1, which are costly to read."""

import numpy

from nova_diskplacer.monitor import types

#: Intervals between two readings of the counters.
INTERVALS = 10


class InterpolatedCounters:
    """Spreads the increase between two readings over the next intervals.

    The counters are behind by ``INTERVALS`` at most, and never jump.
    """

    def __init__(self) -> None:
        self._pairs = types.Pairs()
        self._older: types.Integers = numpy.zeros((0, 0), numpy.int64)
        self._newer = self._older
        self._steps = INTERVALS

    def due(self, pairs: types.Pairs) -> bool:
        """Return whether the counters of these pairs must be read now."""
        return (
            self._steps == INTERVALS
            or pairs.generation != self._pairs.generation
        )

    def put(self, pairs: types.Pairs, values: types.Integers) -> None:
        """Store a reading, with a row for each pair."""
        if pairs.generation != self._pairs.generation:
            self._older = values
        else:
            # a counter that fell was reset
            self._older = numpy.minimum(self._newer, values)
        self._pairs, self._newer, self._steps = pairs, values, 0

    def get(self) -> types.Integers:
        """Return the counters, one step further at each call."""
        self._steps += 1
        increase = self._newer - self._older
        return self._older + increase * self._steps // INTERVALS
