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

"""Plans a sweep: its boots, their order, and the slots of their cells.

A boot is one start of servers, or one stretch of bare metal, and measures the
cells of one shape and number of servers. Each cell has a slot, in which all
servers run fio at once; host and servers know it by the clock.
"""

import collections
import collections.abc
import dataclasses
import math
import random

from diskplacer_measure.sweep import cells

#: Seconds before a slot, in which the host changes its queue.
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
# as far as nothing is known.
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
    """What a cell moves at most: MiB of all threads together, and seconds."""

    data_mib: int
    seconds: int


@dataclasses.dataclass(frozen=True, order=True)
class Body:
    """Where cells run: bare metal, or servers of one shape."""

    scenario: str
    servers: int
    vcpus: int
    ram_mib: int

    @classmethod
    def of(cls, cell: cells.Cell) -> 'Body':
        """Return where a cell runs."""
        return cls(cell.scenario, cell.servers, cell.vcpus, cell.ram_mib)

    def share_mib(self, data_mib: int) -> int:
        """Return the MiB of the data that each server moves."""
        return max(1, data_mib // max(self.servers, 1))


@dataclasses.dataclass(frozen=True)
class Item:
    """A repetition of a cell, which is to be measured."""

    cell: cells.Cell
    repetition: int


@dataclasses.dataclass(frozen=True)
class Boot:
    """Cells that one boot measures, in this order."""

    body: Body
    items: tuple[Item, ...]


@dataclasses.dataclass(frozen=True)
class Slot:
    """When an item is measured: from ``start`` until ``end`` at the latest.

    Both are whole seconds since the epoch.
    """

    item: Item
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Pace:
    """The time that the steps of a boot took.

    ``boot`` are the seconds from the request for servers until the last one
    ran its script, 0 on bare metal. ``fill_mbps`` (MB/s) is how fast the
    measured space was filled, all servers together. ``overhead`` are the
    seconds that fio took beside moving data.
    """

    boot: float
    fill_mbps: float
    overhead: float


@dataclasses.dataclass(frozen=True)
class Timing:
    """What a run knows of the time that its steps take, by where cells run.

    ``boot_timeout`` are the seconds after which servers count as not booting.
    ``fill_mbps`` (MB/s) is assumed while nothing is known. With a ``patience``
    above 1, boots and cells may take that many times as long.
    """

    boot_timeout: float
    fill_mbps: float
    paces: collections.abc.Mapping[Body, Pace] = dataclasses.field(
        default_factory=dict
    )
    patience: float = 1.0

    def learned(self, body: Body, pace: Pace) -> 'Timing':
        """Return what is known after a boot."""
        return dataclasses.replace(self, paces={**self.paces, body: pace})

    def boot_seconds(self, body: Body) -> float:
        """Return the seconds after which servers are expected to have booted.

        Those that take longer, up to ``boot_timeout``, have to boot again.
        """
        if not body.servers:
            return 0
        # others may be slower
        longest = max((pace.boot for pace in self.paces.values()), default=0)
        known = self.pace(body).boot or 2 * longest
        expected = 10 + 1.5 * known if known else _FIRST_BOOT
        return min(self.boot_timeout, self.patience * expected)

    def fill_seconds(self, body: Body, data_mib: int) -> float:
        """Return the seconds in which the measured space is filled."""
        seconds = _seconds(data_mib, self.pace(body).fill_mbps)
        return self.patience * (5 + 1.5 * seconds)

    def slot_seconds(self, cell: cells.Cell, limits: Limits) -> int:
        """Return the length of a slot, without the gap before it."""
        pace = self.pace(Body.of(cell))
        beside = 1 + 1.5 * pace.overhead
        if flushes(cell):
            held = limits.data_mib
            if cell.servers:
                held = min(held, int(_DIRTY * cell.ram_mib * cell.servers))
            beside += 1.5 * _seconds(held, pace.fill_mbps)
        return math.ceil(limits.seconds + self.patience * beside)

    def pace(self, body: Body) -> Pace:
        """Return what the steps of a boot of these servers take."""
        return self.paces.get(body, Pace(0, self.fill_mbps, _OVERHEAD))


def _seconds(mib: int, mbps: float) -> float:
    return mib * 1.048576 / mbps


def flushes(cell: cells.Cell) -> bool:
    """Return whether a cell ends long after its limit of time.

    A write through the page cache ends when all that the cache holds is on
    the disk.
    """
    return cell.engine == 'sync_cached' and cell.operation == 'write'


def boots(items: collections.abc.Iterable[Item], seed: str) -> list[Boot]:
    """Return the boots that measure items, each once.

    A repetition is a block: it visits all of its cells before the next one
    begins. Within it, boots are in random order, and so are the cells of each.

    :param seed: the same seed yields the same order.
    """
    blocks: dict[int, dict[Body, list[Item]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for item in items:
        blocks[item.repetition][Body.of(item.cell)].append(item)
    found = []
    for repetition, bodies in sorted(blocks.items()):
        chance = random.Random(f'{seed} {repetition}')  # noqa: S311
        of_block = []
        for body, members in sorted(bodies.items()):
            order = sorted(members, key=lambda item: item.cell)
            chance.shuffle(order)
            of_block += [
                Boot(body, tuple(order[first : first + CELLS_OF_A_BOOT]))
                for first in range(0, len(order), CELLS_OF_A_BOOT)
            ]
        chance.shuffle(of_block)
        found += of_block
    return found


def items_of(
    plan: collections.abc.Iterable[cells.Cell], repetitions: int
) -> list[Item]:
    """Return all repetitions of all cells."""
    return [
        Item(cell, repetition)
        for cell in plan
        for repetition in range(repetitions)
    ]


def slots(
    boot: Boot, start: int, timing: Timing, limits: Limits
) -> list[Slot]:
    """Return the slots of a boot's items, which do not overlap.

    :param start: the time from which the host may change its queue, in
        seconds since the epoch.
    """
    found = []
    for index, item in enumerate(boot.items):
        if index and not index % READ_EVERY:
            start += _PAUSE + _PAUSE_OF_A_SERVER * boot.body.servers
        begin = start + GAP
        start = begin + timing.slot_seconds(item.cell, limits)
        found.append(Slot(item, begin, start))
    return found


def lead_seconds(boot: Boot, timing: Timing, limits: Limits) -> int:
    """Return the seconds from the request for servers until their slots."""
    return math.ceil(
        timing.boot_seconds(boot.body)
        + timing.fill_seconds(boot.body, limits.data_mib)
    )


def duration(
    planned: collections.abc.Iterable[Boot], timing: Timing, limits: Limits
) -> float:
    """Return the seconds that boots take, as far as it is known."""
    seconds = 0.0
    for boot in planned:
        seconds += lead_seconds(boot, timing, limits)
        made = slots(boot, 0, timing, limits)
        if boot.body.servers:
            seconds += made[-1].end + _DELETE
            if boot.body not in timing.paces:
                pace = Pace(_BOOT, timing.fill_mbps, _OVERHEAD)
                timing = timing.learned(boot.body, pace)
        else:
            # cells of bare metal wait for no slots
            seconds += len(made) * (limits.seconds + GAP)
    return seconds
