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

"""The file of a vdisk: opened, made, allocated, and told whose it is."""

import collections.abc
import contextlib
import errno
import fcntl
import os
import re
import signal
import time

from nova_diskplacer import exception

# XFS wants as much free as a call asks for, allocated already or not.
_STEP = 32 << 20

SERVER = 'user.diskplacer.server'
VOLUME = 'user.diskplacer.volume'

# Seconds to wait for somebody who has a file open for a look.
_PATIENCE = 2

_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}')


def check_name(name: str) -> str:
    """Return the name of a vdisk if it is one that may become a path.

    :raises DiskError: it is not.
    """
    if not _NAME.fullmatch(name):
        raise exception.DiskError(
            f'{name!r} cannot be the name of a vdisk: at most 200 letters, '
            'digits, "_", "." and "-", of which the last two not at first'
        )
    return name


@contextlib.contextmanager
def opened(
    directory: int, name: str, flags: int
) -> collections.abc.Iterator[int]:
    """Hold the file of a vdisk open.

    :raises DiskError: there can be no vdisk of that name.
    :raises OSError: there is none, or it cannot be opened.
    """
    check_name(name)
    try:
        descriptor = os.open(
            name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, f'there is no vdisk {name}'
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def unused(
    directory: int, name: str, flags: int
) -> collections.abc.Iterator[int]:
    """Hold the file of a vdisk open that nobody else has open.

    Whoever opens it meanwhile waits for the end.

    :raises DiskError: there can be no vdisk of that name.
    :raises OSError: there is none, it cannot be opened, or is in use.
    """
    with opened(directory, name, flags) as descriptor:
        take(descriptor)
        yield descriptor


def take(descriptor: int) -> None:
    """Hold an open file against others until it is closed.

    :raises OSError: somebody else has it open.
    """
    # the kernel tells by a signal if somebody opens it: SIGIO would kill
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            if time.monotonic() > give_up:
                raise OSError(
                    errno.EBUSY, 'it is in use: a process has it open'
                ) from error
            time.sleep(0.05)
        else:
            return


@contextlib.contextmanager
def unnamed(directory: int, mode: int) -> collections.abc.Iterator[int]:
    """Hold a new file open that vanishes unless it is made to appear.

    :raises OSError: the disk refuses.
    """
    descriptor = os.open('.', os.O_TMPFILE | os.O_RDWR, mode, dir_fd=directory)
    try:
        os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)


def link(directory: int, descriptor: int, name: str) -> None:
    """Give a complete unnamed file its name.

    :raises OSError: the disk refuses.
    """
    # dst_dir_fd also makes Python follow the link in /proc
    os.link(f'/proc/self/fd/{descriptor}', name, dst_dir_fd=directory)


def allocate(descriptor: int, size_bytes: int) -> None:
    """Allocate every block of a file that has none, up to a size.

    Blocks beyond its end are freed: XFS adds some to a file that grows as it
    is written, and keeps them where blocks had been allocated in advance.

    :raises OSError: the disk lacks the space or refuses.
    """
    os.ftruncate(descriptor, os.fstat(descriptor).st_size)
    for start in range(0, size_bytes, _STEP):
        os.posix_fallocate(descriptor, start, min(_STEP, size_bytes - start))


def release(descriptor: int) -> None:
    """Free the blocks of a file that has lost its name.

    XFS would do so later, and till then it would count as something else
    than vdisks that takes space.

    :raises OSError: the disk refuses.
    """
    if not os.fstat(descriptor).st_nlink:
        os.ftruncate(descriptor, 0)


def give(descriptor: int, volume_id: str, server_id: str | None) -> None:
    """Say on a vdisk's file whose it is.

    :raises OSError: the disk refuses.
    """
    os.setxattr(descriptor, SERVER, (server_id or '').encode())
    os.setxattr(descriptor, VOLUME, volume_id.encode())


def owners(file: str | int) -> tuple[str, str | None]:
    """Return the ids of volume and server that a vdisk's file states.

    :raises OSError: the disk cannot be read.
    """
    return _attribute(file, VOLUME), _attribute(file, SERVER) or None


def _attribute(file: str | int, attribute: str) -> str:
    try:
        return os.getxattr(file, attribute).decode('utf-8', 'replace')
    except OSError as error:
        # a file that somebody else put there: it takes space all the same
        if error.errno == errno.ENODATA:
            return ''
        raise
