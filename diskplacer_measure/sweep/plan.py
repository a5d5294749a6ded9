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

"""Plans a sweep: its boots, their order, and the time windows of cells.

A batch is measured by one start of servers, or one stretch of bare metal: it
has the cells of one shape and number of servers. Each cell has a window, in
which all servers run fio at once; host and servers know it by the clock.
"""

import collections
import collections.abc
import dataclasses
import math
import random

from diskplacer_measure.sweep import cells

#: Seconds before a window, in which the host changes its queue.
GAP = 1
#: Cells between two pauses, in which the host reads the consoles: Nova keeps
#: the last 100 KiB of a console, of which a cell of 128 threads takes 3.7.
READ_EVERY = 25
# Seconds of such a pause, and those for each server more.
_PAUSE = 5
_PAUSE_OF_A_SERVER = 1
#: Cells of a boot at most: Nova accepts 64 KiB of user data.
CELLS_OF_A_BOOT = 300
# Seconds that a server takes to boot, and that fio takes beside moving data,
# until a boot has measured them.
_BOOT = 30
_OVERHEAD = 2.0
# Seconds that the first servers have to boot before they measure.
_FIRST_BOOT = 90
# Seconds to delete the servers of a boot and their volumes.
_DELETE = 15
# Shares of memory that Linux fills with data to write before it makes writers
# wait: vm.dirty_ratio is 20 % of what is available.
_DIRTY = 0.25


@dataclasses.dataclass(frozen=True)
class Limits:
    """The most that a cell takes: MiB of all threads together, and seconds."""

    data_mib: int
    seconds: int


