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

"""Compares the use of each disk by its consumers to a fair share."""

import math

import numpy

from nova_diskplacer.monitor import pair_table
from nova_diskplacer.monitor import types


class FairShare:
    """Compares the use of a disk to an equal share of all use of the disk.

    Both decay exponentially, so that the state is two numbers for each
    consumer on a disk. A new consumer is compared from its arrival on.

    :param window: time constant of the decay in seconds.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        none = numpy.zeros(0)
        self._table = pair_table.PairTable(
            types.Pairs(), used=none, share=none
        )

    def update(self, sample: types.Sample) -> types.Floats:
        """Add an interval; returns the ratio of use to fair share, (R,).

        It is 1 for the mean use of the disk's consumers, 0 for no use, and n
        for the only user among n consumers.
        """
        pairs, before = sample.pairs, self._table.aligned(sample.pairs)
        used = (sample.read_bytes + sample.write_bytes).astype(numpy.float64)
        rows = pairs.disk_rows
        share = numpy.bincount(rows, used) / numpy.bincount(rows)
        kept = math.exp(-sample.seconds / self._window)
        used = before['used'] * kept + used
        share = before['share'] * kept + share[rows]
        self._table = pair_table.PairTable(pairs, used=used, share=share)
        # less than a byte is a rounding error
        return numpy.divide(
            used, share, out=numpy.zeros(len(used)), where=share >= 1.0
        )
