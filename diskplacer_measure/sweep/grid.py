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

"""Builds the cells of a sweep from the values that are to be compared."""

import collections.abc
import dataclasses
import itertools

from diskplacer_measure.sweep import cells

#: The shapes of P0, Table I: virtual CPUs, and memory in MiB.
SHAPES = tuple(
    cells.Shape(vcpus, gib * 1024)
    for vcpus, gib in ((1, 1), (2, 4), (4, 8), (8, 16), (16, 16))
)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The values of each setting; no sequence is empty.

    ``jobs`` are the threads of bare metal and of one server, ``at_once`` the
    numbers of servers that run at once. ``depths`` are those of asynchronous
    I/O. ``cache_mode`` is that of this host's vdisks.
    """

    scenarios: collections.abc.Sequence[str]
    shapes: collections.abc.Sequence[cells.Shape]
    jobs: collections.abc.Sequence[int]
    at_once: collections.abc.Sequence[int]
    engines: collections.abc.Sequence[str]
    depths: collections.abc.Sequence[int]
    host_schedulers: collections.abc.Sequence[str]
    guest_schedulers: collections.abc.Sequence[str]
    read_ahead_kb: collections.abc.Sequence[int]
    cache_mode: str


@dataclasses.dataclass(frozen=True)
class _Place:
    """The place of the threads of a cell; ``jobs`` run in each server."""

    scenario: str
    servers: int
    shape: cells.Shape
    jobs: int


def build(grid: Grid) -> tuple[cells.Cell, ...]:
    """Return the cells, each once, sorted.

    As in P0's Figures 3 and 4, only asynchronous I/O is measured with every
    scheduler of the host; blocking I/O is with the first. Only reads through
    the page cache are measured with every read-ahead; all else is with the
    first. Servers that run at once have the smallest shape.
    """
    return tuple(
        sorted(
            {
                cell
                for place in _places(grid)
                for engine in grid.engines
                for operation in cells.OPERATIONS
                for cell in _variants(grid, place, engine, operation)
            }
        )
    )


def _places(grid: Grid) -> collections.abc.Iterator[_Place]:
    if 'bare' in grid.scenarios:
        for jobs in grid.jobs:
            yield _Place('bare', 0, cells.Shape(0, 0), jobs)
    if 'server' in grid.scenarios:
        for shape in grid.shapes:
            for jobs in grid.jobs:
                yield _Place('server', 1, shape, jobs)
    if 'servers' in grid.scenarios:
        for servers in grid.at_once:
            yield _Place('servers', servers, min(grid.shapes), 1)


def _variants(
    grid: Grid, place: _Place, engine: str, operation: str
) -> collections.abc.Iterator[cells.Cell]:
    asynchronous = engine == 'async'
    ahead = engine == 'sync_cached' and operation == 'read'
    for depth, host, guest, kib in itertools.product(
        grid.depths if asynchronous else (1,),
        grid.host_schedulers if asynchronous else grid.host_schedulers[:1],
        grid.guest_schedulers if place.servers else ('',),
        grid.read_ahead_kb if ahead else grid.read_ahead_kb[:1],
    ):
        yield cells.Cell(
            place.scenario,
            place.servers,
            place.shape.vcpus,
            place.shape.ram_mib,
            engine,
            operation,
            place.jobs,
            depth,
            host,
            guest,
            grid.cache_mode if place.servers else '',
            kib,
        )
