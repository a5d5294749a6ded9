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

"""The results file of a sweep: JSON lines, a header first.

Each line is durable before the next measurement begins.
"""

import dataclasses
import os

from diskplacer_measure.sweep import cells
from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import json_lines

VERSION = 1

_ALLOWED = {
    'scenario': cells.SCENARIOS,
    'engine': cells.ENGINES,
    'operation': cells.OPERATIONS,
}


@dataclasses.dataclass(frozen=True)
class Disk:
    """The measured disk; ``bytes`` is its size, ``device`` its block device.

    ``device`` is the kernel's name of it, such as ``sda``.
    """

    uuid: str
    model: str
    medium: str
    bytes: int
    device: str


@dataclasses.dataclass(frozen=True)
class Header:
    """The facts that are common to all results of a run.

    ``id`` is a UUID, ``started`` a time of ISO 8601 in UTC. ``kernel``,
    ``fio``, ``qemu``, ``libvirt`` and ``nova`` are versions, '' if unknown.
    The threads of a cell move ``data_mib`` MiB together, in requests of
    ``block_kib`` KiB, for ``seconds`` at most. With ``emulated``, servers have
    no KVM. Each cell of ``plan`` is measured ``repetitions`` times.
    """

    version: int
    id: str
    host: str
    started: str
    kernel: str
    fio: str
    qemu: str
    libvirt: str
    nova: str
    disk: Disk
    cpus: int
    memory_mib: int
    data_mib: int
    seconds: int
    block_kib: int
    repetitions: int
    emulated: bool
    plan: tuple[cells.Cell, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run: its header, and its results so far, one for each repetition.

    A later result of a cell and repetition replaces an earlier one.
    """

    header: Header
    results: tuple[cells.Result, ...]


def read(path: str) -> Run:
    """Return the run in a results file.

    :raises DiskPlacerError: the file cannot be read, or a line is malformed;
        the message names the file and the line.
    """
    lines = json_lines.read(path)
    if not lines:
        raise exception.DiskPlacerError(
            f'{path}: line 1: there is no header: no run has begun'
        )
    with json_lines.line(path, 1):
        header: Header = json_lines.parse(lines[0], Header, kind='run')
        _check(header)
    planned = frozenset(header.plan)
    by_repetition: dict[tuple[cells.Cell, int], cells.Result] = {}
    for number, line in enumerate(lines[1:], 2):
        with json_lines.line(path, number):
            result: cells.Result = json_lines.parse(
                line, cells.Result, kind='result'
            )
            if result.cell not in planned:
                raise ValueError('the cell is not in the plan of the run')
            if not 0 <= result.repetition < header.repetitions:
                raise ValueError(
                    f'repetition={result.repetition} is not from 0 to '
                    f'{header.repetitions - 1}'
                )
        # a later one takes the place of an earlier one in the order, too
        by_repetition.pop((result.cell, result.repetition), None)
        by_repetition[result.cell, result.repetition] = result
    return Run(header, tuple(by_repetition.values()))


def _check(header: Header) -> None:
    """Check that a run is one that can be.

    :raises ValueError: a value is not allowed.
    """
    if header.version != VERSION:
        raise ValueError(f'version={header.version} is not one of: {VERSION}')
    for name in ('data_mib', 'seconds', 'block_kib', 'repetitions'):
        _require(name, getattr(header, name), 1)
    for cell in header.plan:
        for name, allowed in _ALLOWED.items():
            value = getattr(cell, name)
            if value not in allowed:
                raise ValueError(
                    f'plan.{name}={value} is not one of: {", ".join(allowed)}'
                )
        if cell.scenario != cells.SCENARIOS[max(0, min(cell.servers, 2))]:
            raise ValueError(
                f'plan.servers={cell.servers} is not of the scenario '
                f'{cell.scenario}'
            )
        for name in ('jobs', 'depth'):
            _require(f'plan.{name}', getattr(cell, name), 1)
        for name in ('vcpus', 'ram_mib'):
            _require(
                f'plan.{name}', getattr(cell, name), int(cell.servers > 0)
            )


def _require(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f'{name}={value} is not at least {least}')


class Writer(json_lines.Writer):
    """Appends results to the file of a run."""

    @classmethod
    def create(cls, path: str, header: Header) -> 'Writer':
        """Return the writer of a new file with a header.

        :raises DiskPlacerError: the file exists, or cannot be written.
        """
        if os.path.lexists(path):
            raise exception.DiskPlacerError(f'{path} exists already')
        with files.disk_errors(path):
            files.replace(
                path, json_lines.dump(header, kind='run'), durable=True
            )
        return cls(path)

    def append(self, result: cells.Result) -> None:
        """Append a result, and return when it is on the disk.

        :raises DiskError: the file cannot be written.
        """
        self.add(result, kind='result')
