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

Each line is durable before the next measurement begins. A process that is
killed leaves at most half a line at the end, which readers ignore and the
next writer removes.
"""

import collections.abc
import contextlib
import dataclasses
import fcntl
import json
import os
import types
import typing

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.sweep import cells

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
    """What is common to all results of a run.

    ``id`` is a UUID, ``started`` a time of ISO 8601 in UTC. ``kernel``,
    ``fio``, ``qemu``, ``libvirt`` and ``nova`` are versions, '' if unknown.
    The threads of a cell move ``data_mib`` MiB together, in requests of
    ``block_kib`` KiB, for ``seconds`` at most. ``emulated`` tells of servers
    without KVM. Each cell of ``plan`` is measured ``repetitions`` times.
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
    with files.disk_errors(path), open(path, 'rb') as stream:
        lines = stream.read().split(b'\n')[:-1]
    if not lines:
        raise exception.DiskPlacerError(
            f'{path}: line 1: there is no header: no run has begun'
        )
    with _line(path, 1):
        header: Header = _parse(lines[0], 'run', Header)
        if header.version != VERSION:
            raise ValueError(
                f'version={header.version} is not one of: {VERSION}'
            )
    planned = frozenset(header.plan)
    found: dict[tuple[cells.Cell, int], cells.Result] = {}
    for number, line in enumerate(lines[1:], 2):
        with _line(path, number):
            result: cells.Result = _parse(line, 'result', cells.Result)
            if result.cell not in planned:
                raise ValueError('the cell is not in the plan of the run')
            if not 0 <= result.repetition < header.repetitions:
                raise ValueError(
                    f'repetition={result.repetition} is not from 0 to '
                    f'{header.repetitions - 1}'
                )
        # a later one takes the place of an earlier one in the order, too
        found.pop((result.cell, result.repetition), None)
        found[result.cell, result.repetition] = result
    return Run(header, tuple(found.values()))


class Writer:
    """Appends results to a file; a context manager that closes it.

    It removes half a line at the end.

    :raises DiskPlacerError: the file cannot be written, or another process
        writes it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with files.disk_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                self._lock()
                self._drop_half_a_line()
            except BaseException:
                os.close(self._file)
                raise

    @classmethod
    def create(cls, path: str, header: Header) -> 'Writer':
        """Return the writer of a new file with a header.

        :raises DiskPlacerError: the file exists, or cannot be written.
        """
        if os.path.lexists(path):
            raise exception.DiskPlacerError(f'{path} exists already')
        with files.disk_errors(path):
            files.replace(path, _text('run', header), durable=True)
        return cls(path)

    def append(self, result: cells.Result) -> None:
        """Append a result, and return when it is on the disk.

        :raises DiskError: the file cannot be written.
        """
        line = _text('result', result).encode()
        with files.disk_errors(self._path):
            if os.write(self._file, line) < len(line):
                self._drop_half_a_line()
                raise exception.DiskError(f'{self._path}: no space is left')
            os.fsync(self._file)

    def __enter__(self) -> 'Writer':
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise exception.DiskPlacerError(
                f'{self._path}: another run writes it'
            ) from error

    def _drop_half_a_line(self) -> None:
        size = os.fstat(self._file).st_size
        content = os.pread(self._file, size, 0)
        os.ftruncate(self._file, content.rfind(b'\n') + 1)


@contextlib.contextmanager
def _line(path: str, number: int) -> collections.abc.Iterator[None]:
    """Raise what is wrong with a line as an error that names it."""
    try:
        yield
    except ValueError as error:
        raise exception.DiskPlacerError(
            f'{path}: line {number}: {error}'
        ) from error


def _text(kind: str, fields: typing.Any) -> str:
    return json.dumps({'kind': kind, **dataclasses.asdict(fields)}) + '\n'


def _parse(line: bytes, kind: str, type_: type) -> typing.Any:
    """Return the dataclass of a line.

    :raises ValueError: the line is malformed.
    """
    try:
        fields = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f'not JSON: {error}') from error
    if not isinstance(fields, dict) or fields.pop('kind', None) != kind:
        raise ValueError(f'kind is not {kind}')
    return _value('', type_, fields)


def _refuse(text: str) -> typing.NoReturn:
    raise ValueError(f'{text} is no number')


def _value(name: str, kind: typing.Any, value: typing.Any) -> typing.Any:
    """Return a value of JSON as a type of a field.

    :raises ValueError: it is of another type, or not allowed.
    """
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _fields(name, kind, value)
    if origin is tuple and isinstance(value, list):
        item = typing.get_args(kind)[0]
        return tuple(_value(name, item, one) for one in value)
    if origin is dict and isinstance(value, dict):
        item = typing.get_args(kind)[1]
        return {
            key: _value(f'{name}.{key}', item, one)
            for key, one in value.items()
        }
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        wanted = getattr(kind, '__name__', kind)
        raise ValueError(f'{name}={value!r} is no {wanted}')
    allowed = _ALLOWED.get(name.rpartition('.')[2], (value,))
    if value not in allowed:
        raise ValueError(f'{name}={value} is not one of: {", ".join(allowed)}')
    return value


def _fields(
    name: str, kind: typing.Any, value: collections.abc.Mapping[str, object]
) -> typing.Any:
    hints = typing.get_type_hints(kind)
    if value.keys() != hints.keys():
        unknown = sorted(value.keys() ^ hints.keys())
        raise ValueError(
            f'{name or "the line"} lacks or does not have: '
            f'{", ".join(unknown)}'
        )
    prefix = f'{name}.' if name else ''
    return kind(
        **{
            key: _value(f'{prefix}{key}', hint, value[key])
            for key, hint in hints.items()
        }
    )
