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

"""What everybody used of a disk in a long time, against a fair share of it."""

import math

import numpy

from nova_diskplacer.monitor import types


class Budget:
    """Compares what each pair used to an equal share of what its disk did.

    Both fade: an interval counts less by a factor e when ``window`` seconds
    have passed. A pair that is new is compared from when it came. Takes two
    numbers for each pair, however long the window.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._pairs: tuple[types.ConsumerDisk, ...] = ()
        self._disk = numpy.zeros(0, dtype=numpy.intp)
        self._used = numpy.zeros(0)
        self._fair = numpy.zeros(0)

    def update(self, round: types.Round) -> types.Floats:
        """Add a round; returns the ratio of use to fair share, (R,).

        It is 1 for who uses as much as all on the disk do on average, 0 for
        who uses nothing, and on a disk of n consumers n for who alone uses
        it.
        """
        if round.pairs is not self._pairs:
            self._align(round.pairs)
        used = (round.read_bytes + round.write_bytes).astype(numpy.float64)
        fair = numpy.bincount(self._disk, used) / numpy.bincount(self._disk)
        kept = math.exp(-round.seconds / self._window)
        self._used = self._used * kept + used
        self._fair = self._fair * kept + fair[self._disk]
        # less than a byte is nothing
        return numpy.divide(
            self._used,
            self._fair,
            out=numpy.zeros(len(used)),
            where=self._fair >= 1.0,
        )

    def _align(self, pairs: tuple[types.ConsumerDisk, ...]) -> None:
        before = {pair: row for row, pair in enumerate(self._pairs)}
        kept = [row for row, pair in enumerate(pairs) if pair in before]
        old = [before[pairs[row]] for row in kept]
        used, fair = numpy.zeros(len(pairs)), numpy.zeros(len(pairs))
        used[kept], fair[kept] = self._used[old], self._fair[old]
        self._pairs, self._used, self._fair = pairs, used, fair
        disks = {disk: None for _, disk in pairs}
        numbers = {disk: n for n, disk in enumerate(disks)}
        self._disk = numpy.array(
            [numbers[disk] for _, disk in pairs], dtype=numpy.intp
        )
