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

"""Opens files, replaces small ones atomically, and explains their errors."""

import collections.abc
import contextlib
import os

from nova_diskplacer import exception


@contextlib.contextmanager
def opened(
    path: str, flags: int, mode: int = 0o777, *, directory: int | None = None
) -> collections.abc.Iterator[int]:
    """Open a file by ``os.open``, yield its descriptor and close it.

    :param directory: descriptor of the directory that ``path`` is relative to.
    """
    descriptor = os.open(path, flags, mode, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def disk_errors(subject: str) -> collections.abc.Iterator[None]:
    """Raise any OSError as a DiskError about a subject."""
    try:
        yield
    except OSError as error:
        raise exception.DiskError(f'{subject}: {error.strerror}') from error


def replace(
    path: str, text: str, *, durable: bool, mode: int | None = None
) -> None:
    """Replace the content of a file; an error leaves the file unchanged.

    :param durable: flush the file and its directory to the disk. Otherwise
        the file may be empty after a crash of the machine.
    :param mode: permissions of the file, by default those of a new one.
    :raises OSError: the file cannot be written.
    """
    with open(path + '.new', 'w', encoding='utf-8') as stream:
        stream.write(text)
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    os.rename(path + '.new', path)
    if durable:
        with opened(os.path.dirname(path) or '.', os.O_DIRECTORY) as directory:
            os.fsync(directory)
