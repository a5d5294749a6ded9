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

"""Computes the I/O of consumers in an interval and over all intervals."""

import math

import numpy

from nova_diskplacer.monitor import types


class History:
    """Keeps statistics of each consumer on a disk.

    Pairs that disappear from the counters are dropped. ``table`` has these
    columns:

    - ``counters`` at the last update, and ``totals``, their increase in all
      intervals, (R, 5)
    - the rates since the pair was first seen, in bytes read and written per
      second and in intervals that were not idle, (R, 2): ``minimum``,
      ``maximum``, ``mean`` and ``squares``, the sum of squares about the mean
    - ``active``, the number of these intervals, and ``idle_seconds``, the time
      since the last of them, (R,)
    """

    def __init__(self) -> None:
        counters = numpy.zeros((0, types.COUNTERS), numpy.int64)
        rates = numpy.zeros((0, 2))
        self.table = types.PairTable(
            types.Pairs(),
            counters=counters,
            totals=counters,
            active=numpy.zeros(0, numpy.int64),
            minimum=rates,
            maximum=rates,
            mean=rates,
            squares=rates,
            idle_seconds=numpy.zeros(0),
        )

    def update(
        self, seconds: float, counters: types.Counters
    ) -> types.Integers:
        """Return the increase of counters in an interval, (R, 5).

        Counters that fell were reset. The first reading of a cgroup or disk
        is no increase.
        """
        before = self.table.aligned(counters.pairs)
        done: types.Integers = counters.values - before['counters']
        done = numpy.where(done < 0, counters.values, done)
        done[counters.first] = 0
        # Welford's method
        rates = done[:, :2] / seconds
        busy = has_requests(done)
        active = before['active'] + busy
        had_activity, busy_rates = before['active'][:, None] > 0, busy[:, None]
        error = rates - before['mean']
        mean = before['mean'] + (
            busy_rates * error / numpy.maximum(active, 1)[:, None]
        )
        lower = ~had_activity | (rates < before['minimum'])
        self.table = types.PairTable(
            counters.pairs,
            counters=counters.values,
            totals=before['totals'] + done,
            active=active,
            minimum=numpy.where(busy_rates & lower, rates, before['minimum']),
            maximum=numpy.maximum(before['maximum'], rates),
            mean=mean,
            squares=before['squares'] + busy_rates * error * (rates - mean),
            idle_seconds=numpy.where(
                busy, 0.0, before['idle_seconds'] + seconds
            ),
        )
        return done


def has_requests(done: types.Integers) -> types.Booleans:
    """Return which rows of increases of counters have requests or bytes, (R,).

    What io.cost charges later than the requests does not count.
    """
    requested: types.Booleans = numpy.logical_or.reduce(
        done[:, :4] != 0, axis=1
    )
    return requested


class FairShare:
    """Compares the use of a disk to an equal share of all use of the disk.

    Both decay exponentially, so that the state is two numbers for each
    consumer on a disk. A new consumer is compared from its arrival on.

    :param window: time constant of the decay in seconds.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        none = numpy.zeros(0)
        self._table = types.PairTable(types.Pairs(), used=none, share=none)

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
        self._table = types.PairTable(pairs, used=used, share=share)
        # less than a byte is a rounding error
        return numpy.divide(
            used, share, out=numpy.zeros(len(used)), where=share >= 1.0
        )
