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
import errno
import fcntl
import os
import time
import typing

from nova_diskplacer import exception

#: prefix of the name of a link that is not in place yet
NEW_LINK = '.new.'

# Seconds between two attempts at a lock that another process holds.
_LOCK_INTERVAL = 0.01

_lock_directory = '/run/diskplacer'


def set_lock_directory(path: str) -> None:
    """Keep the locks of this process in a directory."""
    global _lock_directory
    _lock_directory = path


def lock_directory() -> str:
    """Make the directory of the locks, if it is missing, and return it."""
    os.makedirs(_lock_directory, mode=0o700, exist_ok=True)
    return _lock_directory


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


def exists(path: str) -> bool:
    """Tell whether a file exists, or a mount point whose disk fails.

    ``os.path.lexists`` denies the latter. A symbolic link is not followed.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_mount_point(path: str) -> bool:
    """Tell whether a filesystem is mounted at a path, also one that fails."""
    # only what is mounted there can fail
    fails = exists(path) and not os.path.lexists(path)
    return fails or os.path.ismount(path)


@contextlib.contextmanager
def disk_errors(subject: str) -> collections.abc.Iterator[None]:
    """Raise any OSError as a DiskError about a subject."""
    try:
        yield
    except OSError as error:
        raise exception.DiskError(f'{subject}: {error.strerror}') from error


def read_all(stream: typing.BinaryIO, path: str, most: int) -> bytes:
    """Return the content of a file.

    A device or a pipe may have no end, and would take the memory of the host.

    :param most: bytes that it may have.
    :raises DiskError: it has more.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        raise exception.DiskError(
            f'{path}: longer than {most >> 20} MiB, so it is not read'
        )
    return content


def replace(
    path: str, text: str, *, durable: bool, mode: int | None = None
) -> None:
    """Replace the content of a file; an error leaves the file unchanged.

    :param text: surrogates are the bytes that they were read from.
    :param durable: flush the file and its directory to the disk. Otherwise
        the file may be empty after a crash of the machine.
    :param mode: permissions of the file, by default those of a new one.
    :raises OSError: the file cannot be written.
    """
    new = path + '.diskplacer'
    # others could have put a symbolic link into a directory like /tmp
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with (
        opened(new, flags, 0o666) as descriptor,
        open(
            descriptor,
            'w',
            encoding='utf-8',
            errors='surrogateescape',
            closefd=False,
        ) as stream,
    ):
        if mode is not None:
            os.fchmod(descriptor, mode)
        stream.write(text)
        if durable:
            stream.flush()
            os.fsync(descriptor)
    try:
        os.rename(new, path)
    except OSError:
        os.unlink(new)
        raise
    if durable:
        sync(os.path.dirname(path) or '.')


def sync(directory: str) -> None:
    """Make the entries of a directory durable."""
    with opened(directory, os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def read_link(path: str) -> str:
    """Return the text of a symbolic link, '' if there is none.

    :raises DiskError: it cannot be read.
    """
    with disk_errors(path), contextlib.suppress(FileNotFoundError):
        return os.readlink(path)
    return ''


def replace_link(path: str, target: str) -> None:
    """Make a symbolic link in one step, durably.

    Its directory is made, too; the parent of that exists.

    :raises DiskError: it cannot be made.
    """
    directory, name = os.path.split(path)
    new = os.path.join(directory, NEW_LINK + name)
    with disk_errors(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, mode=0o755)
            sync(os.path.dirname(directory))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        os.symlink(target, new)
        os.rename(new, path)
        sync(directory)


def remove(path: str) -> None:
    """Remove a file, if it is there, durably.

    :raises DiskError: it cannot be removed.
    """
    with disk_errors(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        sync(os.path.dirname(path))


def overwrite(path: str, text: str) -> None:
    """Change a file of lines that cannot be replaced, such as a mount point.

    All lines are written at once, and the file shrinks only afterwards. So a
    process that is killed in between leaves at most empty lines at the end.

    :param text: surrogates are the bytes that they were read from.
    :raises OSError: the file cannot be written.
    """
    content = text.encode(errors='surrogateescape')
    with opened(path, os.O_RDWR) as file:
        before = os.fstat(file).st_size
        padded = content.ljust(before, b'\n')
        if os.pwrite(file, padded, 0) < len(padded):
            # lines are added, and the disk has no space for all of them
            os.ftruncate(file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.fsync(file)
        os.ftruncate(file, len(content))
        os.fsync(file)


@contextlib.contextmanager
def sole(
    name: str, refusal: exception.DiskPlacerError
) -> collections.abc.Iterator[None]:
    """Hold a lock of this host, or raise what says who holds it.

    :raises DiskPlacerError: the refusal.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(name, wait=False))
        except BlockingIOError as error:
            raise refusal from error
        yield


def is_locked(name: str) -> bool:
    """Return whether a process holds a lock of this host."""
    try:
        with lock(name, wait=False):
            return False
    except BlockingIOError:
        return True


def take_within(
    take: collections.abc.Callable[[], object],
    held: type[Exception],
    seconds: float,
) -> None:
    """Take a lock, and wait for another holder for some seconds.

    :param take: takes it without waiting, or raises ``held``.
    :raises Exception: ``held``, if there is another holder for longer.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            take()
            return
        except held:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOCK_INTERVAL)


@contextlib.contextmanager
def lock(name: str, *, wait: bool) -> collections.abc.Iterator[None]:
    """Hold a lock of this host; the kernel releases that of a killed process.

    :param wait: whether to wait for another process that holds it.
    :raises BlockingIOError: another process holds it.
    """
    path = os.path.join(lock_directory(), name)
    # a user who can open the file can hold the lock
    with opened(path, os.O_RDWR | os.O_CREAT, 0o600) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
