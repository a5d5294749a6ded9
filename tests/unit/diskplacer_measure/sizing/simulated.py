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

"""Runs with the design of P1, simulated: what the truth is, is known.

P1 (§III-B) has 120 runs for each size of the data: three workloads by four
numbers of vCPUs, ten times each, 800,000 operations a run. An operation took
1 ms with 2 GB of data and 5.6 ms with 8 GB.
"""

import dataclasses

import numpy

OPERATIONS = 800_000
WORKLOADS, VCPUS, REPETITIONS = 3, 4, 10


@dataclasses.dataclass(frozen=True)
class Data:
    """What P1 publishes of a size of its data, in seconds and R².

    ``load`` and ``migration`` are its slopes. It states R² of migrations; that
    of LLC loads is above 0.93 (§I-B).
    """

    operation: float
    load: float
    migration: float
    migration_r2: float

    @property
    def seconds(self):
        """The mean running time."""
        return OPERATIONS * self.operation


PUBLISHED = {
    '2 GB': Data(1e-3, 56.2e-9, 8.4849e-4, 0.86),
    '8 GB': Data(5.6e-3, 20.6e-6, 3.2885e-3, 0.94),
}

LOAD_R2 = 0.95

# P1 shows the spread of its running times in plots only. Here the means of its
# workloads differ by 30 % and the runs of one by 10 %.
_BETWEEN = numpy.array([0.7, 1.0, 1.3])
_WITHIN = 0.1

# How much the rate of migrations changes from run to run.
_RATE = 0.09


def running_times(source, mean):
    """Return the times of the runs of P1's design, without a cause."""
    means = mean * numpy.repeat(_BETWEEN, VCPUS * REPETITIONS)
    return means * (1 + _WITHIN * source.standard_normal(len(means)))


def caused(source, data, slope, r2):
    """Return counts and times, where each event takes ``slope`` seconds.

    The rest of the time is noise, so that R² is ``r2`` but for chance.
    """
    explained = running_times(source, data.seconds)
    noise = numpy.std(explained) * numpy.sqrt((1 - r2) / r2)
    times = explained + noise * source.standard_normal(len(explained))
    return explained / slope, times


def steady(source, data):
    """Return migrations and times, where a migration takes no time.

    Migrations come at a rate of one per published slope, whatever else
    happens.
    """
    times = running_times(source, data.seconds)
    rates = (1 + _RATE * source.standard_normal(len(times))) / data.migration
    return rates * times, times
