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

"""Files of vdisks: open, create, allocate, and record their owners.

Functions raise OSError if the file does not exist or the disk refuses.
"""

import collections.abc
import contextlib
import errno
import fcntl
import os
import re
import signal
import time

from nova_diskplacer import exception
from nova_diskplacer.host import files as host_files

# Bytes per call: XFS demands as many free, even if they are allocated already.
_STEP = 32 << 20

#: Directory of the vdisks on a disk.
DIRECTORY = 'vdisks'

#: Prefix of files that are no vdisks yet, or no more; no vdisk's name has it.
UNFINISHED = '.unfinished.'

SERVER_XATTR = 'user.diskplacer.server'
VOLUME_XATTR = 'user.diskplacer.volume'

# Seconds to wait for a process that has a file open for a moment.
_LEASE_TIMEOUT = 2

_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}')


def check_name(name: str) -> str:
    """Return the name of a vdisk if it can be a file name.

    :raises DiskError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise exception.DiskError(
            f'{name!r} cannot be the name of a vdisk: at most 200 letters, '
            'digits, "_", "." and "-" are allowed, not "." or "-" at first'
        )
    return name


@contextlib.contextmanager
def open_vdisk(
    directory: int, name: str, flags: int
) -> collections.abc.Iterator[int]:
    """Open the file of a vdisk and yield its descriptor.

    :raises DiskError: no vdisk can have this name.
    """
    check_name(name)
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, f'there is no vdisk {name}'
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_lease(descriptor: int) -> None:
    """Take a write lease: others cannot open the file until it is closed.

    :raises OSError: another process has it open.
    """
    # the kernel signals that another process opens it; SIGIO, the default,
    # would kill this one
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    give_up = time.monotonic() + _LEASE_TIMEOUT
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            if time.monotonic() > give_up:
                raise OSError(
                    errno.EBUSY, 'it is in use: a process has it open'
                ) from error
            time.sleep(0.05)


@contextlib.contextmanager
def open_tmpfile(directory: int, mode: int) -> collections.abc.Iterator[int]:
    """Create a file without a name and yield its descriptor.

    It vanishes when it is closed, unless ``link_tmpfile`` names it.
    """
    flags = os.O_TMPFILE | os.O_RDWR
    with host_files.opened(
        '.', flags, mode, directory=directory
    ) as descriptor:
        os.fchmod(descriptor, mode)
        yield descriptor


def link_tmpfile(directory: int, descriptor: int, name: str) -> None:
    """Give a file without a name its name."""
    # dst_dir_fd also makes Python follow the link in /proc
    os.link(f'/proc/self/fd/{descriptor}', name, dst_dir_fd=directory)


def allocate(descriptor: int, size_bytes: int) -> None:
    """Allocate all missing blocks of a file, up to a size.

    Blocks beyond the end of the file are freed: XFS adds some to a file that
    grows by writes, and keeps them where blocks were preallocated.
    """
    os.ftruncate(descriptor, os.fstat(descriptor).st_size)
    for start in range(0, size_bytes, _STEP):
        os.posix_fallocate(descriptor, start, min(_STEP, size_bytes - start))


def truncate_unlinked(descriptor: int) -> None:
    """Free the blocks of a file that has no name any more.

    XFS frees them later, and until then they count as foreign data.
    """
    if not os.fstat(descriptor).st_nlink:
        os.ftruncate(descriptor, 0)


def data_ranges(
    descriptor: int, start: int, stop: int
) -> collections.abc.Iterator[tuple[int, int]]:
    """Yield the ranges with data between two offsets as (start, stop)."""
    while start < stop:
        try:
            start = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        hole = os.lseek(descriptor, start, os.SEEK_HOLE)
        if start < stop:
            yield start, min(hole, stop)
        start = hole


def set_owners(descriptor: int, volume_id: str, server_id: str | None) -> None:
    """Record the ids of volume and server in a vdisk's file."""
    os.setxattr(descriptor, SERVER_XATTR, (server_id or '').encode())
    os.setxattr(descriptor, VOLUME_XATTR, volume_id.encode())


def get_owners(file: str | int) -> tuple[str, str | None]:
    """Return the ids of volume and server recorded in a vdisk's file.

    Both are empty for a file that is no vdisk but takes space all the same.
    """
    return (
        get_attribute(file, VOLUME_XATTR),
        get_attribute(file, SERVER_XATTR) or None,
    )


def get_attribute(file: str | int, attribute: str) -> str:
    """Return an extended attribute of a file, '' without it."""
    try:
        return os.getxattr(file, attribute).decode('utf-8', 'replace')
    except OSError as error:
        if error.errno == errno.ENODATA:
            return ''
        raise
