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

"""Files in which processes keep their state, each one value of JSON.

A file is replaced as a whole, so a reader never sees half of one, and needs no
lock. Writers that change what they have read hold a lock.
"""

import collections.abc
import contextlib
import dataclasses
import fcntl
import functools
import json
import logging
import math
import os
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import json_fields
from nova_diskplacer.host import log_once

LOG = logging.getLogger(__name__)

# Bytes of a file that are read; none of ours has that many.
_MOST = 16 << 20

# Seconds that a writer waits for others.
_PATIENCE = 2.0

# Some files are read once in an interval.
_unusable = log_once.ChangeLogger(LOG)

_Content = TypeVar('_Content')

#: Returns the content of a value of JSON, or raises an AttributeError,
#: KeyError, TypeError or ValueError.
Parse = collections.abc.Callable[[Any], _Content]


def read(
    path: str, parse: Parse[_Content], content: str, remedy: str = ''
) -> _Content | None:
    """Return the content of a file, None without a file.

    :param content: what the file should contain, for the error.
    :param remedy: what the operator can do if it does not.
    :raises DiskError: the file cannot be read, is too long, or contains
        something else.
    """
    try:
        with open(path, 'rb') as stream:
            text = files.read_all(stream, path, _MOST)
        return parse(json.loads(text))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise exception.DiskError(f'{path}: {error.strerror}') from error
    except (
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # the text of a KeyError is the key alone
        why = error if isinstance(error, ValueError) else repr(error)
        message = f'{path} does not contain {content}: {why}'
        raise exception.DiskError(
            f'{message}: {remedy}' if remedy else message
        ) from error


def read_usable(
    path: str, parse: Parse[_Content], content: str
) -> _Content | None:
    """Return the content of a file, None without one that can be used.

    An error is logged once, until the file can be used again.

    :param content: what the file should contain, for the log.
    """
    try:
        usable = read(path, parse, content)
    except exception.DiskError as error:
        _unusable.log(path, '%s; it is not used', error)
        return None
    _unusable.clear(path)
    return usable


def write(
    path: str, content: Any, *, durable: bool, mode: int | None = None
) -> None:
    """Replace the content of a file atomically.

    :param durable: flush it to the disk: it outlives a crash of the machine.
    :param mode: permissions of the file, by default those of a new one.
    :raises DiskError: it cannot be written.
    """
    with files.disk_errors(path):
        files.replace(
            path, json.dumps(content) + '\n', durable=durable, mode=mode
        )


@dataclasses.dataclass(frozen=True)
class FieldsFile(Generic[_Content]):
    """A file that one process writes again and again, and others read.

    It has the fields of a dataclass, and may be lost in a crash. The
    processes may be of different releases.

    :param kind: the dataclass.
    :param content: what the file should contain, for the log.
    :param mode: permissions of the file.
    """

    name: str
    kind: type[_Content]
    content: str
    mode: int

    def path(self, directory: str) -> str:
        """Return the path of the file in a directory."""
        return os.path.join(directory, self.name)

    def read(self, directory: str) -> _Content | None:
        """Return the fields, None without a file that can be used."""
        parse: Parse[_Content] = functools.partial(
            json_fields.typed_of_any_release, self.kind
        )
        return read_usable(self.path(directory), parse, self.content)

    def age(self, directory: str, now: float) -> float:
        """Return the seconds since it was written, infinity without it.

        :param now: seconds since the epoch.
        """
        try:
            return now - os.stat(self.path(directory)).st_mtime
        except OSError:
            return math.inf

    def write(self, directory: str, fields: _Content) -> None:
        """Replace the fields.

        :raises DiskError: the directory cannot be written to.
        """
        write(
            self.path(directory),
            dataclasses.asdict(fields),  # type: ignore[call-overload]
            durable=False,
            mode=self.mode,
        )


@contextlib.contextmanager
def changing(path: str) -> collections.abc.Iterator[None]:
    """Hold the lock of a file, in a directory that must exist.

    The lock is a file beside it, which only its owner can open and thus hold.
    The kernel releases it if the process is killed.

    :raises DiskError: the lock cannot be made, or another process holds it for
        longer than a change takes.
    """
    with contextlib.ExitStack() as stack:
        with files.disk_errors(path):
            lock = stack.enter_context(
                files.opened(
                    path + '.lock',
                    os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW,
                    0o600,
                )
            )
            try:
                files.take_within(
                    lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
                    BlockingIOError,
                    _PATIENCE,
                )
            except BlockingIOError as error:
                raise exception.DiskError(
                    f'{path} is being changed by another process'
                ) from error
        yield
