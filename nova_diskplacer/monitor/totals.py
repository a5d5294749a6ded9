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

"""What disks and pairs have done since the agent looked first.

A round tells of one interval, and who asks now and then misses most of them;
totals miss none.
"""

import collections.abc
import dataclasses

import numpy

from nova_diskplacer.monitor import types


@dataclasses.dataclass(frozen=True)
class DiskTotals:
    """What a disk did.

    ``busy_seconds`` is the time in which requests were in flight, and
    ``request_seconds`` the time that all of them took together.
    """

    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0
    busy_seconds: float = 0.0
    request_seconds: float = 0.0


def _none() -> types.Integers:
    return numpy.zeros(0, numpy.int64)


@dataclasses.dataclass(frozen=True)
class Totals:
    """All that was counted; the arrays have a row for each of ``pairs``.

    ``cpu_seconds`` is the CPU time of the rounds, ``weight_changes`` the
    number of weights that were written. Who departs is dropped.
    """

    rounds: int = 0
    cpu_seconds: float = 0.0
    weight_changes: int = 0
    pairs: tuple[types.ConsumerDisk, ...] = ()
    read_bytes: types.Integers = dataclasses.field(default_factory=_none)
    write_bytes: types.Integers = dataclasses.field(default_factory=_none)
    reads: types.Integers = dataclasses.field(default_factory=_none)
    writes: types.Integers = dataclasses.field(default_factory=_none)
    disks: collections.abc.Mapping[str, DiskTotals] = dataclasses.field(
        default_factory=dict
    )


def add(
    totals: Totals,
    round_: types.Round,
    states: collections.abc.Mapping[str, types.DiskState],
    cpu_seconds: float,
    weight_changes: int,
) -> Totals:
    """Return the totals with one more round; ``totals`` stays as it is.

    :param states: those of the disks, by UUID.
    :param cpu_seconds: CPU time that the round took.
    :param weight_changes: weights that were written in it.
    """
    before = _aligned(totals, round_.pairs)
    return Totals(
        totals.rounds + 1,
        totals.cpu_seconds + cpu_seconds,
        totals.weight_changes + weight_changes,
        round_.pairs,
        before[0] + round_.read_bytes,
        before[1] + round_.write_bytes,
        before[2] + round_.reads,
        before[3] + round_.writes,
        {
            uuid: _disk(totals.disks.get(uuid), state, round_.seconds)
            for uuid, state in states.items()
        },
    )


def _aligned(
    totals: Totals, pairs: tuple[types.ConsumerDisk, ...]
) -> types.Integers:
    """Return what was counted, in the shape (4, R)."""
    counted = numpy.stack(
        (totals.read_bytes, totals.write_bytes, totals.reads, totals.writes)
    )
    if pairs is totals.pairs:
        return counted
    rows = {pair: row for row, pair in enumerate(totals.pairs)}
    # the last column is that of pairs that are new
    counted = numpy.pad(counted, ((0, 0), (0, 1)))
    return counted[:, [rows.get(pair, -1) for pair in pairs]]


def _disk(
    before: DiskTotals | None, state: types.DiskState, seconds: float
) -> DiskTotals:
    before = before or DiskTotals()
    return DiskTotals(
        before.read_bytes + round(state.read_bytes * seconds),
        before.write_bytes + round(state.write_bytes * seconds),
        before.reads + round(state.reads * seconds),
        before.writes + round(state.writes * seconds),
        before.busy_seconds + state.busy * seconds,
        before.request_seconds + state.queue * seconds,
    )
