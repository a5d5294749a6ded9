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

"""Sums the I/O of all intervals since the start of the agent.

Most readers see only some of the samples; totals include every interval.
"""

import collections.abc
import dataclasses

import numpy

from nova_diskplacer.monitor import pair_table
from nova_diskplacer.monitor import types


@dataclasses.dataclass(frozen=True)
class DiskTotals:
    """The I/O of a disk.

    ``busy_seconds`` is the time with requests in flight, ``request_seconds``
    the sum of the times of all requests.
    """

    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0
    busy_seconds: float = 0.0
    request_seconds: float = 0.0

    def plus(self, state: types.DiskState) -> 'DiskTotals':
        """Return the totals with an interval of the disk."""
        # the disk's own interval, not the sample's
        seconds = state.seconds
        return DiskTotals(
            self.read_bytes + round(state.read_bytes * seconds),
            self.write_bytes + round(state.write_bytes * seconds),
            self.reads + round(state.reads * seconds),
            self.writes + round(state.writes * seconds),
            self.busy_seconds + state.busy * seconds,
            self.request_seconds + state.queue * seconds,
        )


def _no_pairs() -> pair_table.PairTable:
    none = numpy.zeros(0, numpy.int64)
    return pair_table.PairTable(
        types.Pairs(),
        read_bytes=none,
        write_bytes=none,
        reads=none,
        writes=none,
    )


@dataclasses.dataclass(frozen=True)
class Totals:
    """The sums of all intervals.

    ``pairs`` has the bytes and requests of consumers on disks, ``disks`` the
    totals of disks by UUID. Consumers and disks that are gone are dropped.
    ``cpu_seconds`` is the CPU time of the I/O loop, ``weight_changes`` the
    number of weights that it has written.
    """

    intervals: int = 0
    cpu_seconds: float = 0.0
    weight_changes: int = 0
    pairs: pair_table.PairTable = dataclasses.field(default_factory=_no_pairs)
    disks: collections.abc.Mapping[str, DiskTotals] = dataclasses.field(
        default_factory=dict
    )

    def plus(
        self, sample: types.Sample, cpu_seconds: float, weight_changes: int
    ) -> 'Totals':
        """Return the totals with one more interval.

        :param cpu_seconds: CPU time of the interval.
        :param weight_changes: number of weights that were written in it.
        """
        before = self.pairs.aligned(sample.pairs)
        disks = {}
        for uuid in sample.devices:
            disks[uuid] = self.disks.get(uuid, DiskTotals())
            # a disk may be missing from /proc/diskstats for an interval
            if uuid in sample.disks:
                disks[uuid] = disks[uuid].plus(sample.disks[uuid])
        return Totals(
            intervals=self.intervals + 1,
            cpu_seconds=self.cpu_seconds + cpu_seconds,
            weight_changes=self.weight_changes + weight_changes,
            pairs=pair_table.PairTable(
                sample.pairs,
                **{
                    name: column + getattr(sample, name)
                    for name, column in before.columns.items()
                },
            ),
            disks=disks,
        )
