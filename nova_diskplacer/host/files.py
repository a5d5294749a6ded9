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

"""Opens, locks and atomically replaces files, and explains their errors."""

import collections.abc
import contextlib
import fcntl
import os

from nova_diskplacer import exception

LOCK_DIRECTORY = '/run/diskplacer'


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
    new = path + '.diskplacer'
    with open(new, 'w', encoding='utf-8') as stream:
        stream.write(text)
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    os.rename(new, path)
    if durable:
        with opened(os.path.dirname(path) or '.', os.O_DIRECTORY) as directory:
            os.fsync(directory)


@contextlib.contextmanager
def lock(name: str, *, wait: bool) -> collections.abc.Iterator[None]:
    """Hold a lock of this host; the kernel releases that of a killed process.

    :param wait: whether to wait for another process that holds it.
    :raises BlockingIOError: another process holds it.
    """
    os.makedirs(LOCK_DIRECTORY, mode=0o700, exist_ok=True)
    path = os.path.join(LOCK_DIRECTORY, name)
    # a user who can open the file can hold the lock
    with opened(path, os.O_RDWR | os.O_CREAT, 0o600) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
