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

import numpy

from nova_diskplacer.monitor import pair_table
from nova_diskplacer.monitor import types


class History:
    """Keeps statistics of each consumer on a disk.

    Pairs that disappear from the counters are dropped.
    """

    def __init__(self) -> None:
        count, number = numpy.zeros(0, numpy.int64), numpy.zeros(0)
        rates = numpy.zeros((0, 2))
        self._table = pair_table.PairTable(
            types.Pairs(),
            counters=numpy.zeros((0, 4), numpy.int64),
            active=count,
            minimum=rates,
            maximum=rates,
            mean=rates,
            # the sum of squares about the mean
            squares=rates,
            idle_seconds=number,
        )

    def update(
        self, seconds: float, counters: types.Counters
    ) -> types.Integers:
        """Return the increase of counters in an interval, (R, 4).

        Counters that fell were reset. The first reading of a cgroup or disk
        is no increase.
        """
        before = self._table.aligned(counters.pairs)
        done: types.Integers = counters.values - before['counters']
        done = numpy.where(done < 0, counters.values, done)
        done[counters.first] = 0
        # Welford's method
        rates = done[:, :2] / seconds
        busy: types.Booleans = numpy.logical_or.reduce(done != 0, axis=1)
        active = before['active'] + busy
        begun, busy_rates = before['active'][:, None] > 0, busy[:, None]
        error = rates - before['mean']
        mean = before['mean'] + (
            busy_rates * error / numpy.maximum(active, 1)[:, None]
        )
        lower = ~begun | (rates < before['minimum'])
        self._table = pair_table.PairTable(
            counters.pairs,
            counters=counters.values,
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

    def summary(self) -> types.Summary:
        """Return the rates of all pairs; any thread may call it."""
        table = self._table
        active = table['active']
        return types.Summary(
            pairs=table.pairs,
            active=active,
            minimum=table['minimum'],
            maximum=table['maximum'],
            mean=table['mean'],
            deviation=numpy.sqrt(
                table['squares'] / numpy.maximum(active, 1)[:, None]
            ),
            idle_seconds=table['idle_seconds'],
        )
