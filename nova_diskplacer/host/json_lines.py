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


"""Files of JSON lines that are appended to, each line a dataclass.

A process that is killed leaves at most half a line at the end, which readers
ignore and the next writer removes.
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
from nova_diskplacer.host import json_fields

# Bytes of a file that are read.
_MOST = 256 << 20


def read(path: str) -> list[bytes]:
    """Return the whole lines of a file.

    :raises DiskError: it cannot be read, or is too long.
    """
    with files.disk_errors(path), open(path, 'rb') as stream:
        content = files.read_all(stream, path, _MOST)
    return content.split(b'\n')[:-1]


def check_first_line(path: str, **marks: object) -> None:
    """Check that a file without a whole line is empty, or begins as ours do.

    The next writer removes what there is.

    :param marks: see :func:`dump`.
    :raises DiskPlacerError: it has something else, or cannot be read.
    """
    beginning = (json.dumps(marks)[:-1] + ', ').encode()
    with files.disk_errors(path), open(path, 'rb') as stream:
        content = stream.read(len(beginning))
    if not beginning.startswith(content):
        raise exception.DiskPlacerError(
            f'{path}: its only line is not finished, and does not begin with '
            f'{beginning.decode()}'
        )


@contextlib.contextmanager
def line(path: str, number: int) -> collections.abc.Iterator[None]:
    """Raise what is wrong with a line as an error that names it.

    :raises DiskPlacerError: there is a ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise exception.DiskPlacerError(
            f'{path}: line {number}: {error}'
        ) from error


def dump(fields: typing.Any, **marks: object) -> str:
    """Return the line of a dataclass, with the newline.

    :param marks: what comes before its fields, such as a version.
    """
    return json.dumps({**marks, **dataclasses.asdict(fields)}) + '\n'


def parse(text: bytes, type_: type, **marks: object) -> typing.Any:
    """Return the dataclass of a line.

    :param marks: as they must be.
    :raises ValueError: the line is malformed.
    """
    try:
        fields = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'not JSON: {error}') from error
    if isinstance(fields, dict):
        for name, mark in marks.items():
            value = fields.pop(name, None)
            if value != mark:
                raise ValueError(f'{name}={value} is not {mark}')
    return json_fields.typed(type_, fields)


def _refuse(text: str) -> typing.NoReturn:
    raise ValueError(f'{text} is no number')


class Writer:
    """Appends lines to a file; a context manager that closes it.

    It makes the file if it is missing, and removes half a line at the end.

    :raises DiskPlacerError: the file cannot be written, or another process
        writes it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with files.disk_errors(path):
            self._file = os.open(path, flags, 0o644)
            try:
                self._lock()
                self._drop_half_a_line()
            except BaseException:
                os.close(self._file)
                raise

    def add(self, fields: typing.Any, **marks: object) -> None:
        """Append a dataclass, and return when its line is on the disk.

        :param marks: see :func:`dump`.
        :raises DiskError: the file cannot be written.
        """
        content = dump(fields, **marks).encode()
        with files.disk_errors(self._path):
            if os.write(self._file, content) < len(content):
                self._drop_half_a_line()
                raise exception.DiskError(f'{self._path}: no space is left')
            os.fsync(self._file)

    def __enter__(self) -> typing.Self:
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
                f'{self._path}: another process writes it'
            ) from error

    def _drop_half_a_line(self) -> None:
        size = os.fstat(self._file).st_size
        content = os.pread(self._file, size, 0)
        os.ftruncate(self._file, content.rfind(b'\n') + 1)
