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

"""The file of measured runs: one JSON object a line.

A killed process leaves at most its last line half-written. Such a line is not
read, and the next process that appends removes it.
"""

import collections.abc
import contextlib
import dataclasses
import json
import math
import os
import typing

from nova_diskplacer import exception
from nova_diskplacer.host import files

VERSION = 1

#: Whether the vCPUs of a run were pinned to CPUs, by the experiment.
PINNED = 'pinned'
FLOATING = 'floating'


@dataclasses.dataclass(frozen=True)
class Sample:
    """A run of a load, and the counters of a server meanwhile.

    ``started`` is a time in ISO 8601, ``seconds`` the running time, which is
    what ``load`` says of its operations alone if it says so. ``counters`` are
    sums of the run, but for sizes in bytes, which are those at its end;
    ``missing`` has the reason for each counter that this host has not.

    ``vcpus_are`` is PINNED or FLOATING, and ``block`` the number of the block
    of two runs, in an experiment on migrations; else '' and None. ``load`` is
    what the load printed about itself, {} if nothing.
    """

    started: str
    host: str
    kernel: str
    server: str
    vcpus: int
    memory_bytes: int
    seconds: float
    counters: dict[str, float]
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    block: int | None = None
    vcpus_are: str = ''
    load: dict[str, typing.Any] = dataclasses.field(default_factory=dict)

    @property
    def data_bytes(self) -> int | None:
        """The size of the load's data set, None if it is not known."""
        found = self.load.get('data_bytes')
        return found if isinstance(found, int) else None

    @property
    def operations(self) -> int | None:
        """The number of operations of the load, None if it is not known."""
        found = self.load.get('operations')
        return found if isinstance(found, int) and found > 0 else None


def to_line(sample: Sample) -> str:
    """Return the line of a run, with the newline."""
    fields = {'version': VERSION, **dataclasses.asdict(sample)}
    return json.dumps(fields) + '\n'


def append(path: str, samples: collections.abc.Iterable[Sample]) -> None:
    """Add runs to a file durably; make it if it is missing.

    :raises SizingError: the file cannot be written.
    """
    text = ''.join(map(to_line, samples)).encode()
    with (
        _explained(path),
        files.opened(path, os.O_RDWR | os.O_CREAT, 0o644) as file,
    ):
        size = _end_of_lines(file)
        os.ftruncate(file, size)
        done = 0
        while done < len(text):
            done += os.pwrite(file, text[done:], size + done)
        os.fsync(file)


def check_writable(path: str) -> None:
    """Check that runs can be added to a file, before any is made.

    :raises SizingError: the file cannot be written, or has something else.
    """
    if os.path.exists(path):
        read(path)
    append(path, ())


def read(path: str) -> list[Sample]:
    """Return the runs of a file, without a half-written last line.

    :raises SizingError: the file cannot be read, or a line is no run; the
        message names the line.
    """
    with _explained(path), open(path, 'rb') as stream:
        lines = stream.read().split(b'\n')
    # what follows the last newline is nothing, or half a line
    return [
        _parse(f'{path}, line {number}', line)
        for number, line in enumerate(lines[:-1], 1)
    ]


def _end_of_lines(file: int) -> int:
    """Return the size of a file without a half-written last line."""
    end = os.fstat(file).st_size
    while end:
        begin = max(0, end - 4096)
        newline = os.pread(file, end - begin, begin).rfind(b'\n')
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _parse(where: str, line: bytes) -> Sample:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise exception.SizingError(f'{where}: no JSON: {error}') from error
    if not isinstance(fields, dict):
        raise exception.SizingError(f'{where}: no object of JSON')
    version = fields.pop('version', None)
    if version != VERSION:
        raise exception.SizingError(
            f'{where}: version {version!r} is not {VERSION}'
        )
    try:
        sample = Sample(**fields)
    except TypeError as error:
        raise exception.SizingError(
            f'{where}: not the fields of a run: {error}'
        ) from error
    problem = _problem(sample)
    if problem:
        raise exception.SizingError(f'{where}: {problem}')
    return sample


def _problem(sample: Sample) -> str:
    for name, kinds in _KINDS.items():
        value = getattr(sample, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return f'{name}={value!r} is not {_names(kinds)}'
    for name in ('seconds', 'vcpus', 'memory_bytes'):
        value = getattr(sample, name)
        if not 0 < value < math.inf:
            return f'{name}={value!r} is not above 0'
    if sample.vcpus_are not in ('', PINNED, FLOATING):
        return (
            f'vcpus_are={sample.vcpus_are!r} is none of {PINNED!r}, '
            f"{FLOATING!r} and ''"
        )
    for name, value in sample.counters.items():
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            return f'counter {name}={value!r} is not a number'
    return ''


_KINDS: dict[str, tuple[type, ...]] = {
    'started': (str,),
    'host': (str,),
    'kernel': (str,),
    'server': (str,),
    'vcpus': (int,),
    'memory_bytes': (int,),
    'seconds': (int, float),
    'counters': (dict,),
    'missing': (dict,),
    'block': (int, type(None)),
    'vcpus_are': (str,),
    'load': (dict,),
}


def _names(kinds: tuple[type, ...]) -> str:
    return ' or '.join(kind.__name__ for kind in kinds)


@contextlib.contextmanager
def _explained(path: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except OSError as error:
        raise exception.SizingError(f'{path}: {error.strerror}') from error