@dataclasses.dataclass(frozen=True, order=True)
class Target:
    """The machines that run cells: bare metal, or servers of one shape."""

    scenario: str
    servers: int
    vcpus: int
    ram_mib: int

    @classmethod
    def of(cls, cell: cells.Cell) -> 'Target':
        """Return the target of a cell."""
        return cls(cell.scenario, cell.servers, cell.vcpus, cell.ram_mib)

    def share_mib(self, data_mib: int) -> int:
        """Return the MiB of the data that each server moves."""
        return max(1, data_mib // max(self.servers, 1))


@dataclasses.dataclass(frozen=True)
class Repetition:
    """A repetition of a cell; ``number`` counts from 0."""

    cell: cells.Cell
    number: int


@dataclasses.dataclass(frozen=True)
class BootBatch:
    """The repetitions that one boot measures, in this order."""

    target: Target
    repetitions: tuple[Repetition, ...]


@dataclasses.dataclass(frozen=True)
class Window:
    """The time of a repetition: from ``start`` until ``end`` at the latest.

    Both are whole seconds since the epoch.
    """

    repetition: Repetition
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """The time that the steps of a boot took.

    ``boot`` are the seconds from the request for servers until the last one
    ran its script, 0 on bare metal. ``fill_mbps`` (MB/s) is the rate at which
    the measured space was filled, all servers together. ``overhead`` are the
    seconds that fio took beside moving data.
    """

    boot: float
    fill_mbps: float
    overhead: float


@dataclasses.dataclass(frozen=True)
class Timing:
    """Estimates of the time that the steps of a boot take, by target.

    ``boot_timeout`` are the seconds after which servers count as not booting.
    ``fill_mbps`` (MB/s) is assumed until a boot has measured it. With a
    ``patience`` above 1, boots and cells may take that many times as long.
    """

    boot_timeout: float
    fill_mbps: float
    step_times: collections.abc.Mapping[Target, StepTimes] = dataclasses.field(
        default_factory=dict
    )
    patience: float = 1.0

    def updated(self, target: Target, times: StepTimes) -> 'Timing':
        """Return the timing with the measured times of a target."""
        return dataclasses.replace(
            self, step_times={**self.step_times, target: times}
        )

    def boot_seconds(self, target: Target) -> float:
        """Return the seconds after which servers are expected to have booted.

        Those that take longer, up to ``boot_timeout``, have to boot again.
        """
        if not target.servers:
            return 0
        # others may be slower
        longest = max(
            (times.boot for times in self.step_times.values()), default=0
        )
        measured = self.times(target).boot or 2 * longest
        expected = 10 + 1.5 * measured if measured else _FIRST_BOOT
        return min(self.boot_timeout, self.patience * expected)

    def fill_seconds(self, target: Target, data_mib: int) -> float:
        """Return the seconds in which the measured space is filled."""
        seconds = _seconds(data_mib, self.times(target).fill_mbps)
        return self.patience * (5 + 1.5 * seconds)

    def window_seconds(self, cell: cells.Cell, limits: Limits) -> int:
        """Return the length of a window, without the gap before it."""
        times = self.times(Target.of(cell))
        beside_s = 1 + 1.5 * times.overhead
        if flushes(cell):
            cached_mib = limits.data_mib
            if cell.servers:
                dirty_mib = int(_DIRTY * cell.ram_mib * cell.servers)
                cached_mib = min(cached_mib, dirty_mib)
            beside_s += 1.5 * _seconds(cached_mib, times.fill_mbps)
        return math.ceil(limits.seconds + self.patience * beside_s)

    def times(self, target: Target) -> StepTimes:
        """Return the times of a target, estimates if it was never booted."""
        return self.step_times.get(
            target, StepTimes(0, self.fill_mbps, _OVERHEAD)
        )


def _seconds(mib: int, mbps: float) -> float:
    return mib * 1.048576 / mbps


def flushes(cell: cells.Cell) -> bool:
    """Return whether a cell ends long after its limit of time.

    A write through the page cache ends when all that the cache holds is on
    the disk.
    """
    return cell.engine == 'sync_cached' and cell.operation == 'write'


def batches(
    repetitions: collections.abc.Iterable[Repetition], seed: str
) -> list[BootBatch]:
    """Return the batches that measure repetitions, each once.

    Repetitions of one number are a block: all of its cells are measured before
    the next block begins. Within it, batches are in random order, and so are
    the cells of each.

    :param seed: the same seed yields the same order.
    """
    blocks: dict[int, dict[Target, list[Repetition]]] = (
        collections.defaultdict(lambda: collections.defaultdict(list))
    )
    for repetition in repetitions:
        target = Target.of(repetition.cell)
        blocks[repetition.number][target].append(repetition)
    ordered = []
    for number, block in sorted(blocks.items()):
        chance = random.Random(f'{seed} {number}')  # noqa: S311
        of_block = []
        for target, members in sorted(block.items()):
            order = sorted(members, key=lambda member: member.cell)
            chance.shuffle(order)
            of_block += [
                BootBatch(
                    target, tuple(order[first : first + CELLS_OF_A_BOOT])
                )
                for first in range(0, len(order), CELLS_OF_A_BOOT)
            ]
        chance.shuffle(of_block)
        ordered += of_block
    return ordered


def repetitions_of(
    plan: collections.abc.Iterable[cells.Cell], repetitions: int
) -> list[Repetition]:
    """Return all repetitions of all cells."""
    return [
        Repetition(cell, number)
        for cell in plan
        for number in range(repetitions)
    ]


def windows(
    batch: BootBatch, start: int, timing: Timing, limits: Limits
) -> list[Window]:
    """Return the windows of a batch, which do not overlap.

    :param start: the time from which the host may change its queue, in
        seconds since the epoch.
    """
    planned = []
    for index, repetition in enumerate(batch.repetitions):
        if index and not index % READ_EVERY:
            start += _PAUSE + _PAUSE_OF_A_SERVER * batch.target.servers
        begin = start + GAP
        start = begin + timing.window_seconds(repetition.cell, limits)
        planned.append(Window(repetition, begin, start))
    return planned


def lead_seconds(batch: BootBatch, timing: Timing, limits: Limits) -> int:
    """Return the seconds from the request for servers until their windows."""
    return math.ceil(
        timing.boot_seconds(batch.target)
        + timing.fill_seconds(batch.target, limits.data_mib)
    )


def duration(
    planned: collections.abc.Iterable[BootBatch],
    timing: Timing,
    limits: Limits,
) -> float:
    """Return the estimated seconds that batches take."""
    seconds = 0.0
    for batch in planned:
        seconds += lead_seconds(batch, timing, limits)
        batch_windows = windows(batch, 0, timing, limits)
        if batch.target.servers:
            seconds += batch_windows[-1].end + _DELETE
            if batch.target not in timing.step_times:
                times = StepTimes(_BOOT, timing.fill_mbps, _OVERHEAD)
                timing = timing.updated(batch.target, times)
        else:
            # cells of bare metal wait for no windows
            seconds += len(batch_windows) * (limits.seconds + GAP)
    return seconds
